--- The operators: each signature of the C registry becomes one Lua function `lt.name(...)`, a method `x:name(...)` where
--- its first argument is a tensor, and `x:name_(...)` where it can work in place. Arguments are positional or, as the
--- last one, a table of names. For every operator a small function is generated that checks the usual argument types and
--- calls C with nothing in between, so that LuaJIT compiles straight through; unusual arguments take the slow path.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local parse = require "ltrain.signature"
local slow = require "ltrain.arguments"
local C = bridge.C

local M = {
  functions = {}, -- name -> function
  specs = {}, -- name -> parsed signature with doc and flags
  of = setmetatable({}, { __mode = "k" }), -- function -> spec, for help()
}

local MAX_IN = 4096
local shared = {
  C = C,
  H = nil, -- set by tensor.lua, which owns the metatype
  istype = ffi.istype,
  ins = ffi.new("const lt_handle *[?]", MAX_IN),
  attr = ffi.new "lt_attr",
  outs = ffi.new("lt_handle[?]", 8),
  state = { watch = false, anomaly = false, lines = nil }, -- watch: each result is shown to note()
  dtypes = bridge.dtypes,
  copy = ffi.copy,
  slow = slow,
  max_in = MAX_IN,
}
M.state = shared.state

if (os.getenv "LTRAIN_DEBUG" or "0") ~= "0" then
  shared.state.lines = require "ltrain.trace_lines"
  shared.state.watch = true
end

-- Called with every result while watching; autograd.lua adds what anomaly mode needs.
function shared.state.note(t)
  if shared.state.lines then shared.state.lines.remember(t) end
  if shared.state.anomaly then shared.state.note_anomaly(t) end
end

---A call that did not answer 0: collects when asked to, retries once when memory is short, else raises.
function shared.finish(status, spec, n_in, out, n_out)
  if status == C.LT_ERR_MEMORY then
    bridge.collect()
    C.lt_memory_trim()
    status = C.lt_call(spec.id, shared.ins, n_in, shared.attr, out, n_out)
  end
  if status < 0 and shared.state.lines then
    for i = 0, n_in - 1 do
      local h = shared.ins[i]
      if h ~= nil and h.t_ ~= nil and C.lt_check(h) < 0 then bridge.raise(spec.name .. ": " .. bridge.last_error() .. shared.state.lines.made_at(h)) end
    end
  end
  if status ~= 0 then bridge.check(status) end
end

-- ---- code generation ----

local function has_flag(spec, flag) return bit.band(spec.flags, flag) ~= 0 end

-- Lua text that is true when argument `a` needs no slow path.
local function usual(a)
  local v = a.name
  if a.kind == "tensor" then return ("istype(H, %s)"):format(v) end
  if a.kind == "tensor?" then return ("(%s == nil or istype(H, %s))"):format(v, v) end
  if a.kind == "operand" then return ("(type(%s) == 'number' or istype(H, %s))"):format(v, v) end
  if a.kind == "number" then return a.default ~= nil and ("(%s == nil or type(%s) == 'number')"):format(v, v)
    or ("type(%s) == 'number'"):format(v) end
  return ("%s == nil"):format(v) -- other kinds: only their default is usual, the rest is checked and converted slowly
end

-- Lua text that stores argument `a` (already checked and converted) for the call.
local function store(a)
  local v = a.name
  if a.kind == "tensor" or a.kind == "tensor?" then return ("ins[%d] = %s"):format(a.input, v) end
  if a.kind == "operand" then
    return ("if type(%s) == 'number' then attr.f[%d] = %s scalars = scalars + %d ins[%d] = nil else ins[%d] = %s end"):format(
      v, a.slot, v, 2 ^ a.input, a.input, a.input, v)
  end
  if a.kind == "number" then return ("attr.f[%d] = %s"):format(a.slot, v) end
  if a.list then return ("n_list = put_list(%s)"):format(v) end
  if a.kind == "tensors" then return ("n_in = put_tensors(%s, %d)"):format(v, a.input) end
  return ("attr.i[%d] = %s"):format(a.slot, v)
end

local function default_text(a)
  if a.kind == "number" then
    if a.default == math.huge then return "math.huge" elseif a.default == -math.huge then return "-math.huge" end
    return ("%.17g"):format(a.default)
  end
  return tostring(a.default_value)
