--- Data sets: files become tables, tables become ids and numbers by a schema, and those become batches.
---
---   csv, frame            schema              shuffle, take, skip   batch        prefetch, map, repeat_
---   +--------+  filter   +------------------+  +----------------+  +---------+  +------------------+
---   | table  |--split--> | encode: texts to |->| order of rows: |->| rows of |->| made ahead by a  |-> iter()
---   | (text) |  join     | ids, numbers to  |  | (seed, epoch)  |  | one step|  | C thread; Lua    |
---   +--------+  concat   | float32, in C    |  +----------------+  +---------+  | functions        |
---                        +------------------+                                   +------------------+
--- A stage returns a new data set and leaves the old one as it is; rows are shared, never copied by a stage.
--- What is learnt (vocabularies, quantiles, means) is learnt from the first data set a schema meets, and from no other.
--- Row numbers count from 0. The state of an iteration is four integers, taken at the last batch delivered.
local FILES = {
  schema = "schema", csv = "csv", frame = "literal:frame", from_tensors = "tensors:from_tensors", idx = "tensors:idx",
  synthetic_clicks = "clicks", Dataset = "dataset",
}

local data = {}

return setmetatable(data, {
  __index = function(_, name)
    local file, field = (FILES[name] or ""):match "^([%w_]+):?(.*)$"
    if not file then
      local bridge = require "ltrain.ffi"
      local names = {}
      for key in pairs(FILES) do names[#names + 1] = key end
      table.sort(names)
      local near = bridge.nearest(name, names)
      bridge.fail("data: there is no lt.data.%s%s; it has %s", tostring(name),
        near and (", did you mean lt.data.%s?"):format(near) or "", table.concat(names, ", "))
    end
    local value = require("ltrain.data." .. file)
    if field ~= "" then value = value[field] end
    rawset(data, name, value)
    return value
  end,
})
