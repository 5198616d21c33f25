-- What the specs of data sets share: scratch files, messages without their place, loops as lists.
local lt = require "ltrain"
local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local scratch = dofile(here .. "scratch.lua")

local M = { folder = scratch.folder, remove = scratch.remove, write = scratch.write, read = scratch.read }

-- The message of a call that must raise, without "file:line: "; the line must be one of the spec's.
function M.message(fn, ...)
  local ok, text = pcall(fn, ...)
  if ok then error("the call did not fail", 2) end
  local place, rest = tostring(text):match "^(%S+_spec%.lua:%d+): (.*)$"
  if not place then error("raised elsewhere: " .. tostring(text), 2) end
  return rest
end

-- "n-th value of fn, for i = 1 .. n" as a list.
function M.list(n, fn)
  local list = {}
  for i = 1, n do list[i] = fn(i) end
  return list
end

-- One field of every batch of one loop, as nested tables.
function M.field(dataset, name)
  local values = {}
  for batch in dataset:iter() do values[#values + 1] = batch[name]:totable() end
  return values
end

-- The row numbers of each batch of one loop, as texts: { "3 1 4", ... }.
function M.loop(dataset, most)
  local batches = {}
  for batch in dataset:iter() do
    batches[#batches + 1] = table.concat(batch.rows:totable(), " ")
    if #batches == most then break end
  end
  return batches
end

-- n rows: ids 0 .. n - 1 as given, a number, a label; row r of the frame has id r.
function M.rows_of(n)
  if n == 0 then return M.rows_of(1):take(0) end -- nothing could be learnt from no rows
  local schema = lt.data.schema { label = "y", numeric = { "x" }, categorical = { { "id", size = n }, "kind" },
    verbose = false }
  return lt.data.frame {
    id = M.list(n, function(i) return i - 1 end), x = M.list(n, function(i) return i / 4 end),
    y = M.list(n, function(i) return i % 2 end),
    kind = M.list(n, function(i) return "k" .. i % 3 end),
  }:encode(schema)
end
function M.tensors_of(n)
  return lt.data.from_tensors { x = lt.tensor(M.list(n, function(i) return { i, -i } end)),
    label = lt.tensor(M.list(n, function(i) return i % 2 end)) }
end

return M
