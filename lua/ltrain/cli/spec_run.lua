-- Runs spec files in this process with busted's own runner. The library is loaded first, for busted reloads between
-- files whatever was loaded after it, and a module that exists twice has its state twice. cli/spec_report.lua prints.

local host = require "ltrain.host"

local M = {}

-- Runs the files; `pass` are further options for busted. Returns { passed, failed, skipped }.
---@param files string[]
---@param pass string[]
---@param listing boolean only print the names of the tests
function M.files(files, pass, listing)
  if not pcall(require, "busted.runner") then
    io.stderr:write("ltrain test: busted is not installed; Debian's package is lua-busted\n")
    return { passed = 0, failed = 1, skipped = 0 }
  end
  local loaded, problem = pcall(require, "ltrain")
  require "ltrain.spec"
  local report = require "ltrain.cli.spec_report"
  arg = { [0] = "ltrain test", "--ignore-lua", "--output=ltrain.cli.spec_report",
    "--lpath=" .. host.home .. "/lua/?.lua", "--cpath=./?.so" } -- busted's own choice would be ./src, ./csrc
  if listing then arg[#arg + 1] = "--list" end
  for _, option in ipairs(pass) do arg[#arg + 1] = option end
  for _, file in ipairs(files) do arg[#arg + 1] = file end
  local run = require "busted.runner"
  local ok, message = pcall(function()
    run { standalone = false } -- raises nil after failures, which the report has counted
    return true
  end)
  local sums = report.sums()
  if not ok and (message ~= nil or sums.failed == 0) then
    print("FAIL the runner: " .. tostring(message or "busted gave up before the first test"))
    sums.failed = sums.failed + 1
  end
  if sums.failed > 0 and not loaded then print("the library did not load: " .. tostring(problem):match("[^\n]*")) end
  return sums
end

-- The child's side of `ltrain test`: one file, its counts on a marked line. Returns the exit status.
---@param args string[] the file, then options for busted
function M.child(args)
  io.stdout:setvbuf("no") -- nothing may be lost in a crash
  local token = os.getenv("LTRAIN_TEST_TOKEN")
  require("ltrain.cli.spec_report").mark_with(token)
  local sums = M.files({ args[1] }, { unpack(args, 2) }, false)
  io.stdout:write(("\n%s counts %d %d %d\n"):format(token, sums.passed, sums.failed, sums.skipped))
  io.stdout:flush()
  return sums.failed > 0 and 1 or 0
end

return M
