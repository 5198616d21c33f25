--- Loops over a data set. A pass is one run through the rows in the order of (seed, pass); a loop is one pass, or as
--- many as repeat_ says. Where a loop is: { seed, epoch, position, rows }, as of the last batch delivered, so that
--- batches made ahead never count. Each turn of the loop is a step scope: a step's tensors end when the next begins.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local scope = require "ltrain.scope"
local rows = require "ltrain.data.rows"
local C, raise, fail = bridge.C, bridge.raise, bridge.fail

local function generator_seed()
  local seed, call = ffi.new "int64_t[1]", ffi.new "int64_t[1]"
  C.lt_random_state(seed, call)
  return tonumber(seed[0])
end

-- The stream of one pass from a position on.
local function open_pass(self, pass, position, seed)
  local plan = self.plan
  local first, _, n = self:span()
  local list, count, shuffle = plan.rows, plan.n, plan.shuffle
  if plan.window then
    list, count = rows.shuffled(list, count, seed, pass, plan.window[1], plan.window[2])
    shuffle = false
  end
  return self.source:open(list, count, { batch = plan.batch, drop_last = plan.drop_last, shuffle = shuffle, seed = seed,
    epoch = pass, position = math.min(math.max(position, first), n), rank = plan.rank, ranks = plan.ranks,
    threads = plan.threads or 0, depth = plan.depth or 0 })
end

local function settle(progress, stream)
  local waits, waited = stream:waits()
  progress.waits, progress.waited = progress.waits + waits, progress.waited + waited
  stream:close()
end

return function(Dataset)
  local methods = Dataset.methods

  ---The loop: for batch in dataset:iter() do ... end. Every call starts the next epoch, or goes on where restore said.
  ---@return function
  function methods:iter()
    local plan, progress = self.plan, self.progress
    if not plan.batch then raise "iter: the data set has no batches; call :batch(n) first" end
    local copies = plan.copies or 1
    local pass, position = progress.pass, progress.resume or 0
    local last = copies == math.huge and math.huge or math.ceil(pass / copies) * copies
    progress.resume = nil
    progress.pass = (copies == math.huge and pass or last) + 1
    local first, stop = self:span()
    local seed = progress.seed or plan.seed or generator_seed()
    progress.at = { seed, pass, position }
    local steps, stream, over = scope.steps(), nil, false

    local function stop_with(message)
      over = true
      if stream then settle(progress, stream) end
      steps:finish()
      raise(message)
    end

    local function mapped(batch)
      for i = 1, #plan.maps do
        batch = plan.maps[i](batch)
        if batch == nil then stop_with "map: the function returned nothing; it must return the batch" end
      end
      return batch
    end

    return function()
      if over then return nil end
      steps:step()
      while true do
        stream = stream or open_pass(self, pass, position, seed)
        progress.live[1] = stream
        local batch, message
        if stream:position() < stop then batch, message = stream:next() end
        if batch then
          position = stream:position()
          progress.at = { seed, pass, position }
          progress.rows, progress.batches = progress.rows + batch.size, progress.batches + 1
          return mapped(batch)
        elseif message then
          stop_with(message)
        end
        settle(progress, stream)
        stream, position = nil, 0
        if pass >= last or first >= stop then
          over = true
          progress.at = { seed, pass + 1, 0 }
          steps:finish()
          return nil
        end
        pass = pass + 1
        if copies == math.huge then progress.pass = pass + 1 end
      end
    end
  end

  ---The next loop is epoch e (from 1), which decides its order. One that restore left half-way in it goes on there.
  ---@param e integer
  function methods:set_epoch(e)
    Dataset.whole("set_epoch", "the epoch", e, 1)
    local copies = self.plan.copies or 1
    local first = copies == math.huge and e or (e - 1) * copies + 1
    local progress = self.progress
    local last = copies == math.huge and first or first + copies - 1
    if not (progress.resume and progress.pass >= first and progress.pass <= last) then
      progress.pass, progress.resume = first, nil
    end
    return self
  end

  ---Where the latest loop is, as of the last batch delivered: four integers.
  ---@return table { seed =, epoch =, position =, rows = }
  function methods:state()
    local progress = self.progress
    local seed = progress.seed or self.plan.seed or generator_seed()
    local at = progress.at or { seed, progress.pass, progress.resume or 0 }
    return { seed = at[1], epoch = at[2], position = at[3], rows = self.plan.n }
  end

  ---The next loop goes on behind the last batch that state() knew of.
  ---@param state table
  function methods:restore(state)
    bridge.options("restore", state, { "seed", "epoch", "position", "rows" })
    for _, name in ipairs { "epoch", "position", "rows" } do
      Dataset.whole("restore", name, state[name], name == "epoch" and 1 or 0)
    end
    if type(state.seed) ~= "number" then raise "restore: the state has no seed" end
    local _, _, n = self:span()
    if state.rows ~= self.plan.n or state.position > n then
      fail("restore: the state is of a data set with %d rows at position %d; this one has %d rows", state.rows,
        state.position, self.plan.n)
    end
    local progress = self.progress
    progress.seed, progress.pass, progress.resume = state.seed, state.epoch, state.position
    progress.at = { state.seed, state.epoch, state.position }
    return self
  end

  ---Rows and batches delivered, times and seconds spent waiting for them; what reading the file counted; unseen values.
  ---@return table { rows =, batches =, waits =, waited =, read = { rows =, bad =, reports = } }
  function methods:stats()
    local progress = self.progress
    local waits, waited = progress.waits, progress.waited
    local live = progress.live[1]
    if live then
      local more, seconds = live:waits()
      waits, waited = waits + more, waited + seconds
    end
    return { rows = progress.rows, batches = progress.batches, waits = waits, waited = waited, read = self.about.read,
      unknown = self.about.unknown }
  end
end
