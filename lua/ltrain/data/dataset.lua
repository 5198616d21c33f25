--- Dataset: rows, an order for them, and how they become batches. A stage returns a new data set over the same rows.
--- Which rows a batch holds is a function of (seed, epoch, position) alone: not of threads, prefetch or earlier loops.
--- Tables (rows of texts) and what only they can do are in table.lua, iterating is in iterate.lua.
local bridge = require "ltrain.ffi"
local frames = require "ltrain.data.frame"
local rows = require "ltrain.data.rows"
local raise, fail = bridge.raise, bridge.fail

local Dataset = {}
local methods = {}

Dataset.__index = function(_, name)
  local method = methods[name]
  if method ~= nil then return method end
  local names = {}
  for key in pairs(methods) do names[#names + 1] = key end
  table.sort(names)
  local near = bridge.nearest(name, names)
  fail("dataset: there is no method '%s'%s", tostring(name), near and (", did you mean '%s'?"):format(near) or "")
end

function Dataset.__call() raise "dataset: it is no iterator; write: for batch in data:iter() do" end

-- source: makes batches (frame_source or tensors), or false for a table; plan: what the stages asked for; progress:
-- where its loops are; about: { where =, schema =, features =, read =, frame = }.
local function make(source, plan, about)
  local progress = { pass = 1, rows = 0, batches = 0, waits = 0, waited = 0, live = setmetatable({}, { __mode = "v" }) }
  return setmetatable({ source = source, plan = plan, about = about, progress = progress }, Dataset)
end

---@param n integer rows
function Dataset.new(source, n, about) return make(source, { n = n, maps = {}, rank = 0, ranks = 1 }, about) end

---A data set over all rows of a frame; without about.parts it is a table.
function Dataset.from_frame(frame, about)
  about.frame = frame
  local source = about.parts and require("ltrain.data.frame_source").new(frame, about.parts) or false
  return Dataset.new(source, frames.rows(frame), about)
end

function Dataset.is(value) return type(value) == "table" and getmetatable(value) == Dataset end

-- The same data set with changes to its plan.
local function with(self, changes)
  local plan = {}
  for key, value in pairs(self.plan) do plan[key] = value end
  for key, value in pairs(changes) do plan[key] = value end
  return make(self.source, plan, self.about)
end
Dataset.with = with

local function whole(what, name, v, least)
  if type(v) ~= "number" or v ~= math.floor(v) or v < least or v > 2 ^ 53 then
    fail("%s: %s is %s; it must be a whole number of at least %d", what, name, tostring(v), least)
  end
  return v
end
Dataset.whole = whole

-- Stages that choose rows come before shuffle and batch.
local function choosing(self, what)
  if self.plan.batch then fail("%s: it chooses rows; call it before batch", what) end
  if self.plan.shuffle then fail("%s: it chooses rows; call it before shuffle", what) end
  return self.plan.rows, self.plan.n
end
Dataset.choosing = choosing

-- ---- rows ----

---Keeps the rows that a rule or a function takes: { every = 10, is = 9 }, { every = 10, is_not = { 8, 9 } }, or
---function(i, row), where i is the row's position from 0 and row.name its value in a column.
---@param where table|function
function methods:filter(where)
  local list, n = choosing(self, "filter")
  local picked, count = rows.pick(list, n, rows.test(where, "filter"), self.about.frame, "filter", self.about.where)
  return with(self, { rows = picked, n = count })
end

---The rows at these positions (from 0), in this order.
---@param positions integer[]
function methods:select_rows(positions)
  local list, n = choosing(self, "select_rows")
  if type(positions) ~= "table" then fail("select_rows: give a list of positions, got a %s", type(positions)) end
  local picked, count = rows.at(list, n, positions, "select_rows")
  return with(self, { rows = picked, n = count })
end

---Parts by name: each by a rule or function as in filter, or all by fractions, drawn at random by options.seed.
---@param parts table { train = { every = 10, is_not = 9 }, test = { every = 10, is = 9 } }, or { train = 0.9, ... }
---@param options table|nil { seed = 0 }
---@return table name -> dataset
function methods:split(parts, options)
  local list, n = choosing(self, "split")
  options = bridge.options("split", options, { "seed" })
  local names, sum, result = {}, 0, {}
  for name in pairs(parts) do names[#names + 1] = name end
  table.sort(names)
  local fractions = {}
  for i, name in ipairs(names) do
    local part = parts[name]
    if type(part) == "number" then
      if not (part >= 0 and part <= 1) then fail("split: %s is %g; a fraction is from 0 to 1", name, part) end
      sum = sum + part
      fractions[#fractions + 1] = { name, part }
      if #fractions ~= i then raise "split: give fractions for all parts, or rules for all" end
    else
      if #fractions > 0 then raise "split: give fractions for all parts, or rules for all" end
      result[name] = self:filter(part)
    end
  end
  if sum > 1 + 1e-9 then fail("split: the fractions add up to %g; they may reach 1", sum) end
  if #fractions > 0 then
    local drawn = rows.fractions(list, n, fractions, options.seed or 0)
    for _, name in ipairs(names) do result[name] = with(self, { rows = drawn[name][1], n = drawn[name][2] }) end
  end
  return result
end

---The first n rows (before batch), in the order of the epoch when it is shuffled; or the first n batches.
function methods:take(n)
  whole("take", "the count", n, 0)
  local plan = self.plan
  if plan.copies then raise "take: call it before repeat_" end
  if plan.batch then return with(self, { batches = math.min(n, plan.batches or n) }) end
  if plan.shuffle then
    local window = plan.window or { 0, plan.n }
    return with(self, { window = { window[1], math.min(n, window[2]) } })
  end
  local picked, count = rows.range(plan.rows, 0, math.min(n, plan.n))
  return with(self, { rows = picked, n = count })
end

---Leaves out the first n rows (before batch) or the first n batches.
function methods:skip(n)
  whole("skip", "the count", n, 0)
  local plan = self.plan
  if plan.copies then raise "skip: call it before repeat_" end
  if plan.batch then
    local left = plan.batches and math.max(plan.batches - n, 0)
    return with(self, { first_batch = (plan.first_batch or 0) + n, batches = left })
  end
  if plan.shuffle then
    local window = plan.window or { 0, plan.n }
    local left = math.min(n, window[2])
    return with(self, { window = { window[1] + left, window[2] - left } })
  end
  local left = math.min(n, plan.n)
  local picked, count = rows.range(plan.rows, left, plan.n - left)
  return with(self, { rows = picked, n = count })
end

---Another order in every epoch, a function of (seed, epoch). The data lie in memory, so all rows are mixed, whatever
---the buffer's size; the number is there for readers used to streams.
---@param buffer integer|boolean|nil
---@param options table|nil { seed = }: else the generator's seed (lt.manual_seed)
function methods:shuffle(buffer, options)
  if type(buffer) == "table" and options == nil then buffer, options = nil, buffer end
  options = bridge.options("shuffle", options, { "seed" })
  if self.plan.batch then raise "shuffle: call it before batch; whole batches are not shuffled" end
  if buffer == false then return with(self, { shuffle = false }) end
  if buffer ~= nil and buffer ~= true then whole("shuffle", "the buffer", buffer, 1) end
  if options.seed ~= nil and (type(options.seed) ~= "number" or options.seed ~= math.floor(options.seed)) then
    fail("shuffle: seed is %s; it must be a whole number", tostring(options.seed))
  end
  return with(self, { shuffle = true, seed = options.seed })
end

---Before batch: every row n times. After batch: n passes one after the other, each in an order of its own; without n,
---passes without end.
---@param n integer|nil
function methods:repeat_(n)
  if n ~= nil then whole("repeat_", "the count", n, 1) end
  if self.plan.batch then return with(self, { copies = (self.plan.copies or 1) * (n or math.huge) }) end
  if not n then raise "repeat_: without a count it goes on for ever; call it after batch" end
  local list, count = choosing(self, "repeat_")
  local picked, total = rows.times(list, count, n)
  return with(self, { rows = picked, n = total })
end

-- ---- batches ----

---Rows of one step. The last batch of an epoch has what is left, or is dropped.
---@param n integer
---@param options table|nil { drop_last = false }
function methods:batch(n, options)
  options = bridge.options("batch", options, { "drop_last" })
  whole("batch", "the size", n, 1)
  if not self.source then
    fail("batch: %s has no ids and numbers yet; encode it by a schema first, dataset:encode(schema)", self.about.where)
  end
  if self.plan.batch then raise "batch: the data set has batches already" end
  return with(self, { batch = n, drop_last = options.drop_last and true or false })
end

---A function of every batch, run in the script's own state when the batch is delivered: what it returns comes out of
---the loop. For work on tensors; what can be said in a schema is done in C.
---@param fn function
function methods:map(fn)
  if type(fn) ~= "function" then fail("map: give a function, got a %s", type(fn)) end
  if not self.plan.batch then raise "map: its function takes batches; call it after batch" end
  local maps = { unpack(self.plan.maps) }
  maps[#maps + 1] = fn
  return with(self, { maps = maps })
end

---Batches are gathered ahead of time by a thread, at most n of them. Changes no value and no order.
---@param n integer|nil default 4
---@param options table|nil { threads = 1 }
function methods:prefetch(n, options)
  options = bridge.options("prefetch", options, { "threads" })
  return with(self, { depth = whole("prefetch", "the depth", n or 4, 1),
    threads = whole("prefetch", "threads", options.threads or 1, 1) })
end

---This process's share of every batch: one of `ranks` contiguous parts, counted from 0.
function methods:shard(rank, ranks)
  whole("shard", "ranks", ranks, 1)
  whole("shard", "rank", rank, 0)
  if rank >= ranks then fail("shard: rank %d of %d; ranks count from 0", rank, ranks) end
  return with(self, { rank = rank, ranks = ranks })
end

-- ---- what it is ----

-- Where a pass begins and ends in its order of rows, and how many rows it delivers. Positions count from 0.
function methods:span()
  local plan = self.plan
  local n = plan.window and plan.window[2] or plan.n
  local size = plan.batch
  if not size then return 0, n, n end
  local first = math.min((plan.first_batch or 0) * size, n)
  local stop = plan.drop_last and first + math.floor((n - first) / size) * size or n
  if plan.batches then stop = math.min(stop, first + plan.batches * size) end
  return first, stop, n
end

---Rows of one epoch.
---@return integer
function methods:rows()
  local first, stop = self:span()
  return stop > first and (stop - first) * (self.plan.copies or 1) or 0
end

---Batches of one loop; of a data set without batches, its rows.
---@return integer
function methods:len()
  local first, stop = self:span()
  if stop <= first then return 0 end
  if not self.plan.batch then return stop - first end
  return math.ceil((stop - first) / self.plan.batch) * (self.plan.copies or 1)
end
methods.steps = methods.len

---What a model is built on; see schema:features().
function methods:features()
  if self.about.schema then return self.about.schema:features() end
  if not self.about.features then fail("features: %s has no schema", self.about.where) end
  return self.about.features
end

function Dataset:__tostring()
  local plan, text = self.plan, { ("%d rows of %s"):format(self.plan.n, self.about.where) }
  if not self.source then text[1] = text[1] .. " (texts)" end
  if plan.shuffle then text[#text + 1] = "shuffle" end
  if plan.window then
    text[#text + 1] = ("rows %d to %d"):format(plan.window[1], plan.window[1] + plan.window[2] - 1)
  end
  if plan.batch then text[#text + 1] = ("batch %d%s"):format(plan.batch, plan.drop_last and " (full ones)" or "") end
  if plan.first_batch then text[#text + 1] = "skip " .. plan.first_batch end
  if plan.batches then text[#text + 1] = "take " .. plan.batches end
  if #plan.maps > 0 then text[#text + 1] = "map" end
  if plan.depth then text[#text + 1] = "prefetch " .. plan.depth end
  if plan.copies then text[#text + 1] = plan.copies == math.huge and "repeat" or "repeat " .. plan.copies end
  return table.concat(text, " -> ")
end

Dataset.methods = methods
require "ltrain.data.table"(Dataset)
require "ltrain.data.iterate"(Dataset)

return Dataset
