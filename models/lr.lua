--- Logistic regression on sparse features: logit = b + sum of the weights of the present values (+ w . numeric).
local lt = require "ltrain"
local nn = lt.nn
local parts = require "ltrain.nn.click_parts"

local LR = nn.class "LR"

---@param config table { features =, l2 = 0, update = "lazy" }
function LR:init(config)
  parts.check("lr", config, { "l2", "update" })
  self.table = nn.FieldEmbedding { features = config.features, dim = 1, linear = false, fm = false, l2 = config.l2, update = config.update, init = "zeros" }
  parts.common(self, config, "lr")
end

function LR:forward(batch)
  local weights = self.table(parts.ids(batch))
  return parts.finish(self, batch, weights:sum(2))
end

return function(config) return LR(config) end
