-- `ltrain test`: busted specs, each file in a child process of its own with a time limit, several at a time, their
-- output in order. A crash, an endless loop or an early os.exit is one failed file and stops nobody else. The last line
-- is the sum: `N passed, N failed, N skipped`. What happens inside a child is cli/spec_run.lua.

local host = require "ltrain.host"

local M = {}

local HELP = [==[
usage: ltrain test [options] [files or folders]     (without any: tests, spec, or here)
  --in-process        all files in this process, for debuggers; no time limit
  --filter=PATTERN    only tests whose name matches the Lua pattern; --filter-out the others
  --tags=a,b          only tests with #a or #b in their name; --exclude-tags the others
  --list              names of the tests, without running them
  -v                  stack traces of errors; other options of busted pass through too
LTRAIN_TEST_TIMEOUT   seconds a file may take (300);   LTRAIN_TEST_JOBS   files at a time (processors)
LTRAIN_DATA           where spec.data looks for data sets]==]

-- Options of busted that take their value as the next word.
local WITH_VALUE = {}
for _, name in ipairs { "--filter", "--filter-out", "--tags", "-t", "--exclude-tags", "--repeat", "--seed", "--lang",
  "--helper", "-m", "--lpath", "--cpath", "-e", "-Xhelper" } do
  WITH_VALUE[name] = true
end

