--- The gradient of an embedding table, as x.grad gives it: only the rows that the batch used. `rows` [u] are their
--- 0-based numbers, each once and rising; `values` [u, width] the summed gradients.
local op = require "ltrain.op"
local f = op.functions

local RowGrad = {}
RowGrad.__index = RowGrad

---The same as a tensor in the table's shape, zeros in the other rows.
---@return userdata
function RowGrad:to_dense() return f.index_add(f.zeros(self.shape, self.values.dtype), self.rows, self.values) end

function RowGrad:__tostring()
  local text = "gradient of %d of %d rows\nrows %s\nvalues %s"
  return text:format(self.rows:numel(), self.shape[1], tostring(self.rows), tostring(self.values))
end

---@param table_tensor userdata the table [rows, width]
---@param rows userdata [u]
---@param values userdata [u, width]
return function(table_tensor, rows, values)
  return setmetatable({ rows = rows, values = values, shape = table_tensor.shape }, RowGrad)
end
