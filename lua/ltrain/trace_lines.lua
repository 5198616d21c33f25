--- With LTRAIN_DEBUG set, the user's line of every operator call is remembered with the result's header, so that a use after
--- the end of its step can name the line that made the tensor. A look-up costs about a quarter of a microsecond, so it is
--- off otherwise. Each header keeps its last few generations; headers are reused, so the list is bounded.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"

local M = {}
local KEPT = 8
local lines = {} -- address of the header -> ring of { generation, line }

local function address(h) return tonumber(ffi.cast("intptr_t", ffi.cast("void *", h.t_))) end

---Remembers where a tensor was made.
function M.remember(h)
  local key = address(h)
  local ring = lines[key]
  if not ring then
    ring = { at = 0 }
    lines[key] = ring
  end
  ring.at = ring.at % KEPT + 1
  ring[ring.at] = { h.gen_, bridge.user_line() }
end

---" (made at train.lua:31)" for a dead handle, or "".
function M.made_at(h)
  if h == nil or h.t_ == nil then return "" end
  for _, entry in ipairs(lines[address(h)] or {}) do
    if entry[1] == h.gen_ then return (" (made at %s)"):format(entry[2]) end
  end
  return ""
end

return M
