--- The slow path of an operator call: options tables, defaults, lists given as several numbers, dims counted from the
--- end, dtype names; and the errors for everything that does not fit.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local raise = bridge.raise

local M = {}

local function is_tensor(v) return ffi.istype(bridge.handle, v) end

local function describe(v)
  if is_tensor(v) then return "a tensor" end
  if type(v) == "string" then return ("the string '%s'"):format(v) end
  if type(v) == "number" then return ("the number %.14g"):format(v) end
  if v == nil then return "nothing" end
  return "a " .. type(v)
end

local function fail(spec, a, wanted, v)
  raise(("%s: %s must be %s, got %s; signature: %s"):format(spec.name, a.name, wanted, describe(v), spec.text))
end

local function whole(spec, a, v)
  if ffi.istype("int64_t", v) then v = tonumber(v) end
  if type(v) ~= "number" or v ~= math.floor(v) or math.abs(v) > 2 ^ 53 then fail(spec, a, "a whole number", v) end
  return v
end

-- 1-based (or negative) dim -> 0-based.
local function dim(spec, a, v, ndim)
  v = whole(spec, a, v)
  local n = a.kind == "newdim" and ndim + 1 or ndim
  if v == 0 or v > n or v < -n then
    raise(("%s: dim %d; %s"):format(spec.name, v, n == 0 and "the tensor is a number and has no dims"
      or ("legal are 1 to %d, or -%d to -1 from the end"):format(n, n)))
  end
  return v > 0 and v - 1 or n + v
end

-- How many dims the dims of this call are counted in: those of the first tensor.
local function dims_of(spec, values)
  local a = spec.args[1]
  local first = values[1]
  if a and a.kind == "tensors" then first = type(first) == "table" and first[1] or nil end
  return is_tensor(first) and first.ndim_ or 0
end

-- Numbers reach C as doubles: an int64 that none holds is refused, never rounded.
local function exact(spec, a, v)
  if v > 9007199254740992LL or v < -9007199254740992LL then
    raise(("%s: %s is %s; a number beyond 2^53 must come as a tensor: lt.tensor(%s)"):format(spec.name, a.name,
      tostring(v):gsub("LL$", ""), tostring(v)))
  end
  return tonumber(v)
end

local convert = {}
function convert.tensor(spec, a, v)
  if not is_tensor(v) then fail(spec, a, "a tensor", v) end
  return v
end
convert["tensor?"] = function(spec, a, v)
  if v ~= nil and not is_tensor(v) then fail(spec, a, "a tensor or nil", v) end
  return v
end
function convert.operand(spec, a, v)
  if type(v) == "boolean" then return v and 1 or 0 end
  if ffi.istype("int64_t", v) then return exact(spec, a, v) end
  if type(v) ~= "number" and not is_tensor(v) then fail(spec, a, "a tensor or a number", v) end
  return v
end
function convert.tensors(spec, a, v)
  if type(v) ~= "table" or #v == 0 then fail(spec, a, "a list of tensors", v) end
  if #v > 4000 then raise(("%s: %d tensors; at most 4000 at a time"):format(spec.name, #v)) end
  for i = 1, #v do -- not ipairs: it ends at a hole
    local t = v[i]
    if not is_tensor(t) then raise(("%s: element %d of %s must be a tensor, got %s"):format(spec.name, i, a.name, describe(t))) end
  end
  return v
end
function convert.number(spec, a, v)
  if ffi.istype("int64_t", v) then return exact(spec, a, v) end
  if type(v) ~= "number" then fail(spec, a, "a number", v) end
  return v
end
convert.int = whole
function convert.bool(spec, a, v)
  if type(v) ~= "boolean" then fail(spec, a, "true or false", v) end
  return v and 1 or 0
end
function convert.dtype(spec, _, v)
  local number = bridge.dtypes[v]
  if not number then
    local shown = describe(v):gsub("^the string ", "")
    raise(("%s: there is no dtype %s%s; dtypes are %s"):format(spec.name, shown, type(v) == "string" and bridge.suggest(v, bridge.dtype_list) or "",
      table.concat(bridge.dtype_list, ", ")))
  end
  return number
