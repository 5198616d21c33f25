-- The history file of the REPL: one entry a line, a line break inside an entry written as \n, a backslash as \\.
-- $LTRAIN_HISTORY names it, else $XDG_STATE_HOME/ltrain/history, else ~/.local/state/ltrain/history. Each entry is
-- appended as it is made, so that two sessions and a crash lose nothing. Without a home nothing is kept.

local host = require "ltrain.host"

local M = {}
local KEEP = 2000

---@return string? path nil when nothing shall be kept
function M.path()
  local named = os.getenv("LTRAIN_HISTORY")
  if named then return named ~= "" and named or nil end
  local state, home = os.getenv("XDG_STATE_HOME"), os.getenv("HOME")
  if not state or state == "" then state = home and home ~= "" and home .. "/.local/state" end
  return state and state .. "/ltrain/history"
end

local function escape(entry) return (entry:gsub("\\", "\\\\"):gsub("\n", "\\n")) end

local function unescape(line)
  return (line:gsub("\\(.)", function(c) return c == "n" and "\n" or c end))
end

---@param path string?
---@return string[] entries the newest last
function M.load(path)
  local entries = {}
  local file = path and io.open(path)
  if not file then return entries end
  for line in file:lines() do
    if line ~= "" then entries[#entries + 1] = unescape(line) end
  end
  file:close()
  if #entries > 2 * KEEP then -- grown enough to be worth rewriting; the new file is put in place whole
    entries = { unpack(entries, #entries - KEEP + 1) }
    local new = path .. "." .. host.process_id()
    local lines = {}
    for i, entry in ipairs(entries) do lines[i] = escape(entry) .. "\n" end
    if host.append_private(new, table.concat(lines)) then os.rename(new, path) end
  end
  return entries
end

-- Appends an entry. Returns false and a message when it cannot.
---@param path string?
---@param entry string
function M.append(path, entry)
  if not path then return true end
  local folder = path:match("^(.*)/[^/]*$")
  if folder and folder ~= "" and not host.kind(folder) then
    local made = folder:sub(1, 1) == "/" and "" or "."
    for part in folder:gmatch("[^/]+") do
      made = made .. "/" .. part
      host.make_folder(made)
    end
  end
  return host.append_private(path, escape(entry) .. "\n")
end

return M
