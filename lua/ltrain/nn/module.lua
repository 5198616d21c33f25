--- Module: a tree of parameters, buffers and sub-modules, recorded in the order in which they are assigned. A class is
--- made with nn.class "Name"; instances call forward when called. Errors raised inside name the path of the module.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local op = require "ltrain.op"
local C, raise, check = bridge.C, bridge.raise, bridge.check

local function is_tensor(v) return ffi.istype(bridge.handle, v) end

local Module = {}
Module.__class_name = "Module"

local OWN = "__own" -- per instance: { names = {...}, kind = { name -> "parameter"|"buffer"|"module" }, label, training }

-- ---- the path of the module that is running, for error messages ----

local function describe(module)
  return module.extra_text and module:extra_text() or nil
end

-- The child's name below the parent, as in state dicts.
local function name_below(parent, child)
  for _, entry in ipairs(parent:named_modules()) do
    if entry.module == child then return entry.name end
  end
  return child[OWN].label or child.__class_name
end

local function through(...) return ... end

-- Calling a module. This is no tail call: the frame stays on the stack, where an error finds the modules that are running,
-- whatever was caught, or left by a coroutine, before.
local function call(self, ...) return through(self:forward(...)) end

bridge.context = function()
  local running, level = {}, 2
  while true do
    local info = debug.getinfo(level, "f")
    if not info then break end
    if info.func == call then
      local _, module = debug.getlocal(level, 1)
      running[#running + 1] = module
    end
    level = level + 1
  end
  local outer, inner = running[#running], running[1]
  if not outer then return nil end
  local names = { outer[OWN].label or outer.__class_name }
  for i = #running - 1, 1, -1 do names[#names + 1] = name_below(running[i + 1], running[i]) end
  local extra = describe(inner)
  return ("%s (%s%s)"):format(table.concat(names, "."), inner.__class_name, extra and " " .. extra or "")
end

-- ---- instances ----

local function is_module(v)
  return type(v) == "table" and rawget(v, OWN) ~= nil
end

-- Methods that an attribute would hide.
local METHODS = { "children", "named_parameters", "named_buffers", "named_modules", "parameters", "train", "eval", "is_training", "to", "zero_grad",
  "count", "state_dict", "load_state_dict", "register_buffer", "compile", "fit", "evaluate", "predict", "save", "load", "summary", "tree", "forward" }
for _, name in ipairs(METHODS) do METHODS[name] = true end

local function check_name(self, name, value)
  if METHODS[name] and type(value) ~= "function" then
    raise(("%s: '%s' is a method of modules; give the attribute another name"):format(self.__class_name, name))
  end
end

local function record(self, name, value)
  check_name(self, name, value)
  local own = rawget(self, OWN)
  local kind
  if is_module(value) then
    kind = "module"
    value[OWN].label = value[OWN].label or tostring(name)
  elseif is_tensor(value) and value.requires_grad and value.is_leaf then
    kind = "parameter"
    check(C.lt_keep(value))
  elseif type(value) == "table" and getmetatable(value) == nil and is_module(value[1]) then
    raise(("%s: '%s' is a plain list of modules, whose parameters nobody would find; use nn.Sequential(list) or assign each to a name of its own"):format(
      self.__class_name, tostring(name)))
  end
  if kind and not own.kind[name] then own.names[#own.names + 1] = name end
  if kind then own.kind[name] = kind end
  rawset(self, name, value)
end

---A class of modules. Class:init(...) is the constructor's body, Class:forward(...) what a call does.
---@param name string
---@param parent table|nil another class; default Module
function Module.class(name, parent)
  local class = setmetatable({ __class_name = name }, { __index = parent or Module, __call = function(class, ...)
    local self = setmetatable({ [OWN] = { names = {}, kind = {}, training = true } }, class)
    if class.init then class.init(self, ...) end
    return self
  end })
  class.__index = class
  class.__newindex = record
  class.__call = call
  class.__tostring = function(self) return self:tree() end
  return class
end

function Module:forward()
  raise(("%s: forward is not defined; write function %s:forward(x) ... end"):format(self.__class_name, self.__class_name))
end

---A parameter: a tensor (or the shape of one to be initialised) that gradients are wanted for.
function Module.Parameter(tensor)
  if not is_tensor(tensor) then raise(("Parameter: its value is a %s; it must be a tensor"):format(type(tensor))) end
  return tensor:detach():clone():keep():requires_grad_()
end

---Registers a tensor that belongs to the module's state but is not trained.
---@param name string
---@param tensor userdata
function Module:register_buffer(name, tensor)
  check_name(self, name, tensor)
  local own = self[OWN]
  if not own.kind[name] then own.names[#own.names + 1] = name end
  own.kind[name] = "buffer"
  rawset(self, name, tensor:keep())
end

-- What a recorded name stands for now: its value may have been replaced since.
local function kind_of(own, name, value)
  if is_module(value) then return "module" end
  if not is_tensor(value) then return nil end
  return own.kind[name] == "buffer" and "buffer" or "parameter"
end

---Direct sub-modules as a list of { name = , module = }.
function Module:children()
  local list = {}
  local own = self[OWN]
  for _, name in ipairs(own.names) do
    if kind_of(own, name, rawget(self, name)) == "module" then list[#list + 1] = { name = tostring(name), module = rawget(self, name) } end
  end
  return list
end

local function walk(self, prefix, kind, list)
  local own = self[OWN]
  for _, name in ipairs(own.names) do
    local value = rawget(self, name)
    local is = kind_of(own, name, value)
    if is == "module" then
      walk(value, prefix .. name .. ".", kind, list)
    elseif is == kind then
      local known = false
      for _, entry in ipairs(list) do known = known or entry.tensor == value end
      if not known then list[#list + 1] = { name = prefix .. name, tensor = value, owner = self, field = name } end
    end
  end
  return list
end

---Every parameter as { name = "mlp.1.weight", tensor = }, in order of assignment; shared ones once.
---@return table[]
function Module:named_parameters() return walk(self, "", "parameter", {}) end
function Module:named_buffers() return walk(self, "", "buffer", {}) end

---The parameter tensors, in order.
function Module:parameters()
  local list = {}
  for i, entry in ipairs(self:named_parameters()) do list[i] = entry.tensor end
  return list
end

---Every module of the tree, this one first, as { name = path, module = }.
function Module:named_modules()
  local list = {}
  local function visit(module, name)
    list[#list + 1] = { name = name, module = module }
    for _, child in ipairs(module:children()) do visit(child.module, name == "" and child.name or name .. "." .. child.name) end
  end
  visit(self, "")
  return list
end

---Training (dropout, batch statistics) or not, for the whole tree. Returns the module.
---@param on boolean|nil default true
function Module:train(on)
  for _, entry in ipairs(self:named_modules()) do entry.module[OWN].training = on ~= false end
  return self
end
function Module:eval() return self:train(false) end
function Module:is_training() return self[OWN].training end
---The mode of this module alone, for putting modes back.
function Module:set_training(on) self[OWN].training = on end

-- How many times a Module:to has replaced parameters; optimizers look whether theirs are still in use.
Module.conversions = 0

---Converts every floating parameter and buffer to a dtype; shared ones stay shared. An optimizer must be made afterwards.
---Returns the module.
---@param dtype string
function Module:to(dtype)
  local number = bridge.dtypes[dtype]
  if not number or number > tonumber(C.LT_FLOAT16) then
    raise(("to: a model cannot become '%s'%s; it can be float32, float64, bfloat16 or float16"):format(tostring(dtype),
      bridge.suggest(dtype, { "float32", "float64", "bfloat16", "float16" })))
  end
  local changes = {} -- all are made before the first is put in place
  local function changed(module, value, kind)
    for _, c in ipairs(changes) do
      if c.old == value then return c.new end
    end
    if kind == "buffer" then return value:detach():to(dtype):keep() end
    local new = module.convert and module:convert(value, dtype) or Module.Parameter(value:to(dtype))
    if not value.requires_grad then new:requires_grad_(false) end
    return new
  end
  for _, entry in ipairs(self:named_modules()) do
    local own = entry.module[OWN]
    for _, name in ipairs(own.names) do
      local value = rawget(entry.module, name)
      local kind = kind_of(own, name, value)
      if (kind == "parameter" or kind == "buffer") and value.dtype:find "float" and value.dtype ~= dtype then
        changes[#changes + 1] = { module = entry.module, name = name, kind = kind, old = value, new = changed(entry.module, value, kind) }
      end
    end
  end
  for _, c in ipairs(changes) do rawset(c.module, c.name, c.new) end
  if #changes > 0 then Module.conversions = Module.conversions + 1 end
  return self
end

---Clears every gradient.
function Module:zero_grad()
  for _, entry in ipairs(self:named_parameters()) do entry.tensor:set_grad(nil) end
end

---Number of parameters (elements).
function Module:count()
  local n = 0
  for _, entry in ipairs(self:named_parameters()) do n = n + entry.tensor:numel() end
  return n
end

-- ---- state ----

---Parameters and buffers by path: an ordered list whose entries are also found by name: state["mlp.1.weight"].
---@return table state
function Module:state_dict()
  local state = {}
  for _, entry in ipairs(self:named_parameters()) do state[#state + 1] = { name = entry.name, tensor = entry.tensor } end
  for _, entry in ipairs(self:named_buffers()) do state[#state + 1] = { name = entry.name, tensor = entry.tensor } end
  for i = 1, #state do state[state[i].name] = state[i].tensor end
  return state
end

local function shape_text(t) return "[" .. table.concat(t.shape, ", ") .. "]" end

---Copies tensors into parameters and buffers by name. Nothing is written unless every name and shape fits.
---@param state table name -> tensor
---@param options table|nil { strict = true }: false allows missing and extra names
function Module:load_state_dict(state, options)
  options = bridge.options("load_state_dict", options, { "strict" })
  if type(state) ~= "table" then raise(("load_state_dict: the state is a %s; it must be a table of tensors by name"):format(type(state))) end
  local mine, missing, extra, known = self:state_dict(), {}, {}, {}
  for _, entry in ipairs(mine) do
    known[entry.name] = true
    local given = state[entry.name]
    if given == nil then missing[#missing + 1] = entry.name
    elseif not is_tensor(given) then
      raise(("load_state_dict: '%s' is a %s in the state; it must be a tensor; nothing was loaded"):format(entry.name, type(given)))
    elseif shape_text(given) ~= shape_text(entry.tensor) then
      raise(("load_state_dict: '%s' is %s in the state and %s in the model; nothing was loaded"):format(
        entry.name, shape_text(given), shape_text(entry.tensor)))
    end
  end
  for name in pairs(state) do
    if type(name) == "string" and not known[name] then extra[#extra + 1] = name end
  end
  table.sort(extra)
  if options.strict ~= false and (#missing > 0 or #extra > 0) then
    local parts = {}
    if #missing > 0 then parts[#parts + 1] = "missing in the state: " .. table.concat(missing, ", ") end
    if #extra > 0 then parts[#parts + 1] = "not in the model: " .. table.concat(extra, ", ") end
    raise(("load_state_dict: %s; nothing was loaded; pass { strict = false } to load what fits"):format(table.concat(parts, "; ")))
  end
  require("ltrain.autograd").no_grad(function()
    for _, entry in ipairs(mine) do
      if state[entry.name] ~= nil then op.functions.copy_(entry.tensor, state[entry.name]) end
    end
  end)
  return self
end

-- ---- training, in files of their own ----

---Ties the model to optimizer, loss and metrics; compile.lua tells more.
---@param options table { optimizer =, loss = "bce_with_logits", metrics = { "auc" }, clip_norm =, input =, target =, normalize = "rows" }
function Module:compile(options) return require "ltrain.compile"(self, options) end
---Trains a compiled model.
---@param options table|nil { epochs = 1, validation_data = nil, callbacks = {}, verbose = true, initial_epoch = 1 }
function Module:fit(dataset, options) return require "ltrain.fit"(self, dataset, options) end
function Module:evaluate(dataset) return require("ltrain.evaluate").evaluate(self, dataset) end
function Module:predict(dataset, options) return require("ltrain.evaluate").predict(self, dataset, options) end
function Module:save(file) return require("ltrain.save").save_model(self, file) end
function Module:load(file, options) return require("ltrain.save").load_into(self, file, options) end

---Prints the tree and what the optimizer does with tables.
function Module:summary()
  print(self:tree())
  local compiled = rawget(self, "compiled")
  for _, line in ipairs(compiled and compiled.optimizer:table_text() or {}) do print(line) end
end

-- ---- printing ----

local function with_commas(n)
  local s = ("%.0f"):format(n)
  local k
  repeat s, k = s:gsub("^(%-?%d+)(%d%d%d)", "%1,%2") until k == 0
  return s
end
Module.with_commas = with_commas

---The module as a tree with shapes and parameter counts.
---@return string
function Module:tree()
  local lines = {}
  local function visit(module, name, indent)
    local extra = describe(module)
    local n = module:count()
    lines[#lines + 1] = ("%s%s%s%s%s"):format(("  "):rep(indent), name and "(" .. name .. ") " or "", module.__class_name,
      extra and " " .. extra or "", n > 0 and "  " .. with_commas(n) or "")
    for _, child in ipairs(module:children()) do visit(child.module, child.name, indent + 1) end
  end
  visit(self, nil, 0)
  lines[#lines + 1] = with_commas(self:count()) .. " parameters"
  return table.concat(lines, "\n")
end

Module.__index = Module
Module.is_module = is_module
return Module
