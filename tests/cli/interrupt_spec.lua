-- Ctrl-C: stops interpreted and compiled loops alike, cannot be swallowed by pcall, leaves the time to clean up.

local spec = require "ltrain.spec"

local SIGINT = 2

-- Runs code until it is ready, interrupts it, and returns how it ended.
local function interrupted(code)
  local process = spec.start { "ltrain", "-e", "io.stdout:write 'ready\\n' io.stdout:flush() " .. code }
  process:expect "ready\n"
  require("ltrain.host").sleep(0.05) -- into the loop, so that it is compiled
  process:signal(SIGINT)
  local output, status = process:finish(30)
  return output:gsub("^ready\n", ""), status
end

describe("Ctrl-C", function()
  local loops = {
    ["a compiled loop"] = "while true do end",
    ["arithmetic"] = "local x = 0 while true do x = x + 1 end",
    ["allocation"] = "while true do local t = {} t[1] = {} end",
    ["calls of C"] = "local ffi = require 'ffi' ffi.cdef 'int getpid(void);' while true do ffi.C.getpid() end",
    ["a coroutine"] = "coroutine.wrap(function() while true do end end)()",
    ["strings"] = "while true do ('x'):rep(100):gsub('x', 'y') end",
    ["interpreted code"] = "jit.off() while true do end",
    ["a blocked read"] = "local p = io.popen('sleep 100') p:read('*a') while true do end",
    ["a loop of pcall"] = "while true do pcall(function() while true do end end) end",
    ["a loop of xpcall"] = "while true do xpcall(function() while true do end end, function(e) return e end) end",
  }
  local names = {}
  for name in pairs(loops) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    it("stops " .. name, function()
      local output, status = interrupted(loops[name])
      assert.are.equal("ltrain: interrupted at (command line):1\n", output)
      assert.are.equal(130, status)
    end)
  end

  it("lets a script that catches it clean up, and still reports 130", function()
    local output, status = interrupted [[
      local ok, message = pcall(function() while true do end end)
      for i = 1, 1e5 do ok = ok end
      print("cleaned", ok, message:match("interrupted$"))]]
    assert.are.equal("cleaned\tfalse\tinterrupted\n", output)
    assert.are.equal(130, status)
  end)

  it("is a flag that C code and the library see and clear", function()
    local output, status = interrupted [[
      local ffi = require "ffi"
      ffi.cdef "int lt_interrupted(void); void lt_interrupt_clear(void);"
      pcall(function() while true do end end)
      print(ffi.C.lt_interrupted())
      ffi.C.lt_interrupt_clear()
      print(ffi.C.lt_interrupted())
      for i = 1, 1e8 do end]]
    assert.are.equal("1\n0\n", output)
    assert.are.equal(0, status)
  end)

  it("pressed twice within a second ends the process at once", function()
    local process = spec.start { "ltrain", "-e", [[
      print "ready" io.stdout:flush()
      while true do pcall(function() while true do end end) end]] }
    process:expect "ready\n"
    process:signal(SIGINT)
    require("ltrain.host").sleep(0.05)
    process:signal(SIGINT)
    local _, status = process:finish(30)
    assert.are.equal(130, status)
  end)

  it("does nothing to a program started with it ignored", function()
    local host = require "ltrain.host"
    local code = "print 'ready' io.stdout:flush() local t = os.clock() while os.clock() - t < 0.3 do end print 'done'"
    local process = spec.start { "/bin/sh", "-c", ("trap '' INT; '%s' -e \"%s\""):format(host.exe, code) }
    process:expect "ready\n"
    process:signal(SIGINT)
    local output, status = process:finish(30)
    assert.are.equal("ready\ndone\n", output)
    assert.are.equal(0, status)
  end)
end)
