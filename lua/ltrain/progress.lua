--- The line that an epoch shows: on a terminal it is rewritten in place a few times a second, in a file there is one line
--- an epoch (and one every half minute for long epochs). Rewriting works on one row only, so the line is cut to the
--- terminal's width until it is final.
local Progress = {}
Progress.__index = Progress
local C = require("ltrain.ffi").C

-- The program's part of the host; absent where the library is loaded by another program.
local has_host, host = pcall(require, "ltrain.host")
local function is_terminal() return has_host and host.is_terminal(1) end

local function duration(seconds)
  seconds = math.max(0, math.floor(seconds + 0.5))
  if seconds >= 3600 then return ("%d:%02d:%02d"):format(seconds / 3600, seconds / 60 % 60, seconds % 60) end
  return ("%d:%02d"):format(seconds / 60, seconds % 60)
end

local function commas(n)
  local s = ("%.0f"):format(n)
  local k
  repeat s, k = s:gsub("^(%d+)(%d%d%d)", "%1,%2") until k == 0
  return s
end

local open = false -- does the terminal's row hold a line that is not final?

---Leaves the live line as it is and goes to the next row; for messages that come in its midst.
function Progress.end_line()
  if not open then return end
  open = false
  io.stdout:write "\n"
  io.stdout:flush()
end

---@param epochs integer
---@param steps integer|nil steps an epoch, when known
function Progress.new(epochs, steps, verbose)
  return setmetatable({ epochs = epochs, steps = steps, live = verbose and is_terminal(), verbose = verbose }, Progress)
end

function Progress:begin(epoch)
  self.epoch, self.rows, self.step, self.start = epoch, 0, 0, C.lt_clock()
  self.shown = self.start
end

local function text(self, values, names, now, final)
  local seconds = now - self.start
  local parts = { ("epoch %d/%d"):format(self.epoch, self.epochs) }
  parts[#parts + 1] = self.steps and ("step %d/%d"):format(self.step, self.steps) or ("step %d"):format(self.step)
  parts[#parts + 1] = commas(self.rows / math.max(seconds, 1e-9)) .. " rows/s"
  for _, name in ipairs(names) do
    if values[name] then parts[#parts + 1] = ("%s %.4f"):format(name, values[name]) end
  end
  if final then parts[#parts + 1] = duration(seconds)
  elseif self.steps and self.step > 0 then parts[#parts + 1] = "ETA " .. duration(seconds / self.step * (self.steps - self.step)) end
  return table.concat(parts, "  ")
end

---After each step; `values` is a function that gives the running values, called only when a line is shown.
function Progress:update(rows, values, names)
  self.step = self.step + 1
  self.rows = self.rows + rows
  if not self.verbose then return end
  local now = C.lt_clock()
  if now - self.shown < (self.live and 0.2 or 30) then return end
  self.shown = now
  local line = text(self, values(), names, now)
  open = self.live
  io.stdout:write(self.live and "\r" .. line:sub(1, host.columns() - 1) .. "\27[K" or line .. "\n")
  io.stdout:flush()
end

---The epoch's last line, with training and validation values.
function Progress:finish(values, names)
  if not self.verbose then return end
  open = false
  io.stdout:write(self.live and "\r" or "", text(self, values, names, self.ended or C.lt_clock(), true), self.live and "\27[K\n" or "\n")
  io.stdout:flush()
end

---The training part of the epoch is over; validation does not count into rows/s.
function Progress:trained() self.ended = C.lt_clock() end

Progress.duration = duration
return Progress
