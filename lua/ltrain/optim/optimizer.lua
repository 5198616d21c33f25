--- What all optimizers share: parameter groups, state by parameter name, flat gradient arenas, embedding tables (lazy or
--- exact), clipping, and the step itself, which is one fused pass in C over all dense parameters of a group and one over
--- each table's rows. A parameter that got no gradient is skipped, as with PyTorch's None.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local Module = require "ltrain.nn.module"
local groups = require "ltrain.optim.groups"
local C, raise, check = bridge.C, bridge.raise, bridge.check
local H = bridge.handle

local Optimizer = {}
Optimizer.__index = Optimizer


---Makes an optimizer class's instance.
---@param class table { name, rule, defaults, decoupled }
function Optimizer.new(class, params, options)
  local self = setmetatable({ groups = {}, steps = 0 }, class)
  if options == nil and not Module.is_module(params) and type(params) == "table" and params[1] == nil then
    self.pending = params -- lt.optim.Adam { lr = 1e-3 }: parameters come with compile
    bridge.options(self.name, params, self.options)
    return self
  end
  return self:bind(params, options)
end

---Gives a pending optimizer its parameters. Called by model:compile.
function Optimizer:bind(params, options)
  options = options or self.pending or {}
  bridge.options(self.name, options, self.options)
  if type(params) ~= "table" then raise(("%s: the parameters are a %s; give a module or a list of tensors"):format(self.name, type(params))) end
  self.conversions = Module.conversions
  local lists = { { params = params } }
  if not Module.is_module(params) and type(params[1]) == "table" and params[1].params then lists = params end
  local count, seen = 0, {}
  for i, list in ipairs(lists) do
    local group = { name = ("group%d"):format(i) }
    for _, key in ipairs(self.options) do
      group[key] = list[key]
      if group[key] == nil then group[key] = options[key] end
      if group[key] == nil then group[key] = self.defaults[key] end
    end
    local known = { "params" }
    for _, key in ipairs(self.options) do known[#known + 1] = key end
    bridge.options(self.name, list, known)
    group.struct = groups.options_struct(self, group)
    if group.l2_scope ~= nil and group.l2_scope ~= "table" and group.l2_scope ~= "batch" then
      raise(("%s: l2_scope is '%s'; it must be 'batch' (rows of the batch) or 'table' (all rows)"):format(self.name, tostring(group.l2_scope)))
    end
    group.params = {}
    for k, entry in ipairs(groups.entries_of(list.params, group.name .. ".")) do
      groups.check_entry(self, entry, seen)
      group.params[k] = groups.adopt(self, group, entry)
      count = count + 1
    end
    self.groups[i] = group
  end
  if count == 0 then raise(self.name .. ": there are no parameters to train") end
  groups.make_arena(self)
  self.pending = nil
  return self
end

-- ---- gradients ----

local function need_parameters(self)
  if self.pending then raise(self.name .. ": it has no parameters yet; pass them first, or use it in model:compile") end
end

---Clears the gradients of all parameters.
function Optimizer:zero_grad()
  need_parameters(self)
  self.clip = nil
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
  need_parameters(self)
  groups.number(self.name, "max_norm", max_norm, 0, math.huge)
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
  if rows[0].t_ == nil then
    check(C.lt_grad(p.tensor, values)) -- a table that was used as a plain matrix too: a gradient of every row
    if values[0].t_ ~= nil then
      check(C.lt_retain(require("ltrain.op").functions.arange(0, p.tensor:size(1) - 1, 1, "int64"), rows))
    end
  end
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
    d.grads[n].t_ = nil
    if not p.table then check(C.lt_grad_dense(p.tensor, d.grads + n)) end
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

-- Has a model been converted, whose old parameters would go on being trained?
local function check_in_use(self)
  for _, group in ipairs(self.groups) do
    for _, p in ipairs(group.params) do
      if p.owner and p.field and rawget(p.owner, p.field) ~= p.tensor then
        raise(("%s: parameter '%s' is no longer the model's; make the optimizer after model:to(...)"):format(self.name, p.name))
      end
    end
  end
  self.conversions = Module.conversions
end

---One update of every parameter that has a gradient.
function Optimizer:step()
  need_parameters(self)
  if self.conversions ~= Module.conversions then check_in_use(self) end
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
---@param value number|nil
---@return number
function Optimizer:lr(value)
  if value ~= nil then groups.number(self.name, "lr", value, 0, math.huge) end
  if self.pending then
    self.pending.lr = value or self.pending.lr or self.defaults.lr
    return self.pending.lr
  end
  if value then
    for _, group in ipairs(self.groups) do group.lr = value end
  end
  return self.groups[1].lr
end

---State tensors by "parameter name.state name" and the step counts, for checkpoints.
function Optimizer:state_dict()
  need_parameters(self)
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

---Copies a state back by name; raises before anything is written when a name is missing or a shape differs.
function Optimizer:load_state_dict(state)
  need_parameters(self)
  for _, group in ipairs(self.groups) do
    for _, p in ipairs(group.params) do
      for k in ipairs(p.states) do
        local name = p.name .. "." .. self.state_names[k]
        local given = state[name]
        if given == nil then raise(("%s: the state has no '%s'; nothing was loaded"):format(self.name, name)) end
        local a, b = table.concat(given.shape, ", "), table.concat(p.states[k].shape, ", ")
        if a ~= b then raise(("%s: '%s' is [%s] in the state and [%s] here; nothing was loaded"):format(self.name, name, a, b)) end
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
