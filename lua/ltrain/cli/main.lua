-- The command line of the program: sets the module path, reads the options and runs a script, a piece of code, the
-- REPL or a command. Returns the exit status to core/cli/main.c. The library itself is loaded by who asks for it, so
-- that starting stays a matter of milliseconds.

local host = require "ltrain.host"
local args = { ... }

local HELP = [==[
usage: ltrain [options] [script.lua [arguments]]
  ltrain                     interactive session
  ltrain script.lua [...]    run a script; `-` reads it from standard input
  ltrain -e 'code' [...]     run code
  ltrain test [paths]        run specs (ltrain test --help tells more)
  ltrain doctor              what this machine and installation offer
options
  -joff, -jv, -jp, -j...     LuaJIT: no compiler, compiler messages, profiler
  --version, --help
Environment variables: ltrain doctor lists them.]==]

-- A script's own folder first, then ours, then what LUA_PATH and LuaJIT say.
local function set_path(folder)
  local own = folder and (folder .. "/?.lua;" .. folder .. "/?/init.lua;") or ""
  local lua = host.home .. "/lua/"
  package.path = own .. lua .. "?.lua;" .. lua .. "?/init.lua;" .. host.path
end

-- `ltrain.models.NAME` is models/NAME.lua.
local function model_searcher(name)
  local model = name:match("^ltrain%.models%.([%w_.]+)$")
  if not model then return nil end
  local file = host.home .. "/models/" .. model:gsub("%.", "/") .. ".lua"
  if host.kind(file) ~= "file" then return "\n\tno file '" .. file .. "'" end
  return assert(loadfile(file))
end

local function fail(message, status)
  io.stdout:flush()
  io.stderr:write("ltrain: ", message, "\n")
  return status or 1
end

-- -jNAME[=options], as luajit has it: a function of `jit` or a module jit.NAME.
local function jit_option(text)
  local name, options = text:match("^([%w_]+)=?(.*)$")
  local list = {}
  for option in (options or ""):gmatch("[^,]+") do list[#list + 1] = option end
  if name and type(jit[name]) == "function" then return jit[name](unpack(list)) end
  local found, module = pcall(require, "jit." .. tostring(name))
  if not found or type(module) ~= "table" or not module.start then return "unknown option -j" .. text end
  module.start(unpack(list))
end

-- Runs a chunk with arguments. Prints what went wrong; returns the exit status.
local function run(chunk, name, first)
  arg = { [0] = name, [-1] = host.exe }
  for i = first, #args do arg[#arg + 1] = args[i] end
  local errors = require "ltrain.cli.errors" -- now: when the stack is full no module loads any more
  local handler = function(message) return errors.caught(message) end
  local ok, failure = xpcall(chunk, handler, unpack(args, first))
  if ok then return host.take_interrupt() and 130 or 0 end -- caught by the script, yet not to the end
  failure = errors.whole(failure)
  return fail(failure.text, failure.interrupted and 130 or 1)
end

local function run_script(file, first)
  set_path(file:match("^(.*)/[^/]*$") or (file == "-" and "." or "."))
  if file ~= "-" and host.kind(file) ~= "file" then
    if host.kind(file) then return fail(file .. ": not a file") end
    local hint = file:find("[./]") and "" or "; commands are test and doctor"
    return fail(file .. ": no such script" .. hint)
  end
  local chunk, message = loadfile(file ~= "-" and file or nil)
  if not chunk then return fail(message) end
  return run(chunk, file, first)
end

local function main()
  host.path = package.path
  set_path(nil)
  table.insert(package.loaders, 3, model_searcher)
  jit.opt.start("maxtrace=8000", "maxmcode=16384") -- the defaults are small for a training run's code
  local i = 1
  while args[i] do
    local word = args[i]
    if word == "--help" or word == "-h" then
      print(HELP)
      return 0
    elseif word == "--version" or word == "-v" then
      print("ltrain " .. host.version)
      return 0
    elseif word:sub(1, 2) == "-j" then
      local text = word:sub(3)
      if text == "" then
        i = i + 1
        text = args[i] or ""
      end
      local problem = jit_option(text)
      if problem then return fail(problem) end
    elseif word == "-e" then
      local code = args[i + 1]
      if not code then return fail("-e needs code after it") end
      local chunk, message = loadstring(code, "=(command line)")
      if not chunk then return fail(message) end
      return run(chunk, "-e", i + 2)
    elseif word == "test" or word == "doctor" then
      return require("ltrain.cli." .. word).main({ unpack(args, i + 1) })
    elseif word == "test-file" and os.getenv("LTRAIN_TEST_TOKEN") then -- a child of `ltrain test`
      return require("ltrain.cli.spec_run").child({ unpack(args, i + 1) })
    elseif word:sub(1, 1) == "-" and word ~= "-" then
      return fail("unknown option " .. word .. "; ltrain --help lists them")
    else
      return run_script(word, i + 1)
    end
    i = i + 1
  end
  return require("ltrain.cli.repl").main()
end

return main()
