--- The tensor handle as scripts see it: operators, indexing (positions from 1, negative from the end), properties
--- (x.shape, x.dtype, x.device, x.grad, x.requires_grad) and conversion from and to Lua tables. Methods that are
--- operators come from op.lua.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local op = require "ltrain.op"
local C, raise, check = bridge.C, bridge.raise, bridge.check
local f = op.functions
local methods, properties = bridge.methods, bridge.properties
local H = bridge.handle
local is = ffi.istype

local M = {}

local scratch_shape, scratch_stride = ffi.new "int64_t[8]", ffi.new "int64_t[8]"
local scratch_number, scratch_int = ffi.new "double[1]", ffi.new "int64_t[1]"
local scratch_pointer = ffi.new "void *[1]"

---Is `v` a tensor?
function M.is_tensor(v) return is(H, v) end

-- ---- properties ----

local function shape_of(t)
  check(C.lt_shape(t, scratch_shape, nil))
  local shape = {}
  for d = 1, t.ndim_ do shape[d] = tonumber(scratch_shape[d - 1]) end
  return shape
end
local SHAPE = { __tostring = function(shape) return "[" .. table.concat(shape, ", ") .. "]" end } -- for print(x.shape)
function properties.shape(t) return setmetatable(shape_of(t), SHAPE) end
function properties.ndim(t) return t.ndim_ end
function properties.T(t) return methods.t(t) end
function properties.dtype(t) return bridge.dtype_names[t.dtype_] end
function properties.device(t)
  check(C.lt_check(t))
  return ffi.string(C.lt_tensor_device(t))
end
function properties.requires_grad(t) return C.lt_requires_grad(t) end
function properties.is_leaf(t) return C.lt_is_leaf(t) end
function properties.grad(t)
  local g = H()
  check(C.lt_grad(t, g))
  if g.t_ ~= nil then return g end
  local rows, values = H(), H()
  check(C.lt_grad_rows(t, rows, values))
  if rows.t_ ~= nil then return require "ltrain.row_grad"(t, rows, values) end
  return nil
end

local function shape_text(t)
  return "[" .. table.concat(shape_of(t), ", ") .. "]"
end

-- ---- methods that are no operators ----

---Number of dims.
function methods.dim(t) return t.ndim_ end

---The shape as a table, or the size of one dim (1-based, negative from the end).
---@param d integer|nil
function methods.size(t, d)
  if d == nil then return properties.shape(t) end
  check(C.lt_shape(t, scratch_shape, nil))
  local at = type(d) == "number" and (d > 0 and d or t.ndim_ + 1 + d) or 0
  if at < 1 or at > t.ndim_ or at ~= math.floor(at) then raise(("size: dim %s; the tensor is %s"):format(tostring(d), shape_text(t))) end
  return tonumber(scratch_shape[at - 1])
end

---Number of elements.
function methods.numel(t)
  check(C.lt_numel(t, scratch_number))
  return scratch_number[0]
end

---The value of a tensor of one element as a Lua number (an int64 beyond 2^53 as a cdata integer).
function methods.item(t)
  if t.dtype_ == C.LT_INT64 then
    check(C.lt_item_int64(t, scratch_int))
    local v = scratch_int[0]
    return (v > -9007199254740992LL and v < 9007199254740992LL) and tonumber(v) or v
  end
  check(C.lt_item_number(t, scratch_number))
  if t.dtype_ == C.LT_BOOL then return scratch_number[0] ~= 0 end
  return scratch_number[0]
end

---Strides in elements.
function methods.stride(t)
  check(C.lt_shape(t, scratch_shape, scratch_stride))
  local s = {}
  for d = 1, t.ndim_ do s[d] = tonumber(scratch_stride[d - 1]) end
  return s
end

function methods.is_contiguous(t) return C.lt_is_contiguous(t) end

---x itself when its elements lie in row-major order, else a copy that does.
function methods.contiguous(t) return C.lt_is_contiguous(t) and t or f.clone(t) end

---Takes the tensor out of the step scope, so that it lives as long as the script holds it. Returns it.
function methods.keep(t)
  check(C.lt_keep(t))
  return t
end

---Tells whether gradients are wanted for this leaf. Returns it.
---@param on boolean|nil default true
function methods.requires_grad_(t, on)
  check(C.lt_set_requires_grad(t, on ~= false))
  return t
end

---Replaces the gradient; nil clears it.
---@param grad userdata|nil
function methods.set_grad(t, grad)
  if grad ~= nil and not is(H, grad) then raise(("set_grad: the gradient is a %s; it must be a tensor or nil"):format(type(grad))) end
  check(C.lt_set_grad(t, grad))
