--- ltrain: tensors, gradients, models and data in one table, loaded piece by piece when first used.
---   local lt = require "ltrain"
---   local x = lt.tensor { { 1, 2 }, { 3, 4 } }
--- Operators are lt.name(...) and x:name(...). Sub-modules: lt.nn, lt.optim, lt.data, lt.metrics, lt.callbacks.
local bridge = require "ltrain.ffi"
local op = require "ltrain.op"
local tensor = require "ltrain.tensor"

local lt = {
  version = require("ffi").string(bridge.C.lt_version()),
  tensor = tensor.new,
  is_tensor = tensor.is_tensor,
  Tensor = bridge.methods,
  clock = function() return bridge.C.lt_clock() end, -- seconds, monotonic
}

local SUBMODULES = { "nn", "optim", "data", "metrics", "callbacks" }
local LAZY = { -- name -> { module, field }
  backward = { "autograd", "backward" }, grad = { "autograd", "grad" }, no_grad = { "autograd", "no_grad" },
  enable_grad = { "autograd", "enable_grad" }, is_grad_enabled = { "autograd", "is_grad_enabled" },
  Function = { "autograd", "Function" }, checkpoint = { "autograd", "checkpoint" },
  detect_anomaly = { "autograd", "detect_anomaly" },
  scope = { "scope", "scope" },
  memory = { "memory", "memory" }, memory_limit = { "memory", "limit" }, empty_cache = { "memory", "empty_cache" },
  random_state = { "random", "state" }, set_random_state = { "random", "set_state" },
  manual_seed = { "random", "manual_seed" }, threads = { "memory", "threads" },
  einsum = { "einsum" },
  split = { "compose", "split" }, chunk = { "compose", "chunk" }, unbind = { "compose", "unbind" },
  save = { "save", "save" }, load = { "save", "load" },
  load_npy = { "npy", "load" }, save_npy = { "npy", "save" },
  help = { "help" },
  load_model = { "save", "load_model" },
  schema = { "data.schema" },
}

-- Every name there is, sorted; for messages and completion.
local function all_names()
  local names = { "tensor", "is_tensor", "Tensor", "version" }
  for key in pairs(LAZY) do names[#names + 1] = key end
  for _, spec in ipairs(op.specs) do
    if op.is_public(spec) then names[#names + 1] = spec.name end
  end
  for key, value in pairs(require "ltrain.compose") do
    if type(value) == "function" and not LAZY[key] then names[#names + 1] = key end
  end
  for _, key in ipairs(SUBMODULES) do names[#names + 1] = key end
  table.sort(names)
  return names
end

-- What lives in a module of its own is required when it is first asked for: a start costs milliseconds.
setmetatable(lt, {
  __members = all_names,
  __index = function(_, name)
    local value
    local lazy = LAZY[name]
    if lazy then
      value = require("ltrain." .. lazy[1])
      if lazy[2] then value = value[lazy[2]] end
    elseif op.functions[name] then
      value = op.functions[name]
    else
      for _, module in ipairs(SUBMODULES) do
        if module == name then value = require("ltrain." .. name) end
      end
      if value == nil and type(name) == "string" then
        local composed = require("ltrain.compose")[name]
        value = type(composed) == "function" and composed or nil
      end
    end
    if value == nil then
      local names = all_names()
      bridge.raise(("ltrain: there is no lt.%s%s"):format(tostring(name), bridge.suggest(name, names, "lt.%s")))
    end
    rawset(lt, name, value)
    return value
  end,
})

return lt
