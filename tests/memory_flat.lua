--- Loops whose memory must stay flat, shared by the everyday spec and the long check. Live bytes are taken after a full
--- collection at the end of the first tenth (warm-up) and at the end.
local lt = require "ltrain"

local M = {}

local function settle()
  collectgarbage()
  collectgarbage()
  require("ltrain.ffi").collect()
end

-- Resident memory of the process, MiB.
local function resident()
  local file = io.open "/proc/self/statm"
  if not file then return 0 end
  local pages = file:read "*l":match "^%d+ (%d+)"
  file:close()
  return tonumber(pages) * 4096 / 2 ^ 20
end

-- A small model whose step makes a few dozen tensors.
local function small_step()
  local w = lt.full({ 4, 4 }, 0.1):keep():requires_grad_()
  local x = lt.full({ 8, 4 }, 1):keep()
  return function()
    local loss = (lt.tanh(x * 0.5 + w:sum(1)) * 2):square():sum()
    loss:backward()
    w:set_grad(nil)
    return loss
  end
end

-- An iterator as data sets have it: a step scope around each turn.
local function steps(n)
  local scope, i = require("ltrain.scope").steps(), 0
  return function()
    i = i + 1
    if i > n then
      scope:finish()
      return nil
    end
    scope:step()
    return i
  end
end

M.cases = {
  { what = "small steps without a scope", quick = 20000, full = 1000000, body = function(n)
    local step = small_step()
    for _ = 1, n do step() end
  end },
  { what = "small steps of an iterator", quick = 20000, full = 1000000, body = function(n)
    local step = small_step()
    for _ in steps(n) do step() end
  end },
  { what = "steps that raise in the middle", quick = 2000, full = 10000, body = function(n)
    local step = small_step()
    for _ = 1, n do
      pcall(function()
        for i in steps(3) do
          local loss = step()
          if i == 2 then error("in the middle: " .. loss:dim()) end
        end
      end)
    end
  end },
  { what = "loops left by break", quick = 2000, full = 10000, body = function(n)
    local step = small_step()
    for _ = 1, n do
      for i in steps(3) do
        step()
        if i == 2 then break end
      end
    end
  end },
  { what = "lt.scope with an error inside", quick = 2000, full = 10000, body = function(n)
    local step = small_step()
    for _ = 1, n do pcall(lt.scope, function() step() error "inside" end) end
  end },
  { what = "inner loops left by break inside an outer loop", quick = 2000, full = 10000, body = function(n)
    local step = small_step()
    for _ in steps(n) do
      for i in steps(3) do
        step()
        if i == 2 then break end
      end
    end
  end },
}

---Runs a case; gives the relative drift of live bytes from the end of the warm-up to the end.
---@return number drift
---@return string detail
function M.run(case, n)
  case.body(math.max(1, math.floor(n / 10)))
  settle()
  local before, resident_before = lt.memory(), resident()
  case.body(n)
  settle()
  local after = lt.memory()
  local drift = (after.live - before.live) / before.peak -- of the working set
  return drift, ("%d bytes and %d tensors after warm-up, %d bytes and %d tensors after %d rounds; peak %d; resident %.1f -> %.1f MiB")
    :format(before.live, before.tensors, after.live, after.tensors, n, after.peak, resident_before, resident())
end

return M
