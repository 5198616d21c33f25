--- lt.tensor: a tensor from nested Lua tables, a number, or another tensor. Tables must be as regular as tensors are, and
--- a value that the dtype cannot hold is an error, never a wrapped number.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local op = require "ltrain.op"
local raise, is, H, f = bridge.raise, ffi.istype, bridge.handle, op.functions

-- Only lists: a key that is no position, or a hole, would lose values.
local function check_list(v)
  if next(v, #v > 0 and #v or nil) == nil then return end -- nothing behind the last
  local n = 0
  for key in pairs(v) do
    if type(key) ~= "number" then raise(("tensor: a table has the key '%s'; it must be a list of values"):format(tostring(key))) end
    n = n + 1
  end
  if n ~= #v then raise "tensor: a list of values has a hole (nil) in it" end
end

local function measure(v, shape, depth)
  if type(v) ~= "table" then return end
  if depth > 8 then raise "tensor: tables are nested more than 8 deep" end
  shape[depth] = #v
  if #v > 0 then measure(v[1], shape, depth + 1) end
end

-- Smallest and largest value of the whole-number types.
local RANGE = { int64 = { -2 ^ 63, 2 ^ 63 }, int32 = { -2 ^ 31, 2 ^ 31 - 1 }, uint8 = { 0, 255 } }

-- What a value is called in messages: its positions, "2,1".
local function name_of(path, i)
  if i then path = path == "" and tostring(i) or path .. "," .. i end
  return path == "" and "the value" or "element " .. path
end

-- One value as the dtype holds it.
local function checked(v, dtype, path, i)
  if type(v) == "boolean" then v = v and 1 or 0 end
  if type(v) ~= "number" and not is("int64_t", v) then
    raise(("tensor: %s is a %s; it must be a number%s"):format(name_of(path, i), type(v), type(v) == "table" and " like its neighbours" or ""))
  end
  local range = RANGE[dtype]
  if range then
    local n = tonumber(v)
    if n ~= math.floor(n) or n < range[1] or n > range[2] or (dtype == "int64" and type(v) == "number" and n == range[2]) then
      raise(("tensor: %s is %.17g; %s holds whole numbers from %.0f to %s"):format(name_of(path, i), n, dtype, range[1],
        dtype == "int64" and "9223372036854775807" or ("%.0f"):format(range[2])))
    end
  elseif dtype == "bool" then
    v = v ~= 0 and 1 or 0
  end
  return v
end

-- Writes row-major; every table of a level must have the same length. Paths are made for messages and rows only.
local function write(v, p, shape, depth, at, path, dtype)
  if depth > #shape then
    p[at] = checked(v, dtype, path)
    return at + 1
  end
  local n = shape[depth]
  if type(v) ~= "table" or #v ~= n then
    raise(("tensor: %s has %s elements and its neighbours have %d; all must have the same length"):format(path == "" and "the table" or "row " .. path,
      type(v) == "table" and #v or "no", n))
  end
  check_list(v)
  if depth < #shape then
    for i = 1, n do at = write(v[i], p, shape, depth + 1, at, path == "" and tostring(i) or path .. "," .. i, dtype) end
    return at
  end
  local plain = not RANGE[dtype] and dtype ~= "bool"
  for i = 1, n do
    local x = v[i]
    p[at + i - 1] = plain and type(x) == "number" and x or checked(x, dtype, path, i)
  end
  return at + n
end

local function leaf_type(v)
  for _ = 1, 9 do -- as deep as measure() allows; a table may hold itself
    if type(v) == "table" then v = v[1] end
  end
  return is("int64_t", v) and "int64" or type(v) == "boolean" and "bool" or "float32"
end

---A tensor from nested tables of numbers (or booleans), a number, or another tensor (copied).
---@param values table|number|boolean|userdata
---@param options table|string|nil { dtype = "float32", requires_grad = false }, or the dtype's name
local function new(values, options)
  if type(options) == "string" then options = { dtype = options } end
  options = bridge.options("tensor", options, { "dtype", "requires_grad" })
  local t
  if type(values) == "table" then
    for _, key in ipairs { "dtype", "requires_grad" } do
      if values[key] ~= nil then
        raise(("tensor: '%s' stands among the values; options are a table of their own: lt.tensor({ 1, 2 }, { %s = ... })"):format(key, key))
      end
    end
  end
  if is(H, values) then
    t = f.clone(f.detach(values))
    if options.dtype then t = f.to(t, options.dtype) end
  else
    local shape, dtype = {}, options.dtype or leaf_type(values)
    if not bridge.dtypes[dtype] then
      raise(("tensor: there is no dtype '%s'%s; dtypes are %s"):format(tostring(dtype), bridge.suggest(dtype, bridge.dtype_list),
        table.concat(bridge.dtype_list, ", ")))
    end
    measure(values, shape, 1)
    local half = dtype == "bfloat16" or dtype == "float16"
    t = f.empty(shape, half and "float32" or dtype)
    write(values, bridge.methods.data(t), shape, 1, 0, "", dtype)
    if half then t = f.to(t, dtype) end
  end
  if options.requires_grad then bridge.methods.requires_grad_(t) end
  return t
end

return new
