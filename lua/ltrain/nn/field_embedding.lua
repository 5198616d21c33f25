--- FieldEmbedding: one table for all categorical features, looked up in one pass. Each feature owns a slice of the rows and
--- its ids count from 0 inside it. With linear = true a row also holds the feature value's weight in the linear part.
local Module = require "ltrain.nn.module"
local embedding = require "ltrain.nn.embedding"
local initializer = require "ltrain.nn.initializer"
local bridge = require "ltrain.ffi"
local op = require "ltrain.op"

local FieldEmbedding = Module.class "FieldEmbedding"

---@param options table { features = { { name =, size = }, ... }, dim = 10, linear = true, fm = true, update = "lazy", l2 = 0, init = normal(0, 0.01) }
function FieldEmbedding:init(options)
  options = bridge.options("FieldEmbedding", options, { "features", "dim", "linear", "fm", "update", "l2", "init", "dtype" })
  local names, sizes, offsets, rows = {}, {}, {}, 0
  for i, feature in ipairs(type(options.features) == "table" and options.features or {}) do
    if type(feature) ~= "table" then bridge.raise(("FieldEmbedding: feature %d is %s; it must be a table { name =, size = }"):format(i, tostring(feature))) end
    if feature.kind ~= "numeric" then
      if type(feature.size) ~= "number" then
        bridge.raise(("FieldEmbedding: feature %d has no size; give each categorical feature { name =, size = }"):format(i))
      end
      names[#names + 1], sizes[#sizes + 1], offsets[#offsets + 1] = feature.name, feature.size, rows
      rows = rows + feature.size
    end
  end
  if #names == 0 then bridge.raise "FieldEmbedding: features must name at least one categorical feature; schema:features() gives them" end
  local dim = options.dim
  if dim ~= nil and (type(dim) ~= "number" or dim ~= math.floor(dim) or dim < 1) then
    bridge.raise(("FieldEmbedding: dim is %s; it must be a whole number of at least 1"):format(tostring(dim)))
  end
  self.names, self.sizes, self.fields = names, sizes, #names
  self.dim, self.linear, self.fm = options.dim or 10, options.linear ~= false, options.fm ~= false
  embedding.setup(self, "FieldEmbedding", rows, self.dim + (self.linear and 1 or 0),
    { update = options.update, l2 = options.l2, init = "zeros", dtype = options.dtype })
  local start = op.functions.empty({ rows, self.dim }, options.dtype or "float32")
  initializer.apply(start, options.init or { "normal", 0, 0.01 })
  require("ltrain.autograd").no_grad(function() self.weight:narrow(2, 1, self.dim):copy_(start) end)
  rawset(self, "offset_tensor", require("ltrain.tensor").new(offsets, "int64"):keep())
  rawset(self, "size_tensor", require("ltrain.tensor").new(sizes, "int64"):keep())
end
FieldEmbedding.convert = embedding.convert

-- The operator counts features; people name them.
local function named(self, ok, a, ...)
  if ok then return a, ... end
  error((tostring(a):gsub("feature (%d+)", function(i)
    local name = self.names[tonumber(i)]
    return name and ("feature '%s'"):format(name) or nil
  end)), 0)
end

---@param ids userdata [batch, features] int32 or int64, local to each feature
---@return userdata embeddings [batch, features * dim]
---@return userdata|nil linear [batch]: sum of the linear weights
---@return userdata|nil fm [batch]: the FM interaction of the embeddings
function FieldEmbedding:forward(ids)
  local x, linear, fm = named(self, pcall(op.functions.field_embedding, ids, self.weight, self.offset_tensor, self.size_tensor, self.linear, self.fm))
  return x, self.linear and linear or nil, self.fm and fm or nil
end

function FieldEmbedding:extra_text()
  return ("%d features, %s rows x %d%s"):format(self.fields, Module.with_commas(self.rows), self.dim, self.linear and " + linear" or "")
end

return FieldEmbedding
