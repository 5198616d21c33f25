-- The command line: what runs, what it prints, and that exit statuses tell the truth.

local spec = require "ltrain.spec"

local function script(text)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
  return path
end

describe("command line", function()
  it("runs code with arguments", function()
    local output, status = spec.run { "ltrain", "-e", "print(arg[0], arg[1], ...)", "a", "b" }
    assert.are.equal("-e\ta\ta\tb\n", output)
    assert.are.equal(0, status)
  end)

  it("runs a script with arguments, its folder first on the path", function()
    local folder = os.tmpname()
    os.remove(folder)
    assert.are.equal(0, os.execute("mkdir -p " .. folder))
    for name, text in pairs {
      ["main.lua"] = "print(arg[1], require 'beside')",
      ["beside.lua"] = "return 'the one beside'",
    } do
      local file = assert(io.open(folder .. "/" .. name, "w"))
      file:write(text)
      file:close()
    end
    local output, status = spec.run { "ltrain", folder .. "/main.lua", "x" }
    os.execute("rm -r " .. folder)
    assert.are.equal("x\tthe one beside\n", output)
    assert.are.equal(0, status)
  end)

  it("reads a script from standard input", function()
    local host = require "ltrain.host"
    local output = spec.run { "/bin/sh", "-c", "echo 'print(6 * 7)' | '" .. host.exe .. "' -" }
    assert.are.equal("42\n", output)
  end)

  it("gives the status of os.exit", function()
    local _, status = spec.run { "ltrain", "-e", "os.exit(7)" }
    assert.are.equal(7, status)
  end)

  it("tells the version", function()
    local output, status = spec.run { "ltrain", "--version" }
    assert.is_truthy(output:find("^ltrain %d+%.%d+%.%d+\n$"))
    assert.are.equal(0, status)
  end)

  it("names an unknown option and an unknown word", function()
    local output, status = spec.run { "ltrain", "--frobnicate" }
    assert.are.equal("ltrain: unknown option --frobnicate; ltrain --help lists them\n", output)
    assert.are.equal(1, status)
    output, status = spec.run { "ltrain", "tset" }
    assert.are.equal("ltrain: tset: no such script; commands are test and doctor\n", output)
    assert.are.equal(1, status)
    output, status = spec.run { "ltrain", "missing/script.lua" }
    assert.are.equal("ltrain: missing/script.lua: no such script\n", output)
    assert.are.equal(1, status)
  end)

  it("turns the compiler off, and reports what it compiles", function()
    assert.are.equal("false\n", (spec.run { "ltrain", "-joff", "-e", "print((jit.status()))" }))
    local output = spec.run { "ltrain", "-jv", "-e", "for i = 1, 1000 do end" }
    assert.is_truthy(output:find("TRACE   1 (command line):1 loop", 1, true))
    assert.are.equal("ltrain: unknown option -jnonsense\n", (spec.run { "ltrain", "-jnonsense" }))
  end)

  it("fails when its output cannot be written", function()
    local host = require "ltrain.host"
    local output, status = spec.run { "/bin/sh", "-c", "'" .. host.exe .. "' -e 'print(1)' >/dev/full" }
    assert.are.equal("ltrain: cannot write the output: No space left on device\n", output)
    assert.are.equal(1, status)
  end)
end)

describe("ltrain doctor", function()
  it("tells versions, the machine and the environment variables", function()
    local output, status = spec.run { "ltrain", "doctor" }
    assert.are.equal(0, status, output)
    for _, fact in ipairs { "LuaJIT +LuaJIT 2", "oneDNN +%d", "libarchive +%d", "usable processors +%d", "ltrain +loads",
      "threads +%d", "LTRAIN_THREADS +%w" } do
      assert.is_truthy(output:find(fact), fact)
    end
  end)
end)

describe("an uncaught error", function()
  it("shows the message and the frames of the script only", function()
    local path = script [[
local function inner(x) error("no " .. x) end
local function outer(x) inner(x) return 1 end
outer("luck")
]]
    local output, status = spec.run { "ltrain", path }
    os.remove(path)
    assert.are.equal(("ltrain: %s:1: no luck\n    %s:1: in function 'inner'\n    %s:2: in function 'outer'\n"
      .. "    %s:3: in the script\n"):format(path, path, path, path), output)
    assert.are.equal(1, status)
  end)

  it("is one line when the message says it all", function()
    local output, status = spec.run { "ltrain", "-e", "local t; t.x = 1" }
    assert.are.equal("ltrain: (command line):1: attempt to index local 't' (a nil value)\n", output)
    assert.are.equal(1, status)
  end)

  it("shows every frame under LTRAIN_DEBUG", function()
    local output = spec.run { "/usr/bin/env", "LTRAIN_DEBUG=1", require("ltrain.host").exe, "-e", "error 'x'" }
    assert.is_truthy(output:find("stack traceback:", 1, true))
    assert.is_truthy(output:find("lua/ltrain/cli/main.lua", 1, true))
  end)

  it("may be an object with a text", function()
    local code = "error(setmetatable({}, { __tostring = function() return 'my text' end }))"
    assert.are.equal("ltrain: my text\n    (command line):1: in the script\n", (spec.run { "ltrain", "-e", code }))
  end)

  it("of the library is at the script's line, without its frames", function()
    local path = script "local lt = require 'ltrain'\nlocal a = lt.tensor { 1, 2 }\na:view(3)\n"
    local output, status = spec.run { "ltrain", path }
    os.remove(path)
    assert.is_truthy(output:find("^ltrain: " .. path:gsub("%p", "%%%0") .. ":3: "), output)
    assert.is_nil(output:find("lua/ltrain", 1, true), output)
    assert.are.equal(1, status)
  end)

  it("of syntax names file and line", function()
    local path = script "x = = 1\n"
    local output, status = spec.run { "ltrain", path }
    os.remove(path)
    assert.are.equal("ltrain: " .. path .. ":1: unexpected symbol near '='\n", output)
    assert.are.equal(1, status)
  end)
end)
