--- Parameter groups of an optimizer: which tensors, with which options, the state each of them carries, and the flat
--- buffers their dense gradients live in. Tables get their state beside their rows.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local Module = require "ltrain.nn.module"
local C, raise, check = bridge.C, bridge.raise, bridge.check
local H = bridge.handle

local M = {}

-- { tensor, ... }, a module, module:named_parameters(), or { { params = ..., lr = ... }, ... }
function M.entries_of(params, where)
  if Module.is_module(params) then return params:named_parameters() end
  local list = {}
  for i, p in ipairs(params) do
    if ffi.istype(H, p) then
      local tables = package.loaded["ltrain.nn.embedding"]
      list[i] = { name = ("%s%d"):format(where, i), tensor = p, owner = tables and tables.owner_of(p), field = "weight" }
    elseif type(p) == "table" and ffi.istype(H, p.tensor) then list[i] = p
    else raise(("optimizer: parameter %d is a %s; give tensors, a module or module:named_parameters()"):format(i, type(p))) end
  end
  return list
end

function M.number(name, key, v, low, high)
  if type(v) ~= "number" or not (v >= low and v < high) then
    raise(("%s: %s is %s; it must be at least %g%s"):format(name, key, tostring(v), low, high < math.huge and (" and below %g"):format(high) or ""))
  end
  return v
end

function M.options_struct(self, o)
  local s = ffi.new "lt_step_options"
  C.lt_step_defaults(self.rule, s)
  s.lr = M.number(self.name, "lr", o.lr, 0, math.huge)
  s.weight_decay = M.number(self.name, "weight_decay", o.weight_decay or 0, 0, math.huge)
  s.momentum = M.number(self.name, "momentum", o.momentum or 0, 0, math.huge)
  s.dampening = o.dampening or 0
  s.lr_decay = M.number(self.name, "lr_decay", o.lr_decay or 0, 0, math.huge)
  s.eps = M.number(self.name, "eps", o.eps or 0, 0, math.huge)
  if o.betas ~= nil then
    if type(o.betas) ~= "table" then raise(("%s: betas is %s; it must be a list of two numbers"):format(self.name, tostring(o.betas))) end
    s.beta1, s.beta2 = M.number(self.name, "betas[1]", o.betas[1], 0, 1), M.number(self.name, "betas[2]", o.betas[2], 0, 1)
  end
  s.flags = (o.nesterov and tonumber(C.LT_STEP_NESTEROV) or 0) + (self.decoupled and tonumber(C.LT_STEP_DECOUPLED) or 0)
  if o.nesterov and (o.momentum or 0) == 0 then raise(self.name .. ": nesterov needs a momentum above 0") end
  return s
end

-- Is this parameter an embedding table (its module says so)?
local function is_table(entry) return entry.owner and entry.owner.is_table end

-- A parameter is a leaf and stands once in the optimizer.
function M.check_entry(self, entry, seen)
  if not entry.tensor.is_leaf then
    raise(("%s: parameter '%s' is the result of an operator; only leaves are trained: give the tensor it was made from"):format(self.name, entry.name))
  end
  for _, other in ipairs(seen) do
    if other.tensor == entry.tensor then raise(("%s: parameters '%s' and '%s' are the same tensor; give it once"):format(self.name, other.name, entry.name)) end
  end
  seen[#seen + 1] = entry
end

function M.adopt(self, group, entry)
  local n = C.lt_step_states(group.struct)
  local p = { name = entry.name, tensor = entry.tensor, owner = entry.owner, field = entry.field, states = {}, steps = 0, table = is_table(entry) }
  if p.table then
    p.update = group.update or entry.owner.update or "lazy"
    p.l2 = entry.owner.l2 or group.weight_decay or 0
    p.batch_decay = group.l2_scope == "batch" or (group.l2_scope == nil and p.update == "lazy")
    if p.update == "lazy" and not p.batch_decay and p.l2 > 0 then
      raise(self.name .. ": a lazy update touches rows of the batch only; l2_scope = 'table' needs update = 'exact'")
    end
    if p.update ~= "lazy" and p.update ~= "exact" then raise(("%s: update is '%s'; it must be 'lazy' or 'exact'"):format(self.name, tostring(p.update))) end
    if n > 0 then
      local states = ffi.new("lt_handle[?]", n)
      check(C.lt_table_adopt(p.tensor, n, states))
      for k = 1, n do
        p.states[k] = H()
        ffi.copy(p.states[k], states + (k - 1), 16)
        p.states[k]:keep()
      end
    end
  else
    for k = 1, n do p.states[k] = require("ltrain.op").functions.zeros(p.tensor.shape, p.tensor.dtype):keep() end
  end
  if self.initial_state then self:initial_state(p, group) end
  return p
end

-- Dense gradients of each dtype lie in one flat buffer, in parameter order; later all-reduce works on it without copies.
function M.make_arena(self)
  self.arenas = {}
  local by_dtype, order = {}, {}
  for _, group in ipairs(self.groups) do
    for _, p in ipairs(group.params) do
      if not p.table then
        local dtype = p.tensor.dtype
        if not by_dtype[dtype] then
          by_dtype[dtype] = {}
          order[#order + 1] = dtype
        end
        table.insert(by_dtype[dtype], p.tensor)
      end
    end
  end
  for _, dtype in ipairs(order) do
    local list = by_dtype[dtype]
    local array, arena = ffi.new("const lt_handle *[?]", #list), H()
    for i, t in ipairs(list) do array[i - 1] = t end
    check(C.lt_grad_arena(array, #list, arena))
    self.arenas[#self.arenas + 1] = arena:keep()
  end
end

return M