end

-- run(...): the arguments are right; entry(...): checks for the usual case first.
local TEMPLATE = [[
local S, spec, put_list, put_tensors = ...
local C, H, istype, ins, attr, outs, state, copy, finish, slow = S.C, S.H, S.istype, S.ins, S.attr, S.outs, S.state, S.copy, S.finish, S.slow
local type, math = type, math
local function run($(args))
  local scalars, n_in, n_list = 0, $(n_in), 0
  $(stores)
  attr.scalars = scalars attr.n_list = n_list attr.flags = $(flags) attr.device = 0
  $(call)
end
local function entry($(args)$(rest))
  if $(usual) then
    $(defaults)
    return run($(args))
  end
  return slow.call(spec, run, $(in_place), $(args)$(rest))
end
return entry, run
]]
local ONE_OUT = [[local out = H()
  local status = C.lt_call($(id), ins, n_in, attr, out, 1)
  if status ~= 0 then finish(status, spec, n_in, out, 1) end
  if state.watch then state.note(out) end
  return out]]
local IN_PLACE = [[local status = C.lt_call($(id), ins, n_in, attr, $(first), 1)
  if status ~= 0 then finish(status, spec, n_in, $(first), 1) end
  if state.watch then state.note($(first)) end
  return $(first)]]
local MANY_OUT = [[local status = C.lt_call($(id), ins, n_in, attr, outs, $(n_out))
  if status ~= 0 then finish(status, spec, n_in, outs, $(n_out)) end
  $(take)
  if state.watch then state.note(out1) end
  return $(names)]]

local function put_list(list)
  local n = #list
  for i = 1, n do shared.attr.list[i - 1] = list[i] end
  return n
end
local function put_tensors(list, first)
  local n = #list
  for i = 1, n do shared.ins[first + i - 1] = list[i] end
  return first + n
end

local function fill(template, values)
  return (template:gsub("%$%((%w+_?%w*)%)", function(name) return tostring(values[name]) end))
end

