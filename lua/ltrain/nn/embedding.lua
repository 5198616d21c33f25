--- Embedding: rows of a table by 0-based id. The gradient touches only the rows of the batch, and the optimizer updates
--- them by `update`: "lazy" (those rows only) or "exact" (what a dense optimizer gives).
local Module = require "ltrain.nn.module"
local initializer = require "ltrain.nn.initializer"
local bridge = require "ltrain.ffi"
local op = require "ltrain.op"
local C, check = bridge.C, bridge.check

local M = {}

---A table parameter: zeros [rows, width], rows padded to cache lines, kept beyond step scopes.
---@param dtype string
function M.table(rows, width, dtype)
  local out = bridge.handle()
  check(C.lt_table_new(bridge.dtypes[dtype or "float32"], rows, width, out))
  return out:keep():requires_grad_()
end

-- Options that every table module takes.
M.OPTIONS = { "padding", "update", "l2", "init", "dtype" }

local modules, n_modules = setmetatable({}, { __mode = "k" }), 0 -- with a table -> number

local function setup(self, name, rows, width, options)
  for i = 1, 2 do
    local v = select(i, rows, width)
    if type(v) ~= "number" or v < 1 or v ~= math.floor(v) then
      bridge.raise(("%s: the table is %s x %s; rows and width must be whole numbers of at least 1"):format(name, tostring(rows), tostring(width)))
    end
  end
  n_modules = n_modules + 1
  modules[self] = n_modules
  self.is_table, self.rows, self.width = true, rows, width
  self.update, self.l2 = options.update, options.l2
  self.padding = options.padding or -1
  if type(self.padding) ~= "number" or self.padding ~= math.floor(self.padding) or self.padding < -1 or self.padding >= rows then
    bridge.raise(("%s: padding is %s; it must be an id of the table, 0 to %d"):format(name, tostring(self.padding), rows - 1))
  end
  self.weight = M.table(rows, width, options.dtype)
  initializer.apply(self.weight, options.init or { "normal", 0, 1 })
  if self.padding >= 0 then
    require("ltrain.autograd").no_grad(function() self.weight[self.padding + 1]:zero_() end)
  end
end

-- A table stays one when its module is converted.
local function convert(self, old, dtype)
  local new = M.table(self.rows, self.width, dtype)
  require("ltrain.autograd").no_grad(function() new:copy_(old) end)
  return new
end

---The module whose table this tensor is, or nil: optimizers that get plain tensors ask. Of several the oldest.
---@param tensor userdata
function M.owner_of(tensor)
  local found
  for module, number in pairs(modules) do
    if rawget(module, "weight") == tensor and (not found or number < modules[found]) then found = module end
  end
  return found
end

local Embedding = Module.class "Embedding"
M.Embedding = Embedding

---@param rows integer number of ids
---@param dim integer
---@param options table|nil { padding = nil: the id whose row stays zero, update = "lazy", l2 = 0, init = normal(0, 1), dtype = "float32" }
function Embedding:init(rows, dim, options)
  setup(self, "Embedding", rows, dim, bridge.options("Embedding", options, M.OPTIONS))
end
Embedding.convert = convert
function Embedding:forward(ids) return op.functions.embedding(ids, self.weight, self.padding) end
function Embedding:extra_text() return ("%s x %d"):format(Module.with_commas(self.rows), self.width) end

local EmbeddingBag = Module.class "EmbeddingBag"
M.EmbeddingBag = EmbeddingBag

---@param rows integer
---@param dim integer
---@param options table|nil as Embedding, and mode = "sum" | "mean" | "max"
function EmbeddingBag:init(rows, dim, options)
  options = bridge.options("EmbeddingBag", options, { "mode", unpack(M.OPTIONS) })
  self.mode = options.mode or "mean"
  setup(self, "EmbeddingBag", rows, dim, options)
end
EmbeddingBag.convert = convert

---@param ids userdata [n] with offsets, or [bags, per bag]
---@param offsets userdata|nil [bags]: where each bag starts in ids
---@param weights userdata|nil one for each id
function EmbeddingBag:forward(ids, offsets, weights)
  return op.functions.embedding_bag(ids, self.weight, { offsets = offsets, weights = weights, mode = self.mode })
end
EmbeddingBag.extra_text = Embedding.extra_text

M.setup, M.convert = setup, convert
return M
