--- Building blocks of models: modules, layers, initialisers.
local Module = require "ltrain.nn.module"

local FILES = {
  Sequential = "container", Linear = "linear", Dropout = "dropout", MLP = "mlp", Embedding = "embedding:Embedding",
  EmbeddingBag = "embedding:EmbeddingBag", FieldEmbedding = "field_embedding", LayerNorm = "norm:LayerNorm",
  BatchNorm1d = "norm:BatchNorm1d", init = "initializer",
}

local nn = { Module = Module, class = Module.class, Parameter = Module.Parameter }

-- Every name there is, sorted; for messages and completion.
local function all_names()
  local names = { "Module", "class", "Parameter" }
  for key in pairs(FILES) do names[#names + 1] = key end
  for key in pairs(require "ltrain.nn.activation") do names[#names + 1] = key end
  table.sort(names)
  return names
end

return setmetatable(nn, {
  __members = all_names,
  __index = function(_, name)
    local value
    local file, field = (FILES[name] or ""):match "^([%w_]+):?(.*)$"
    if file then
      value = require("ltrain.nn." .. file)
      if field ~= "" then value = value[field] end
    else
      value = require("ltrain.nn.activation")[name]
    end
    if value == nil then
      local bridge = require "ltrain.ffi"
      local near = bridge.suggest(name, all_names(), "nn.%s")
      bridge.raise(("nn: there is no nn.%s%s"):format(tostring(name),
        near ~= "" and near or "; losses and other functions are in lt itself: lt.cross_entropy(logits, ids), lt.relu(x)"))
    end
    rawset(nn, name, value)
    return value
  end,
})