local function generate(spec, in_place)
  local args, checks, defaults, stores = {}, {}, {}, {}
  local rest = "" -- a list may come as several numbers: x:reshape(2, 3)
  for i, a in ipairs(spec.args) do
    args[i] = a.name
    checks[i] = usual(a)
    if in_place and i == 1 then checks[i] = ("istype(H, %s)"):format(a.name) end -- a number cannot be written into
    stores[i] = store(a)
    if a.list then rest = ", ..." end
    local plain = a.kind == "tensor" or a.kind == "tensor?" or a.kind == "operand"
    if not plain then
      if a.absent then
        defaults[#defaults + 1] = ("%s = -1"):format(a.name)
      elseif a.default_value == nil and a.kind ~= "number" then checks[i] = "false" -- needs conversion: always slow
      elseif a.default ~= nil or a.default_value ~= nil then
        local text = a.list and "spec.args[" .. i .. "].default_value" or default_text(a)
        if a.kind == "dim" or a.kind == "newdim" then
          local ndim = spec.args[1].name .. ".ndim_"
          text = a.default_value < 0 and ("%s + (%d)"):format(ndim, a.default_value + (a.kind == "newdim" and 1 or 0)) or tostring(a.default_value - 1)
          if a.default_value ~= 1 or a.kind == "dim" then checks[i] = checks[i] .. (" and %s >= %d"):format(ndim, math.abs(a.default_value)) end
        end
        defaults[#defaults + 1] = ("if %s == nil then %s = %s end"):format(a.name, a.name, text)
      end
    end
  end
  if rest == "" and #args > 0 then -- one argument too many is refused, not dropped
    rest = ", surplus"
    checks[#checks + 1] = "surplus == nil"
  end
  local take, names = {}, {}
  for k = 1, spec.n_out do
    names[k] = "out" .. k
    take[k] = ("local out%d = H() copy(out%d, outs + %d, 16)"):format(k, k, k - 1)
  end
  local values = {
    args = table.concat(args, ", "), usual = #checks > 0 and table.concat(checks, " and ") or "true",
    defaults = table.concat(defaults, " "), stores = table.concat(stores, "\n  "), n_in = spec.n_in, rest = rest,
    id = spec.id, n_out = spec.n_out, take = table.concat(take, "\n  "), names = table.concat(names, ", "),
    in_place = in_place and true or false,
    flags = in_place and tonumber(C.LT_CALL_BOUND) or 0, first = args[1],
  }
  values.call = fill(in_place and IN_PLACE or spec.n_out > 1 and MANY_OUT or ONE_OUT, values)
  local text = fill(TEMPLATE, values)
  if #args == 0 then text = text:gsub("(slow%.call%(spec, run, %w+), %)", "%1)") end
  local chunk = assert(loadstring(text, "=ltrain." .. spec.name))
  return chunk(shared, spec, put_list, put_tensors)
end

---Makes the Lua functions of every operator; called once the handle's metatype exists.
function M.bind()
  local info = ffi.new "lt_op_info"
  shared.H = bridge.handle
  for id = 0, C.lt_op_count() - 1 do
    C.lt_op_get(id, info)
    local spec = parse(ffi.string(info.signature))
    spec.id, spec.doc, spec.flags, spec.n_out = id, ffi.string(info.doc), tonumber(info.flags), tonumber(info.n_out)
    M.specs[spec.name] = spec
    M.specs[#M.specs + 1] = spec
  end
end

---Is the operator offered to scripts? The others are parts of gradients.
function M.is_public(spec) return not has_flag(spec, tonumber(C.LT_OP_HIDDEN)) end

local function is_method(spec)
  local first = spec.args[1]
  return M.is_public(spec) and not has_flag(spec, tonumber(C.LT_OP_NO_METHOD)) and first
    and (first.kind == "tensor" or first.kind == "operand")
end

---Names of the operators that are tensor methods, in-place forms included.
---@return string[]
function M.method_names()
  local names = {}
  for _, spec in ipairs(M.specs) do
    if is_method(spec) then
      names[#names + 1] = spec.name
      if has_flag(spec, tonumber(C.LT_OP_INPLACE)) then names[#names + 1] = spec.name .. "_" end
    end
  end
  return names
end

-- Functions are generated when first asked for: a script that uses ten operators compiles ten.
local function function_of(name)
  local spec = M.specs[name]
  local in_place = false
  if not spec and name:sub(-1) == "_" then
    spec = M.specs[name:sub(1, -2)]
    in_place = true
    if not spec or not has_flag(spec, tonumber(C.LT_OP_INPLACE)) then return nil end
  end
  if not spec or has_flag(spec, tonumber(C.LT_OP_HIDDEN)) then return nil end
  local entry = generate(spec, in_place)
  M.of[entry] = spec
  return entry
end

setmetatable(M.functions, { __index = function(t, name)
  local f = type(name) == "string" and function_of(name) or nil
  if f then rawset(t, name, f) end
  return f
end })

---The method x:name(), or nil.
function M.method(name)
  local spec = M.specs[name] or M.specs[name:sub(1, -2)]
  if not spec or not is_method(spec) then return nil end
  return M.functions[name]
end

---Runs any operator, hidden ones included, from argument lists as C sees them; for the library's own fused steps.
---@param name string
---@param inputs table tensors; false for one that is not given
---@param attributes table|nil { f = {}, i = {}, list = {} }
function M.raw(name, inputs, attributes, n_inputs)
  local spec = M.specs[name]
  local attr, ins, n = shared.attr, shared.ins, n_inputs or #inputs
  attr.scalars, attr.flags, attr.device, attr.n_list = 0, 0, 0, 0
  for i = 1, n do ins[i - 1] = inputs[i] or nil end
  for k, v in ipairs(attributes and attributes.f or {}) do attr.f[k - 1] = v end
  for k, v in ipairs(attributes and attributes.i or {}) do attr.i[k - 1] = v end
  if attributes and attributes.list then attr.n_list = put_list(attributes.list) end
  local status = C.lt_call(spec.id, ins, n, attr, shared.outs, spec.n_out)
  if status ~= 0 then shared.finish(status, spec, n, shared.outs, spec.n_out) end
  local results = {}
  for k = 1, spec.n_out do
    results[k] = bridge.handle()
    ffi.copy(results[k], shared.outs + (k - 1), 16)
  end
  return unpack(results)
end

return M
