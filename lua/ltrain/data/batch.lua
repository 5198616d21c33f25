--- Batches: a table with the tensors of one step. Of click data: batch.label [B] and batch.weight [B] float32,
--- batch.categorical [B, features] int32, batch.numeric [B, numbers] float32; of any data: batch.size, batch.rows [B]
--- int64 (row numbers), batch.first (position of its first row in the epoch), batch.global_size. A feature's own column
--- is made when asked for: batch.user is a view [B] of batch.categorical. Tensors live until the next step, unless kept
--- by x:keep().
local bridge = require "ltrain.ffi"
local op = require "ltrain.op"

local M = {}

---The class of all batches of one source.
---@param parts table { { name =, names = { column names } }, ... }
function M.class(parts)
  local places, names = {}, {}
  for _, part in ipairs(parts) do
    for k, name in ipairs(part.names or {}) do
      if not part.scalar and not places[name] then
        places[name] = { part.name, k }
        names[#names + 1] = name
      end
    end
  end
  local Batch = {}

  ---The column of one feature [B]; also batch.name, where no field of the batch has that name.
  ---@param name string
  function Batch:column(name)
    local place = places[name]
    if not place then
      local near = bridge.nearest(name, names)
      bridge.fail('batch: there is no column "%s"; %s', tostring(name),
        near and ('did you mean "%s"?'):format(near) or "its columns are " .. table.concat(names, ", "))
    end
    return op.functions.select(self[place[1]], 2, place[2])
  end

  Batch.__index = function(self, key)
    if key == "column" then return Batch.column end
    if not places[key] then return nil end
    local column = Batch.column(self, key)
    rawset(self, key, column)
    return column
  end
  Batch.__tostring = function(self)
    local lines = { ("batch of %d rows"):format(self.size) }
    for _, part in ipairs(parts) do
      local t = self[part.name]
      if t then lines[#lines + 1] = ("  %s [%s] %s"):format(part.name, table.concat(t.shape, ", "), t.dtype) end
    end
    return table.concat(lines, "\n")
  end
  return Batch
end

return M
