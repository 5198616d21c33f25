-- The interactive session: reads entries from the terminal (or, without one, from a pipe), runs them and prints their
-- values. Ctrl-C drops the line or stops the computation, Ctrl-D leaves. From a pipe it stops at the first error, and
-- the exit status says so. It imports the library as `lt` and offers help(x); nothing else does either.

local host = require "ltrain.host"
local session = require "ltrain.cli.session"
local errors = require "ltrain.cli.errors" -- now: when the stack is full no module loads any more

local M = {}

local function complain(text)
  io.stdout:flush()
  io.stderr:write(text, "\n")
end

-- The globals that only a session has.
local function import(env)
  local found, lt = pcall(require, "ltrain")
  if found then
    env.lt = lt
  else
    complain("the library does not load, so `lt` is nil: " .. tostring(lt):match("[^\n]*"))
  end
  env.help = function(x) return require "ltrain.help"(x) end
end

-- Runs one entry. Returns 0, or the exit status for what went wrong. Ctrl-C raises in here only: elsewhere the
-- session's own code is at work, and the line that is read next answers it.
local function run(state, source)
  local show = function(...)
    local n = select("#", ...)
    if n == 0 then return end
    rawset(_G, "_", (...))
    local texts = {}
    for i = 1, n do texts[i] = require("ltrain.cli.show").text((select(i, ...))) end
    if not (n == 1 and (...) == nil) then print(table.concat(texts, "\t")) end
  end
  local entry, message = state:load(source, show)
  if not entry then
    complain(message or "not a chunk of Lua")
    return 1
  end
  local ok, failure = xpcall(function()
    host.set_interruptible(true)
    entry()
    host.set_interruptible(false)
  end, function(problem)
    local failure = errors.caught(problem)
    host.set_interruptible(false)
    return failure
  end)
  if ok then return 0 end
  host.set_interruptible(false)
  failure = errors.whole(failure)
  complain(failure.text)
  return failure.interrupted and 130 or 1
end

-- Collects lines until they make an entry. `read(prompt)` gives a line, or nil and a reason.
-- Returns the entry, or nil and the reason.
local function read_entry(read)
  local line, reason = read("> ")
  if not line then return nil, reason end
  local text = line
  while session.kind(text:match("^%s*=(.*)$") or text) == "unfinished" do
    line, reason = read(">> ")
    if not line then
      if reason == "end" then return text end -- let the compiler say what is missing
      return nil, reason
    end
    text = text .. "\n" .. line
  end
  return text
end

local function read_pipe()
  local line = io.read("*l")
  if line then return line end
  return nil, "end"
end

-- Variables of the session: its locals and the globals.
local function variables_of(state)
  return function()
    local names = {}
    for name in pairs(state.cells) do names[name] = true end
    for name in pairs(_G) do
      if type(name) == "string" then names[name] = true end
    end
    return names
  end
end

local function lookup_in(state)
  return function(name)
    local cell = state.cells[name]
    if cell then
      local _, value = debug.getupvalue(cell.closure, cell.index)
      return value
    end
    return rawget(_G, name)
  end
end

local function terminal_session(state)
  local history = require "ltrain.cli.history"
  local complete = require "ltrain.cli.complete"
  local path = history.path()
  local last
  for _, entry in ipairs(history.load(path)) do
    host.remember(entry)
    last = entry
  end
  print(("ltrain %s   help(x) explains, Ctrl-D leaves"):format(host.version))
  local lookup, variables = lookup_in(state), variables_of(state)
  local completion = function(line) return complete.complete(line, lookup, variables) end
  local read = function(prompt)
    io.stdout:flush()
    return host.edit_line(prompt, completion)
  end
  local warned = false
  while true do
    local entry, reason = read_entry(read)
    if entry and entry:find("%S") then
      if entry ~= last then
        host.remember(entry)
        local kept, problem = history.append(path, entry)
        if not kept and not warned then complain("the history is not kept: " .. tostring(problem)) end
        warned, last = warned or not kept, entry
      end
      run(state, entry)
    elseif not entry and reason ~= "interrupt" then
      if reason ~= "end" then complain(reason) end
      break
    end
  end
  print()
  host.close_editor()
  return 0
end

---@return integer exit status
function M.main()
  import(_G)
  host.set_interruptible(false)
  local state = session.new(_G)
  if host.is_terminal(0) and host.is_terminal(1) then return terminal_session(state) end
  while true do
    local entry = read_entry(read_pipe)
    if host.take_interrupt() then return 130 end
    if not entry then return 0 end
    local status = entry:find("%S") and run(state, entry) or 0
    if status ~= 0 then return status end
  end
end

return M