end
function convert.choice(spec, a, v)
  local number = a.choices[v]
  if not number then fail(spec, a, "one of '" .. table.concat(a.names, "', '") .. "'", v) end
  return number
end
convert.dim = dim
convert.newdim = dim
function convert.ints(spec, a, v)
  if type(v) == "number" or ffi.istype("int64_t", v) then v = { v } end
  if type(v) ~= "table" then fail(spec, a, "a list of whole numbers", v) end
  if #v > 16 then raise(("%s: %s has %d numbers; at most 16"):format(spec.name, a.name, #v)) end
  local list = {}
  for i = 1, #v do list[i] = whole(spec, a, v[i]) end
  return list
end
function convert.dims(spec, a, v, ndim)
  if type(v) == "number" then v = { v } end
  if type(v) ~= "table" then fail(spec, a, "a dim or a list of dims", v) end
  local list = {}
  for i = 1, #v do list[i] = dim(spec, { name = a.name, kind = "dim" }, v[i], ndim) end
  return list
end

-- An empty table is a value where a list may stand, else options of which none is given.
local function is_options(v, a)
  if type(v) ~= "table" then return false end
  local key = next(v)
  if key == nil then return not (a and (a.list or a.kind == "tensors")) end
  return type(key) == "string"
end

-- Several numbers in place of a list: x:reshape(2, 3).
local function gather_list(spec, given, n)
  for i, a in ipairs(spec.args) do
    if a.list and type(given[i]) == "number" then
      local list, rest = {}, { unpack(given, 1, i - 1) }
      local k = i
      while k <= n and type(given[k]) == "number" do
        list[#list + 1] = given[k]
        k = k + 1
      end
      rest[i] = list
      local count = i
      for j = k, n do
        count = count + 1
        rest[count] = given[j]
      end
      return rest, count
    end
  end
  return given, n
end

---Sorts out the arguments and runs the operator. `run` takes them checked and converted, in the signature's order.
---In place, the first is written into: a tensor also where the operator would take a number.
function M.call(spec, run, in_place, ...)
  local given, n = { ... }, select("#", ...)
  while n > 0 and given[n] == nil do n = n - 1 end
  local options
  if n > 0 and is_options(given[n], spec.args[n]) then
    options = given[n]
    given[n] = nil
    n = n - 1
    local names = {}
    for i, a in ipairs(spec.args) do names[i] = a.name end
    if spec.args.dims and not spec.args.dim and options.dim ~= nil and options.dims == nil then -- one dim may be called so
      local renamed = { dims = options.dim }
      for key, value in pairs(options) do
        if key ~= "dim" then renamed[key] = value end
      end
      options = renamed
    end
    bridge.options(spec.name, options, names)
  end
  given, n = gather_list(spec, given, n)
  if n > #spec.args then
    raise(("%s: %d arguments given, at most %d are taken; signature: %s"):format(spec.name, n, #spec.args, spec.text))
  end
  local values = {}
  for i, a in ipairs(spec.args) do
    local v = given[i]
    if options and options[a.name] ~= nil then
      if v ~= nil then raise(("%s: %s is given twice, by position and by name"):format(spec.name, a.name)) end
      v = options[a.name]
    end
    if v == nil then
      if not a.has_default then fail(spec, a, a.kind == "tensors" and "a list of tensors" or "given", nil) end
      if a.absent then
        v = -1
      elseif a.kind == "dim" or a.kind == "newdim" then
        v = dim(spec, a, a.default_value, dims_of(spec, values))
      else
        v = a.default_value
        if a.kind == "number" then v = a.default end
      end
    else
      v = convert[in_place and i == 1 and "tensor" or a.kind](spec, a, v, dims_of(spec, values))
    end
    values[i] = v
  end
  return run(unpack(values, 1, #spec.args))
end

return M
