--- Factorization machine (Rendle 2010): logit = b + linear part + sum of inner products of all pairs of embeddings.
local lt = require "ltrain"
local nn = lt.nn
local parts = require "ltrain.nn.click_parts"

local FM = nn.class "FM"

---@param config table { features =, dim = 10, embedding_l2 = 0, update = "lazy", embedding_init = normal(0, 0.01) }
function FM:init(config)
  parts.check("fm", config, { "dim", "embedding_l2", "update", "embedding_init" })
  self.table = nn.FieldEmbedding { features = config.features, dim = config.dim or 10, l2 = config.embedding_l2, update = config.update,
    init = config.embedding_init }
  parts.common(self, config, "fm")
end

function FM:forward(batch)
  local _, linear, fm = self.table(parts.ids(batch))
  return parts.finish(self, batch, linear + fm)
end

return function(config) return FM(config) end
