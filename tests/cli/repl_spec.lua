-- The interactive session: through a pipe, through a terminal, and its parts one by one.

local spec = require "ltrain.spec"
local host = require "ltrain.host"

-- Feeds lines to a session through a pipe.
local function piped(lines)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write(lines)
  file:close()
  local output, status, signal = spec.run { "/bin/sh", "-c", ("'%s' <'%s'"):format(host.exe, path) }
  os.remove(path)
  return output, status, signal
end

describe("a session from a pipe", function()
  it("prints values, keeps the last one, accepts a leading =", function()
    assert.are.equal("3\n6\n6\n\"s\"\t{}\n", (piped "1 + 2\n_ * 2\n= _\n's', {}\n"))
  end)

  it("takes entries of several lines", function()
    assert.are.equal("12\n", (piped "function f(x)\n  return x * 4\nend\nf(3)\n"))
  end)

  it("keeps locals, shared with the functions that use them", function()
    local output = piped [[
local n, step = 0, 2
local function up() n = n + step end
up()
n
step = 10
up()
n
local n = "another"
up()
n
]]
    assert.are.equal('2\n12\n"another"\n', output)
  end)

  it("says nothing about nil and prints no value of a statement", function()
    assert.are.equal("", (piped "nil\nlocal x = 1\n"))
  end)

  it("prints what a chunk returns", function() assert.are.equal("5\n", (piped "local x = 5 return x\n")) end)

  it("stops at the first error, which has the line", function()
    local output, status = piped "1\nlocal t\nt.x = 1\n2\n"
    assert.are.equal("1\nstdin:1: attempt to index upvalue 't' (a nil value)\n", output)
    assert.are.equal(1, status)
  end)

  it("says that the stack overflowed, and that an error cannot be shown", function()
    local output, status, signal = piped "function f() return 1 + f() end\nf()\n"
    assert.is_truthy(output:find "^[^\n]*stack overflow\n$", output) -- one line: where, if the handler had room for it
    assert.are.same({ 1, "" }, { status, signal })
    output, status = piped "error(setmetatable({}, { __tostring = function() error() end }))\n"
    assert.is_truthy(output:find("(an error object that cannot be shown: its __tostring fails)", 1, true))
    assert.are.equal(1, status)
  end)

  it("says what an unfinished entry lacks", function()
    local output, status = piped "for i = 1, 2 do\n"
    assert.are.equal("stdin:1: 'end' expected near '<eof>'\n", output)
    assert.are.equal(1, status)
  end)
end)

describe("a session on a terminal", function()
  local history = os.tmpname()

  -- Each step is keys and the text to wait for; returns all that the terminal showed.
  local function typed(...)
    -- libedit keeps the names of added functions: under the leak checker that is not ours to answer for
    return spec.run { "/usr/bin/env", "LTRAIN_HISTORY=" .. history, "TERM=xterm", "LC_ALL=C.UTF-8",
      "ASAN_OPTIONS=detect_leaks=0", "python3", host.home .. "/tests/cli/terminal.py", host.exe, ... }
  end

  setup(function()
    local _, status = spec.run { "/bin/sh", "-c", "command -v python3" }
    if status ~= 0 then error "python3 is needed to play a terminal" end
  end)
  before_each(function() os.remove(history) end)
  teardown(function() os.remove(history) end)

  it("edits, completes and recalls entries", function()
    local output, status = typed("string.for\\t('%d', 40 + 2)\\r", '"42"', "\\x1b[A .. '!'\\r", '"42!"',
      "string.\\t", "gmatch", "\\x15function f()\\r", ">> ", "return 77\\r", ">> ", "end\\r", "> ", "f()\\r", "77",
      "'h\\xc3\\xa9' .. 'llo'\\r", "héllo\"", "\\x04", "")
    assert.are.equal(0, status, output)
  end)

  it("survives Ctrl-C at the prompt and in a loop", function()
    local output, status = typed("print('dropped", "dropped", "\\x03", "> ", "while true do end\\r", "~end",
      "\\x03", "interrupted", "6 * 7\\r", "42", "\\x04", "")
    assert.are.equal(0, status, output)
  end)

  it("keeps its history in a file, one entry a line", function()
    local output, status = typed("x = 'a\\\\\\\\b'\\r", "> ", "if x then\\r", ">> ", "end\\r", "> ", "\\x04", "")
    assert.are.equal(0, status, output)
    assert.are.same({ "x = 'a\\\\b'", "if x then\nend" }, require("ltrain.cli.history").load(history))
    output, status = typed("\\x1b[A\\x1b[A", "b'", "\\r", "> ", "x\\r", '"a\\\\\\\\b"', "\\x04", "")
    assert.are.equal(0, status, output)
  end)
end)

