--- What an operator call costs beside its arithmetic, on tensors of 8 elements: an add, the same with a gradient recorded,
--- a chain forward and backward, and the system allocations of a steady training step (there must be none).
--- Times are processor time, the best of several rounds: all of this runs on one thread, and other work on the machine
--- should not count.
--- Usage: ltrain scripts/bench_dispatch.lua
local lt = require "ltrain"

local function best(n, rounds, body)
  body(n / 10)
  local seconds = math.huge
  for _ = 1, rounds do
    local start = os.clock()
    body(n)
    seconds = math.min(seconds, os.clock() - start)
  end
  return seconds / n
end

local a, b = lt.full({ 8 }, 1), lt.full({ 8 }, 2)
local w = lt.full({ 8 }, 0.5):requires_grad_()

local add = best(2e5, 30, function(n)
  local c
  for _ = 1, n do c = a + b end
  return c
end)
print(("add of two 8-element tensors            %6.0f ns   (budget 500)"):format(add * 1e9))

local recorded = best(2e5, 30, function(n)
  local c
  for _ = 1, n do c = a + w end
  return c
end)
print(("the same, recording a gradient          %6.0f ns   (budget 800)"):format(recorded * 1e9))

local scoped = best(2e3, 30, function(n)
  for _ = 1, n do
    lt.scope(function()
      local c
      for _ = 1, 100 do c = a + b end
      return c:dim()
    end)
  end
end) / 100
print(("add inside a step scope of 100          %6.0f ns"):format(scoped * 1e9))

local chain = best(200, 30, function(n)
  for _ = 1, n do
    lt.scope(function()
      local x = w
      for _ = 1, 100 do x = x * a + b end
      x:sum():backward()
      w:set_grad(nil)
    end)
  end
end)
print(("100 x (mul, add) forward and backward    %.0f thousand operators/s"):format(0.2 / chain))

local function step()
  lt.scope(function()
    local loss = ((w * a + b):tanh()):square():sum()
    loss:backward()
    w:set_grad(nil)
  end)
end
for _ = 1, 1000 do step() end
local before = lt.memory().system_allocations
for _ = 1, 10000 do step() end
print(("system allocations in 10,000 steady steps %.0f"):format(lt.memory().system_allocations - before))
