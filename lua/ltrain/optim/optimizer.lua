--- What all optimizers share: parameter groups, state by parameter name, flat gradient arenas, embedding tables (lazy or
--- exact), clipping, and the step itself, which is one fused pass in C over all dense parameters of a group and one over
--- each table's rows. A parameter that got no gradient is skipped, as with PyTorch's None.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local Module = require "ltrain.nn.module"
local C, raise, check = bridge.C, bridge.raise, bridge.check
local H = bridge.handle

local Optimizer = {}
Optimizer.__index = Optimizer

local GROUP_OPTIONS = { "lr", "weight_decay", "momentum", "dampening", "nesterov", "betas", "eps", "lr_decay", "l2_scope", "update" }

-- ---- groups ----

-- { tensor, ... }, a module, module:named_parameters(), or { { params = ..., lr = ... }, ... }
local function entries_of(params, where)
  if Module.is_module(params) then return params:named_parameters() end
  local list = {}
  for i, p in ipairs(params) do
    if ffi.istype(H, p) then list[i] = { name = ("%s%d"):format(where, i), tensor = p }
    elseif type(p) == "table" and ffi.istype(H, p.tensor) then list[i] = p
    else raise(("optimizer: parameter %d is a %s; give tensors, a module or module:named_parameters()"):format(i, type(p))) end
  end
  return list
end

local function number(name, key, v, low, high)
  if type(v) ~= "number" or not (v >= low and v < high) then
    raise(("%s: %s is %s; it must be at least %g%s"):format(name, key, tostring(v), low, high < math.huge and (" and below %g"):format(high) or ""))
  end
  return v
end

local function options_struct(self, o)
  local s = ffi.new "lt_step_options"
  C.lt_step_defaults(self.rule, s)
  s.lr = number(self.name, "lr", o.lr, 0, math.huge)
  s.weight_decay = number(self.name, "weight_decay", o.weight_decay or 0, 0, math.huge)
  s.momentum = number(self.name, "momentum", o.momentum or 0, 0, math.huge)
  s.dampening = o.dampening or 0
  s.lr_decay = number(self.name, "lr_decay", o.lr_decay or 0, 0, math.huge)
  s.eps = number(self.name, "eps", o.eps, 0, math.huge)
  if o.betas then
    s.beta1, s.beta2 = number(self.name, "betas[1]", o.betas[1], 0, 1), number(self.name, "betas[2]", o.betas[2], 0, 1)
  end
  s.flags = (o.nesterov and tonumber(C.LT_STEP_NESTEROV) or 0) + (self.decoupled and tonumber(C.LT_STEP_DECOUPLED) or 0)
  if o.nesterov and (o.momentum or 0) == 0 then raise(self.name .. ": nesterov needs a momentum above 0") end
  return s
end

-- Is this parameter an embedding table (its module says so)?
local function is_table(entry) return entry.owner and entry.owner.is_table end

local function adopt(self, group, entry)
  local n = C.lt_step_states(group.struct)
  local p = { name = entry.name, tensor = entry.tensor, owner = entry.owner, states = {}, steps = 0, table = is_table(entry) }
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
local function make_arena(self)
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

---Makes an optimizer class's instance.
---@param class table { name, rule, defaults, decoupled }
function Optimizer.new(class, params, options)
  local self = setmetatable({ groups = {}, steps = 0 }, class)
  if options == nil and not Module.is_module(params) and type(params) == "table" and params[1] == nil then
    self.pending = params -- lt.optim.Adam { lr = 1e-3 }: parameters come with compile
    bridge.options(self.name, params, GROUP_OPTIONS)
    return self
  end
  return self:bind(params, options)
end