describe("completion", function()
  local complete = require "ltrain.cli.complete"
  local base = { inherited = function() end, __hidden = 1 }
  local object = setmetatable({ own = 1, method = function() end }, { __index = base })
  local listed = setmetatable({}, { __members = { "first", "second" }, __index = function() return print end })
  local scope = { object = object, listed = listed, text = "abc", objective = 2 }
  local function lookup(name) return scope[name] end
  local function variables()
    local names = {}
    for name in pairs(scope) do names[name] = true end
    return names
  end
  local function candidates(line) return (complete.candidates(line, lookup, variables)) end

  it("offers variables", function() assert.are.same({ "object", "objective" }, candidates("x = obj")) end)

  it("offers fields, also inherited ones", function()
    assert.are.same({ "inherited", "method", "own" }, candidates("print(object."))
    assert.are.same({ "own" }, candidates("object.o"))
    assert.are.same({ "__hidden" }, candidates("object.__"))
  end)

  it("offers only functions after a colon", function()
    assert.are.same({ "inherited", "method" }, candidates("object:"))
    assert.are.same({ "upper" }, candidates("text:up"))
  end)

  it("asks __members", function() assert.are.same({ "first", "second" }, candidates("listed.")) end)

  it("offers modules inside require", function()
    assert.are.same({ "ltrain.cli.session", "ltrain.cli.show" }, (function()
      local list = candidates("local s = require 'ltrain.cli.s")
      local kept = {}
      for _, name in ipairs(list) do
        if not name:find("spec", 1, true) then kept[#kept + 1] = name end
      end
      return kept
    end)())
  end)

  it("offers nothing where nothing can be known", function()
    assert.are.same({}, candidates("missing."))
    assert.are.same({}, candidates("3"))
    assert.are.same({}, candidates("object.own.deeper."))
  end)

  it("offers the library's names, loaded or not, and tensor methods", function()
    local lt = require "ltrain"
    local function find(line)
      return (complete.candidates(line, function(name) return name == "lt" and lt or lt.tensor { 1, 2 } end, variables))
    end
    assert.are.same({ "softmax" }, find "lt.softm")
    assert.are.same({ "Linear" }, find "lt.nn.Lin")
    assert.are.same({ "add", "add_" }, { unpack(find "x:add", 1, 2) })
    assert.are.same({ "totable" }, find "x:totab")
    assert.are.same({}, find "lt.lt_")
  end)

  it("inserts what all candidates share", function()
    local insert, list = complete.complete("obj", lookup, variables)
    assert.are.equal("ect", insert)
    assert.are.equal(2, #list)
    insert = complete.complete("object.meth", lookup, variables)
    assert.are.equal("od", insert)
  end)
end)

describe("printed values", function()
  local show = require("ltrain.cli.show").text

  it("are bounded and sorted", function()
    assert.are.equal('{ 1, 2, { x = 1, ["y z"] = "q\\n" } }', show { 1, 2, { x = 1, ["y z"] = "q\n" } })
    assert.are.equal("{ a = 1, b = 2, c = 3 }", show { c = 3, a = 1, b = 2 })
    assert.are.equal("{ { { { {...} } } } }", (show { { { { { 1 } } } } }):gsub("%s+", " "):gsub("  ", " "))
    local long = {}
    for i = 1, 100 do long[i] = i end
    assert.is_truthy(show(long):find("... 100 entries\n}", 1, true))
    assert.is_truthy(show(("x"):rep(1000)):find('" .. (1000 bytes)', 1, true))
  end)

  it("tell a table that holds itself", function()
    local t = {}
    t.self = t
    assert.are.equal("{ self = <above> }", show(t))
  end)

  it("use __tostring", function()
    assert.are.equal("thing", show(setmetatable({}, { __tostring = function() return "thing" end })))
  end)
end)

describe("an entry", function()
  local kind = require("ltrain.cli.session").kind
  local cases = {
    expression = { "1 + 1", "f(x)", "function() end", "a, b", "'text'" },
    statement = { "x = 1", "local a", "for i = 1, 2 do end", "f() g()", "-- nothing but words\nlocal a" },
    unfinished = { "for i = 1, 2 do", "x = {", "function f()", "f(1,", "x = [[text", "if a then b() else", "x =", "y +", "not" },
    wrong = { "x = = 1", "end", "'text", "1 1" },
  }
  local names = {}
  for name in pairs(cases) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    for _, source in ipairs(cases[name]) do
      it(("%q is %s"):format(source, name), function() assert.are.equal(name, (kind(source))) end)
    end
  end
end)