end

---Do both show the same memory, if not the same elements of it?
function methods.shares_storage(t, other)
  bridge.expect("shares_storage", "the other", other, "tensor")
  return C.lt_shares_storage(t, other)
end

local pointer_types = { [0] = "float *", "double *", "uint16_t *", "uint16_t *", "int64_t *", "int32_t *", "uint8_t *", "uint8_t *" }
for i = 0, 7 do pointer_types[i] = ffi.typeof(pointer_types[i]) end

---A typed FFI pointer to the first element. Valid while the tensor lives; writes through it must be told: x:touch().
---Read floats that come from files with :item() or :totable(): LuaJIT takes some NaNs of a pointer for other values.
function methods.data(t)
  check(C.lt_data(t, scratch_pointer))
  return ffi.cast(pointer_types[t.dtype_], scratch_pointer[0])
end

---Tells the engine that the memory was written through x:data().
function methods.touch(t)
  C.lt_tensor_bump(t)
  return t
end

---The elements as nested Lua tables (a number for a scalar; booleans for bool).
function methods.totable(t)
  t = f.detach(t)
  local values = f.clone(t)
  local p, shape, ndim, at = methods.data(values), shape_of(t), t.ndim_, 0
  local truth, dtype = t.dtype_ == C.LT_BOOL, t.dtype_
  local float = dtype <= C.LT_FLOAT16
  local function value()
    local v
    if float then v = C.lt_number_at(dtype, p, at) else v = p[at] end
    at = at + 1
    if truth then return v ~= 0 end
    if type(v) == "cdata" and v > -9007199254740992LL and v < 9007199254740992LL then return tonumber(v) end
    return v
  end
  local function level(d)
    if d > ndim then return value() end
    local list = {}
    for i = 1, shape[d] do list[i] = level(d + 1) end
    return list
  end
  local result = level(1)
  check(C.lt_check(values)) -- this use keeps the memory alive until here
  return result
end

methods.tolist = methods.totable

---Backward from this tensor; see autograd.lua.
function methods.backward(t, options)
  return require "ltrain.autograd".backward(t, options)
end

---Calls fn(grad) when the gradient of this tensor is complete; a tensor it returns replaces the gradient.
---@return table hook with :remove()
function methods.register_hook(t, fn)
  return require "ltrain.autograd".register_hook(t, fn)
end

---In another dtype ("float64") or like another tensor.
function methods.to(t, what)
  if is(H, what) then return f.to(t, bridge.dtype_names[what.dtype_]) end
  if what == "cpu" then return t end
  return f.to(t, what)
end
for name in pairs(bridge.dtypes) do methods[name] = function(t) return f.to(t, name) end end
methods.float, methods.double, methods.long, methods.int = methods.float32, methods.float64, methods.int64, methods.int32

function methods.view(t, ...) return f.reshape(t, ...) end
function methods.t(t)
  if t.ndim_ ~= 2 then raise(("t: the tensor is %s; only two dims can be exchanged without naming them"):format(shape_text(t))) end
  return f.transpose(t, 1, 2)
end
function methods.narrow(t, dim, first, length)
  if type(first) ~= "number" or type(length) ~= "number" then
    raise(("narrow: first is %s and length %s; both must be whole numbers"):format(tostring(first), tostring(length)))
  end
  return f.slice(t, dim, first, first + length - 1)
end

local function like(where, other)
  if not is(H, other) then raise(("%s: the argument is a %s; it must be a tensor"):format(where, type(other))) end
  return other
end
function methods.expand_as(t, other) return f.expand(t, shape_of(like("expand_as", other))) end
function methods.view_as(t, other) return f.reshape(t, shape_of(like("view_as", other))) end
function methods.type_as(t, other) return methods.to(t, like("type_as", other)) end

-- ---- indexing ----

-- x[{ {1, 3}, 2, {} }]: a range, one position, all of a dim.
local function index_by(t, spec)
  local at = 1
  for key in pairs(spec) do
    if type(key) ~= "number" then raise(("index: the key has an entry '%s'; entries are positions, ranges or {}, in order of dims"):format(tostring(key))) end
  end
  if #spec > t.ndim_ then raise(("index: %d entries; the tensor is %s"):format(#spec, shape_text(t))) end
  for i, s in ipairs(spec) do
    if type(s) == "number" then
      t = f.select(t, at, s)
    elseif type(s) == "table" then
      if #s > 3 then raise(("index: entry %d has %d numbers; a range is {}, {first, last} or {first, last, step}"):format(i, #s)) end
      if #s == 1 then t = f.slice(t, at, s[1], s[1])
      elseif #s >= 2 then t = f.slice(t, at, s[1], s[2], s[3] or 1) end
      at = at + 1
    else
      raise(("index: entry %d is a %s; it must be a position, {first, last} or {}"):format(i, type(s)))
    end
  end
  return t
