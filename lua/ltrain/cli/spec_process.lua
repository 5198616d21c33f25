-- A program under test: specs start it, wait for what it says, send it signals and judge its end. Its standard input is
-- empty, its two output streams are one text.

local host = require "ltrain.host"

---@class ltrain.SpecProcess
local Process = {}
Process.__index = Process

local M = {}

---@param command string[]
---@return ltrain.SpecProcess
function M.start(command)
  local words = {}
  for i, word in ipairs(command) do words[i] = word == "ltrain" and i == 1 and host.exe or word end
  local child = assert(host.spawn(words))
  return setmetatable({ child = child, output = "" }, Process)
end

-- Takes in what happened. Returns true while the program runs.
function Process:step()
  if self.status then return false end
  host.wait_children { self.child }
  local text, how, code, name = host.poll_child(self.child)
  self.output = self.output .. text
  if how then
    self.status, self.signal_name = how == "exit" and code or -1, name
    return false
  end
  return true
end

-- Waits until the output holds `text`; fails when it does not within the time.
---@param text string
---@param seconds number? default 60
function Process:expect(text, seconds)
  local stop = host.now() + (seconds or 60)
  while not self.output:find(text, 1, true) do
    if not self:step() or host.now() > stop then
      if self.output:find(text, 1, true) then return end
      self:finish(0)
      error(("the program never said '%s'; it said:\n%s"):format(text, self.output), 2)
    end
  end
end

---@param number integer 2 is Ctrl-C
function Process:signal(number) host.kill_child(self.child, number) end

-- Waits for the end, kills what does not end in time.
---@param seconds number? default 60
---@return string output, integer status, string signal
function Process:finish(seconds)
  local stop = host.now() + (seconds or 60)
  while self:step() do
    if host.now() > stop then
      host.kill_child(self.child)
      stop = math.huge
      self.output = self.output .. "\n(killed: it did not end in time)"
    end
  end
  return self.output, self.status, self.signal_name
end

return M