---Gives a pending optimizer its parameters. Called by model:compile.
function Optimizer:bind(params, options)
  options = options or self.pending or {}
  self.pending = nil
  bridge.options(self.name, options, GROUP_OPTIONS)
  local lists = { { params = params } }
  if not Module.is_module(params) and type(params[1]) == "table" and params[1].params then lists = params end
  local count = 0
  for i, list in ipairs(lists) do
    local group = { name = ("group%d"):format(i) }
    for _, key in ipairs(GROUP_OPTIONS) do
      group[key] = list[key]
      if group[key] == nil then group[key] = options[key] end
      if group[key] == nil then group[key] = self.defaults[key] end
    end
    local known = { "params" }
    for _, key in ipairs(GROUP_OPTIONS) do known[#known + 1] = key end
    bridge.options(self.name, list, known)
    group.struct = options_struct(self, group)
    if group.l2_scope ~= nil and group.l2_scope ~= "table" and group.l2_scope ~= "batch" then
      raise(("%s: l2_scope is '%s'; it must be 'batch' (rows of the batch) or 'table' (all rows)"):format(self.name, tostring(group.l2_scope)))
    end
    group.params = {}
    for k, entry in ipairs(entries_of(list.params, group.name .. ".")) do
      group.params[k] = adopt(self, group, entry)
      count = count + 1
    end
    self.groups[i] = group
  end
  if count == 0 then raise(self.name .. ": there are no parameters to train") end
  make_arena(self)
  return self
end

-- ---- gradients ----

---Clears the gradients of all parameters.
function Optimizer:zero_grad()
  for _, group in ipairs(self.groups) do
    for _, p in ipairs(group.params) do check(C.lt_set_grad(p.tensor, nil)) end
  end
end

local grad, rows, values = ffi.new "lt_handle[1]", ffi.new "lt_handle[1]", ffi.new "lt_handle[1]"

-- Every gradient there is: dense ones and the values of sparse ones. Handles are released by release().
local function gather(self)
  local list = {}
  for _, group in ipairs(self.groups) do
    for _, p in ipairs(group.params) do
      check(C.lt_grad(p.tensor, grad))
      if grad[0].t_ ~= nil then
        list[#list + 1] = H()
        ffi.copy(list[#list], grad, 16)
      else
        check(C.lt_grad_rows(p.tensor, rows, values))
        if rows[0].t_ ~= nil then
          C.lt_release(rows)
          list[#list + 1] = H()
          ffi.copy(list[#list], values, 16)
        end
      end
    end
  end
  return list
end

---Euclidean norm of all gradients together.
---@return number
function Optimizer:grad_norm()
  local list = gather(self)
  local array, out = ffi.new("const lt_handle *[?]", #list + 1), ffi.new "double[1]"
  for i, t in ipairs(list) do array[i - 1] = t end
  check(C.lt_grad_norm(array, #list, out))
  return out[0]
end

---Limits the global norm of the next step's gradients: the step multiplies them by max_norm / norm where that is below 1.
---@param max_norm number
---@return number norm before clipping
function Optimizer:clip_grad_norm(max_norm)
  local norm = self:grad_norm()
  self.clip = norm > max_norm and max_norm / (norm + 1e-6) or nil
  return norm
end

-- ---- the step ----

local function table_step(group, p)
  local s = group.struct
  local decay, flags = s.weight_decay, s.flags
  s.weight_decay = p.l2
  if p.batch_decay then s.flags = flags + tonumber(C.LT_STEP_BATCH_DECAY) end
  check(C.lt_grad_rows(p.tensor, rows, values))
  local has_rows = rows[0].t_ ~= nil
  local states = ffi.new("const lt_handle *[?]", #p.states + 1)
  for k, t in ipairs(p.states) do states[k - 1] = t end
  local status = 0
  if p.update == "exact" then
    if has_rows then
      p.steps = p.steps + 1
      s.step = p.steps
      status = C.lt_step_exact(s, p.tensor, states, rows, values)
    end
  elseif has_rows then
    p.steps = p.steps + 1
    s.step = p.steps
    status = C.lt_step_lazy(s, p.tensor, states, rows, values)
  end
  s.weight_decay, s.flags = decay, flags
  if has_rows then
    C.lt_release(rows)
    C.lt_release(values)
  end
  check(status)
  return has_rows
end

-- Arrays of pointers to handles, made once and refilled when the set of parameters with gradients changes.
local function dense_step(group)
  local params = group.params
  local d = group.dense
  if not d then
    local n_states = C.lt_step_states(group.struct)
    d = { params = ffi.new("const lt_handle *[?]", #params + 1), grads = ffi.new("lt_handle[?]", #params + 1),
      grad_pointers = ffi.new("const lt_handle *[?]", #params + 1), n_states = n_states,
      states = ffi.new("const lt_handle *[?]", #params * n_states + 1), steps = ffi.new("int64_t[?]", #params + 1) }
    group.dense = d
  end
  local n = 0
  for _, p in ipairs(params) do
    check(C.lt_grad(p.tensor, d.grads + n))
    if d.grads[n].t_ ~= nil then
      p.steps = p.steps + 1
      d.params[n], d.grad_pointers[n], d.steps[n] = p.tensor, d.grads + n, p.steps
      for k = 1, d.n_states do d.states[n * d.n_states + k - 1] = p.states[k] end
      n = n + 1
    end
  end
  local status = n > 0 and C.lt_step(group.struct, d.params, d.grad_pointers, d.states, d.steps, n) or 0
  for i = 0, n - 1 do C.lt_release(d.grads + i) end
  check(status)
end

---One update of every parameter that has a gradient.
function Optimizer:step()
  if self.pending then raise(self.name .. ": it has no parameters yet; pass them first, or use it in model:compile") end
  self.steps = self.steps + 1
  for _, group in ipairs(self.groups) do
    group.struct.lr = group.lr
    group.struct.grad_scale = self.clip or 1
    for _, p in ipairs(group.params) do
      if p.table then table_step(group, p) end
    end
    dense_step(group)
  end
  self.clip = nil
end

---The learning rate of the first group; with an argument, sets that of all groups.
function Optimizer:lr(value)
  if value then
    for _, group in ipairs(self.groups) do group.lr = value end
  end
  return self.groups[1].lr
end

---State tensors by "parameter name.state name" and the step counts, for checkpoints.
function Optimizer:state_dict()
  local state = { steps = self.steps, param_steps = {} }
  for _, group in ipairs(self.groups) do
    for _, p in ipairs(group.params) do
      for k, t in ipairs(p.states) do
        local name = p.name .. "." .. self.state_names[k]
        state[#state + 1] = { name = name, tensor = t }
        state[name] = t
      end
      state.param_steps[p.name] = p.steps
    end
  end
  return state
end

---Copies a state back by name; raises before anything is written when a name is missing.
function Optimizer:load_state_dict(state)
  for _, group in ipairs(self.groups) do
    for _, p in ipairs(group.params) do
      for k in ipairs(p.states) do
        local name = p.name .. "." .. self.state_names[k]
        if state[name] == nil then raise(("%s: the state has no '%s'; nothing was loaded"):format(self.name, name)) end
      end
    end
  end
  self.steps = state.steps or self.steps
  for _, group in ipairs(self.groups) do
    for _, p in ipairs(group.params) do
      for k, t in ipairs(p.states) do require("ltrain.op").functions.copy_(t, state[p.name .. "." .. self.state_names[k]]) end
      p.steps = state.param_steps and state.param_steps[p.name] or p.steps
    end
  end
end

---How each embedding table is updated, a line a table.
function Optimizer:table_text()
  local lines = {}
  for _, group in ipairs(self.groups) do
    for _, p in ipairs(group.params) do
      if p.table then
        lines[#lines + 1] = ("table %s: %s update%s"):format(p.name, p.update, p.l2 > 0 and
          (", L2 %g on %s"):format(p.l2, p.batch_decay and "rows of the batch" or "the whole table") or "")
      end
    end
  end
  return lines
end

---A short text for the summary: "Adam lr 0.001".
function Optimizer:__tostring()
  local lr = self.pending and (self.pending.lr or self.defaults.lr) or self.groups[1].lr
  return ("%s lr %g"):format(self.name, lr)
end

---A class of optimizers: callable as Class(params, options) and Class { options }.
function Optimizer.class(definition)
  definition.__index = definition
  definition.__tostring = Optimizer.__tostring
  return setmetatable(definition, { __index = Optimizer, __call = function(class, params, options)
    return Optimizer.new(class, params or {}, options)
  end })
end

return Optimizer