end

-- A mask of fewer dims than t chooses whole rows; here it gets t's number of dims.
local function mask_for(t, mask)
  local shape, of = shape_of(t), shape_of(mask)
  for d, n in ipairs(of) do
    if n ~= shape[d] then raise(("index: the mask is %s and the tensor %s; the mask's sizes must be the tensor's first ones"):format(
      shape_text(mask), shape_text(t))) end
  end
  for d = #of + 1, #shape do of[d] = 1 end
  return f.reshape(mask, of)
end

local function index(t, key)
  if is(H, key) then
    if key.dtype_ ~= C.LT_BOOL then return f.index_select(t, 1, key) end
    local mask = mask_for(t, key)
    if key.ndim_ == t.ndim_ then return f.masked_select(t, key) end
    if key.ndim_ == 1 then return f.index_select(t, 1, f.reshape(f.nonzero(key), { -1 })) end
    local rest = { -1, unpack(shape_of(t), key.ndim_ + 1) }
    return f.reshape(f.masked_select(t, f.expand(mask, shape_of(t))), rest)
  end
  if type(key) ~= "table" then
    raise(("index: the key is a %s; it must be a position, { {first, last}, ... }, a mask or a tensor of ids"):format(type(key)))
  end
  return index_by(t, key)
end

-- x[ids] = value: rows by 0-based id, of equal ones the last.
local function set_rows(t, ids, value)
  local rows = shape_of(t)
  rows[1] = methods.numel(ids)
  local source = f.expand(is(H, value) and f.to(value, bridge.dtype_names[t.dtype_]) or f.full({}, value, bridge.dtype_names[t.dtype_]), rows)
  local places = { rows[1] }
  for d = 2, #rows do places[d] = 1 end
  f.copy_(t, f.scatter(t, 1, f.expand(f.reshape(ids, places), rows), source))
end

local function get(t, key)
  if type(key) == "string" then
    local m = methods[key]
    if m then return m end
    local p = properties[key]
    if p then return p(t) end
    m = op.method(key) or require("ltrain.compose").methods[key]
    if m then
      methods[key] = m
      return m
    end
    local names = {}
    for name in pairs(methods) do names[#names + 1] = name end
    for name in pairs(properties) do names[#names + 1] = name end
    for _, spec in ipairs(op.specs) do names[#names + 1] = spec.name end
    table.sort(names)
    raise(("tensor: there is no method or property '%s'%s"):format(key, bridge.suggest(key, names)))
  end
  if type(key) == "number" then return f.select(t, 1, key) end
  return index(t, key)
end

local function set(t, key, value)
  if key == "grad" then
    methods.set_grad(t, value)
  elseif key == "requires_grad" then
    check(C.lt_set_requires_grad(t, value and true or false))
  elseif type(key) == "string" then
    raise(("tensor: property '%s' cannot be set"):format(key))
  elseif is(H, key) then
    if key.dtype_ == C.LT_BOOL then f.copy_(t, f.where(mask_for(t, key), value, t)) else set_rows(t, key, value) end
  else
    f.copy_(get(t, key), value)
  end
end

ffi.metatype("lt_handle", {
  __gc = C.lt_release,
  __index = get,
  __newindex = set,
  __add = function(a, b) return f.add(a, b) end,
  __sub = function(a, b) return f.sub(a, b) end,
  __mul = function(a, b) return f.mul(a, b) end,
  __div = function(a, b) return f.div(a, b) end,
  __mod = function(a, b) return f.mod(a, b) end,
  __pow = function(a, b) return f.pow(a, b) end,
  __unm = function(a) return f.neg(a) end,
  __len = function(t) return methods.size(t, 1) end,
  __eq = function(a, b) return is(H, a) and is(H, b) and C.lt_same_tensor(a, b) end,
  __lt = function() raise "tensor: < compares Lua values; use a:lt(b) for elements" end,
  __le = function() raise "tensor: <= compares Lua values; use a:le(b) for elements" end,
  __concat = function(a, b) return tostring(a) .. tostring(b) end,
  __tostring = function(t) return require "ltrain.tensor_text"(t) end,
})
op.bind()

M.new = require "ltrain.from_table"
M.shape_text = shape_text
return M
