-- Memory as scripts see it (lua/ltrain/memory.lua, core/memory.c): what lt.memory() counts, the limit, and running out of it.
local lt = require "ltrain"
local fails = require "tests.ops.fails"

local MIB = 1048576

local function settle()
  collectgarbage()
  lt.empty_cache()
end

after_each(function()
  lt.memory_limit(nil)
  settle()
end)

describe("lt.memory", function()
  it("counts live, peak and cached bytes, tensors and blocks by size", function()
    settle()
    local before = lt.memory()
    local t = lt.zeros(MIB) -- luacheck: ignore
    local during = lt.memory()
    assert.equal(before.tensors + 1, during.tensors)
    assert.equal(before.storages + 1, during.storages)
    local grown = during.live - before.live
    assert.is_true(grown >= 4 * MIB and grown <= 5 * MIB + 65536)
    assert.is_true(during.peak >= during.live)
    local found
    for _, size in ipairs(during.by_size) do found = found or size.block >= 4 * MIB and size.live >= 1 end
    assert.is_true(found)
    t = nil -- luacheck: ignore
    collectgarbage()
    local after = lt.memory()
    assert.equal(before.live, after.live)
    assert.is_true(after.cached >= 4 * MIB)
    lt.empty_cache()
    assert.is_true(lt.memory().cached < after.cached - 4 * MIB + 1)
    assert.is_true(after.limit > 64 * MIB)
  end)

  it("counts the nodes of a graph", function()
    settle()
    local before = lt.memory().nodes
    local x = lt.zeros(2):requires_grad_()
    local y = x * 2 + 1 -- luacheck: ignore
    assert.equal(before + 2, lt.memory().nodes)
    y = nil -- luacheck: ignore
    settle()
    assert.equal(before, lt.memory().nodes)
  end)

  it("reuses blocks: a steady loop asks the system for none", function()
    local x = lt.rand(100, 100):keep()
    local function step() lt.scope(function() (x * 2):exp():sum():item() end) end
    for _ = 1, 5 do step() end
    local before = lt.memory()
    for _ = 1, 100 do step() end
    local after = lt.memory()
    assert.equal(before.system_allocations, after.system_allocations)
    assert.equal(before.live, after.live)
    assert.is_true(after.allocations > before.allocations)
  end)
end)

describe("the memory limit", function()
  -- The limit leaves `mib` beside what lives now.
  local function leave(mib)
    settle()
    lt.memory_limit(lt.memory().live + lt.memory().cached + mib * MIB)
  end

  local function short(f, ...)
    local ok, message = pcall(f, ...)
    assert.is_false(ok)
    local asked, live, peak, limit, fits = message:match(
      "out of memory: a block of ([%d.]+) MiB was asked for; live ([%d.]+) MiB, peak ([%d.]+) MiB, limit ([%d.]+) MiB, so at most ([%d.]+) MiB "
      .. "would fit; use a smaller batch or model, or raise LTRAIN_MEMORY_MIB")
    assert.is_truthy(asked, message)
    return tonumber(asked), tonumber(live), tonumber(peak), tonumber(limit), tonumber(fits), message
  end

  it("names the request, live, peak, the limit and what would fit", function()
    leave(16)
    local asked, live, peak, limit, fits, message = short(lt.zeros, 8 * MIB)
    assert.equal(32, asked)
    assert.is_true(live <= peak)
    assert.is_true(math.abs(limit - live - fits) <= 0.11)
    assert.is_true(fits <= 16.2 and fits > 10)
    assert.is_truthy(message:find "^tests/memory_spec.lua:%d+: " or message:find "^[^:]*:%d+: out")
    assert.equal(0, lt.zeros(MIB):sum():item()) -- life goes on
  end)

  it("is not reached by garbage: a collection comes first", function()
    leave(24)
    for _ = 1, 50 do
      local t = lt.zeros(2 * MIB) -- 8 MiB each, dropped at once
      assert.equal(0, t[1]:item())
    end
    local x = lt.zeros(MIB):requires_grad_()
    for _ = 1, 20 do (x * 2):sum():backward() end -- garbage of graphs as well
    assert.equal(40, x.grad[1]:item())
  end)

  it("is met with a retry that does nothing twice", function()
    local x = lt.full({ MIB }, 3):requires_grad_()
    local y = (x * x):sum() + (x:exp() * 0):sum()
    local square = lt.arange(1, MIB):reshape(1024, 1024)
    collectgarbage "stop"
    for _ = 1, 4 do lt.zeros(2 * MIB) end -- 32 MiB of garbage
    lt.memory_limit(lt.memory().live + 3 * MIB)
    local before = lt.memory().live
    y:backward() -- needs several blocks of 4 MiB
    local gradient = x.grad[1]:item()
    local collected = lt.memory().live < before
    for _ = 1, 2 do lt.zeros(2 * MIB) end
    lt.memory_limit(lt.memory().live + 3 * MIB)
    square:add_(square:t()) -- a copy of what it reads and writes
    collectgarbage "restart"
    assert.is_true(collected)
    assert.equal(6, gradient)
    assert.same({ 2, 2 + 1025, 1024 * 1024 * 2 }, { square[{ 1, 1 }]:item(), square[{ 1, 2 }]:item(), square[{ 1024, 1024 }]:item() })
  end)

  it("leaves an interrupted pass and a value written in place whole", function()
    local x = lt.full({ MIB }, 1):requires_grad_()
    local y = (x * 2):exp():sum()
    leave(1)
    short(lt.backward, y)
    lt.memory_limit(nil)
    assert.is_nil(x.grad)
    y = (x * 2):sum()
    y:backward()
    assert.equal(2, x.grad[1]:item())
    local z = lt.full({ 2 }, 3)
    z:mul_(2)
    assert.same({ 6, 6 }, z:totable())
  end)

  it("is a number of bytes", function()
    fails("memory_limit: a; give bytes above 0, or nothing for the machine's own limit", lt.memory_limit, "a")
    fails("memory_limit: -5; give bytes above 0, or nothing for the machine's own limit", lt.memory_limit, -5)
    fails("threads: the number is a; it must be a whole number of at least 1", lt.threads, "a")
  end)

  it("holds for shapes beyond any memory", function()
    fails("zeros: out of memory: a tensor of shape [1000000000, 1000000000] is larger than any memory", lt.zeros, 1e9, 1e9)
    fails("zeros: size -1 of dim 2 is negative", lt.zeros, 2, -1)
  end)
end)

describe("lt.threads", function()
  it("sets the number, at least 1", function()
    local before = lt.threads()
    assert.equal(1, lt.threads(1))
    assert.equal(before, lt.threads(before))
    local ok, message = pcall(lt.threads, 0)
    assert.is_false(ok)
    assert.is_truthy(message:find("threads", 1, true))
  end)
end)
