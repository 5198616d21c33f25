--- DeepFM (Guo et al. 2017): a factorization machine and an MLP over the same embeddings:
--- logit = b + linear part + FM interaction + MLP(embeddings side by side, numeric features).
local lt = require "ltrain"
local nn = lt.nn
local parts = require "ltrain.nn.click_parts"

local DeepFM = nn.class "DeepFM"

---@param config table { features =, dim = 10, hidden = { 400, 400, 400 }, dropout = 0, batch_norm = false, activation = "relu",
--- embedding_l2 = 0, update = "lazy", embedding_init = normal(0, 0.01), init = "xavier_normal" }
function DeepFM:init(config)
  parts.check("deepfm", config, { "dim", "hidden", "dropout", "batch_norm", "activation", "embedding_l2", "update", "embedding_init", "init" })
  local dim = config.dim or 10
  self.table = nn.FieldEmbedding { features = config.features, dim = dim, l2 = config.embedding_l2, update = config.update,
    init = config.embedding_init }
  self.mlp = nn.MLP { n_in = self.table.fields * dim + #parts.numeric(config.features), hidden = config.hidden or { 400, 400, 400 }, n_out = 1,
    dropout = config.dropout, batch_norm = config.batch_norm, activation = config.activation, init = config.init or "xavier_normal", bias_init = "zeros" }
  parts.common(self, config, "deepfm")
end

function DeepFM:forward(batch)
  local x, linear, fm = self.table(parts.ids(batch))
  local deep = self.mlp(parts.with_numbers(self, batch, x))
  return parts.finish(self, batch, linear + fm + deep:reshape(-1))
end

return function(config) return DeepFM(config) end