local function parse(args)
  local options, i = { pass = {}, paths = {} }, 1
  while args[i] do
    local word = args[i]
    if word == "--help" or word == "-h" then
      options.help = true
    elseif word == "--in-process" then
      options.in_process = true
    elseif word == "--list" or word == "-l" then
      options.list, options.in_process = true, true
    elseif word:find("^%-%-totals=") then
      options.totals = word:match("=(.*)$") -- for scripts/test.sh: the sums go there, not to the last line
    elseif word == "-o" or word:find("^%-%-output") then
      return nil, "the report is ltrain's own; " .. word .. " is not an option here"
    elseif word:sub(1, 1) == "-" then
      options.pass[#options.pass + 1] = word
      if WITH_VALUE[word] then
        i = i + 1
        options.pass[#options.pass + 1] = args[i]
      end
    else
      options.paths[#options.paths + 1] = word
    end
    i = i + 1
  end
  return options
end

-- Spec files below the paths, in byte order of their names. Returns nil and a message for a path that is not there.
local function find_files(paths)
  local files = {}
  local function walk(folder)
    for _, name in ipairs(host.list(folder) or {}) do
      local path = folder == "." and name or folder .. "/" .. name
      local kind = host.kind(path)
      if kind == "folder" and name:sub(1, 1) ~= "." then
        walk(path)
      elseif kind == "file" and name:find("_spec%.lua$") then
        files[#files + 1] = path
      end
    end
  end
  for _, path in ipairs(paths) do
    local kind = host.kind(path)
    if not kind then return nil, path .. ": no such file or folder" end
    if kind == "folder" then walk((path:gsub("(.)/+$", "%1"))) else files[#files + 1] = path end
  end
  return files
end

local function start(file, options, token)
  local command = { host.exe, "test-file", file, unpack(options.pass) }
  host.set_environment("LTRAIN_TEST_TOKEN", token) -- marks the lines that the child means for us
  local child, message = host.spawn(command)
  return { file = file, child = child, message = message, output = {}, started = host.now() }
end

-- Reads what a child wrote: strips our lines, returns the rest, the counts, and the test it was at.
local function read_output(text, token)
  local counts, at
  text = text:gsub("\n?" .. token .. " at ([^\n]*)\n", function(name)
    at = name
    return ""
  end)
  text = text:gsub("\n?" .. token .. " counts (%d+) (%d+) (%d+)\n", function(passed, failed, skipped)
    counts = { passed = tonumber(passed), failed = tonumber(failed), skipped = tonumber(skipped) }
    return ""
  end)
  return text, counts, at
end

-- How an ended child is judged. Returns its counts, its text, and what is wrong with its end, if anything.
local function judge(job, token, limit)
  local text, counts, at = read_output(table.concat(job.output), token)
  local where = at and at ~= "" and " in '" .. at .. "'" or ""
  local problem
  if job.message then
    problem = job.message
  elseif job.timed_out then
    problem = ("timed out after %g s%s; LTRAIN_TEST_TIMEOUT sets the limit"):format(limit, where)
  elseif job.how == "signal" then
    problem = ("crashed by signal %d (%s)%s"):format(job.code, job.name, where)
  elseif not counts then
    problem = ("ended with status %d before the end of its tests%s"):format(job.code, where)
  elseif job.code ~= (counts.failed > 0 and 1 or 0) then
    problem = ("ended with status %d after its tests"):format(job.code)
  end
  counts = counts or { passed = 0, failed = 0, skipped = 0 }
  if problem then counts.failed = counts.failed + 1 end
  return counts, text, problem
end

local function print_job(job, counts, text, problem)
  local parts = { counts.passed .. " passed" }
  if counts.failed > 0 then parts[#parts + 1] = counts.failed .. " failed" end
  if counts.skipped > 0 then parts[#parts + 1] = counts.skipped .. " skipped" end
  print(("%-6s %-44s %s, %.2f s"):format(counts.failed > 0 and "FAILED" or "ok", job.file, table.concat(parts, ", "),
    job.ended - job.started))
  if text:find("%S") then print("  " .. text:gsub("%s+$", ""):gsub("\n", "\n  ")) end
  if problem then print("  FAIL " .. job.file .. " " .. problem) end
  io.stdout:flush()
end

-- Runs the files in children and returns the sums.
local function run_children(files, options)
  local limit = tonumber(os.getenv("LTRAIN_TEST_TIMEOUT") or "") or 300
  local jobs = math.max(1, math.min(tonumber(os.getenv("LTRAIN_TEST_JOBS") or "") or host.processors(), #files))
  local token = ("ltrain-%d-%d"):format(host.process_id(), host.now() * 1e6):gsub("%-", "_")
  local sums = { passed = 0, failed = 0, skipped = 0 }
  local all, running, next_file, printed = {}, {}, 1, 0
  if jobs > 1 and not os.getenv("OMP_WAIT_POLICY") then
    host.set_environment("OMP_WAIT_POLICY", "passive") -- neighbours share the cores: no pool may spin
  end
  while printed < #files do
    while #running < jobs and next_file <= #files do
      local job = start(files[next_file], options, token)
      all[next_file] = job
      next_file = next_file + 1
      if job.child then running[#running + 1] = job else job.ended, job.code = host.now(), 1 end
    end
    local children = {}
    for i, job in ipairs(running) do children[i] = job.child end
    if #children > 0 then host.wait_children(children) end
    for i = #running, 1, -1 do
      local job = running[i]
      local text, how, code, name = host.poll_child(job.child)
      job.output[#job.output + 1] = text
      if how then
        job.how, job.code, job.name, job.ended = how, code, name, host.now()
        table.remove(running, i)
      elseif not job.timed_out and host.now() - job.started > limit then
        job.timed_out = true
        host.kill_child(job.child)
      end
    end
    while all[printed + 1] and all[printed + 1].ended do
      local job = all[printed + 1]
      local counts, text, problem = judge(job, token, limit)
      print_job(job, counts, text, problem)
      for key, value in pairs(counts) do sums[key] = sums[key] + value end
      printed = printed + 1
    end
  end
  return sums
end

---@param args string[]
---@return integer exit status
function M.main(args)
  local options, message = parse(args)
  if options and options.help then
    print(HELP)
    return 0
  end
  local files
  if options then
    if #options.paths == 0 then
      options.paths = { host.kind("tests") and "tests" or host.kind("spec") and "spec" or "." }
    end
    files, message = find_files(options.paths)
  end
  if files and #files == 0 then message = "no *_spec.lua under " .. table.concat(options.paths, ", ") end
  if message then
    io.stderr:write("ltrain test: ", message, "\n")
    return 2
  end
  local sums
  if options.in_process then
    sums = require("ltrain.cli.spec_run").files(files, options.pass, options.list)
    if options.list then return sums.failed == 0 and 0 or 1 end
  else
    local handler = function(problem) return require("ltrain.cli.errors").caught(problem) end
    local ok, result = xpcall(function() return run_children(files, options) end, handler)
    if not ok then
      io.stderr:write("ltrain test: ", result.text, "\n")
      return result.interrupted and 130 or 1
    end
    sums = result
  end
  local nothing = sums.passed + sums.failed + sums.skipped == 0
  if nothing then io.stderr:write("ltrain test: no test ran\n") end
  if options.totals then
    local file = assert(io.open(options.totals, "w"))
    file:write(("%d %d %d\n"):format(sums.passed, sums.failed, sums.skipped))
    file:close()
  else
    print(("%d passed, %d failed, %d skipped"):format(sums.passed, sums.failed, sums.skipped))
  end
  return (sums.failed > 0 or nothing) and 1 or 0
end

return M
