-- What a person reads when something went wrong: the message, and those frames of the stack that are his own. Frames
-- of lua/ltrain and of C are left out unless LTRAIN_DEBUG is set.

local host = require "ltrain.host"

local M = {}
local MAX_FRAMES = 12
local INTERNAL = "@" .. host.home .. "/lua/ltrain/"

-- The user's frames from `level` on, as { at = "file:line", what = "in ..." }.
local function user_frames(level)
  local frames = {}
  while true do
    local info = debug.getinfo(level, "Sln")
    if not info then return frames end
    local ours = info.source:sub(1, #INTERNAL) == INTERNAL or info.source:sub(1, 8) == "=ltrain."
    if info.what ~= "C" and not ours then
      local what = info.what == "main" and "in the script" or info.name and "in function '" .. info.name .. "'"
        or "in the function at line " .. info.linedefined
      frames[#frames + 1] = { at = info.short_src .. ":" .. info.currentline, what = what }
    end
    level = level + 1
  end
end

---@param message any what was raised
---@return string
function M.message(message)
  if type(message) == "string" then return message end
  local meta = getmetatable(message)
  if type(meta) == "table" and meta.__tostring then
    local ok, text = pcall(tostring, message)
    return ok and type(text) == "string" and text or "(an error object that cannot be shown: its __tostring fails)"
  end
  if type(message) == "number" then return tostring(message) end
  return "(an error object: " .. tostring(message) .. ")"
end

-- The handler for xpcall at a top level: takes a pending interrupt in hand.
---@param message any
---@return { text: string, interrupted: boolean }
function M.caught(message)
  local interrupted = host.take_interrupt()
  local progress = package.loaded["ltrain.progress"]
  if progress then progress.end_line() end -- a message does not begin in the middle of a live line
  -- A full stack leaves its handler little room, and LuaJIT crashes when that runs out: no walk over its frames.
  local full = type(message) == "string" and message:find("stack overflow", 1, true)
  local frames = full and {} or user_frames(3)
  if interrupted then
    return { text = "interrupted" .. (frames[1] and " at " .. frames[1].at or ""), interrupted = true }
  end
  local text = M.message(message)
  if not full and (os.getenv("LTRAIN_DEBUG") or "0") ~= "0" then
    return { text = debug.traceback(text, 2), interrupted = false }
  end
  if #frames > 1 or (frames[1] and not text:find(frames[1].at, 1, true)) then
    local lines = { text }
    for i, frame in ipairs(frames) do
      if #frames > MAX_FRAMES and i == MAX_FRAMES then
        lines[#lines + 1] = "    ... " .. (#frames - MAX_FRAMES) .. " more"
      elseif i < MAX_FRAMES or i == #frames then
        lines[#lines + 1] = "    " .. frame.at .. ": " .. frame.what
      end
    end
    text = table.concat(lines, "\n")
  end
  return { text = text, interrupted = false }
end

jit.off(M.caught, true) -- a trace compiled in the handler wants room on the stack, too

---What xpcall gave for a failure, made whole: where the stack had no room left even for the handler, it is LuaJIT's own text.
---@param failure any
---@return { text: string, interrupted: boolean }
function M.whole(failure)
  if type(failure) == "table" and type(failure.text) == "string" then return failure end
  return { text = "stack overflow or out of memory, so that the place of the error is lost: " .. M.message(failure), interrupted = false }
end

return M
