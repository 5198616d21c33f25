-- `ltrain test` itself: what it counts, and that no spec file can take the others with it.

local spec = require "ltrain.spec"
local host = require "ltrain.host"

local folder

local function write(name, text)
  local file = assert(io.open(folder .. "/" .. name, "w"))
  file:write(text)
  file:close()
end

-- Runs `ltrain test` in the folder, with environment settings before it.
local function run(arguments, environment)
  return spec.run { "/bin/sh", "-c", ("cd '%s' && %s '%s' test %s"):format(folder, environment or "", host.exe,
    arguments or "") }
end

local function last_line(output) return output:match "([^\n]*)\n$" end

describe("ltrain test", function()
  before_each(function()
    folder = os.tmpname()
    os.remove(folder)
    assert(host.make_folder(folder))
  end)
  after_each(function() os.execute("rm -r '" .. folder .. "'") end)

  it("adds up the counts of all files below the folder", function()
    host.make_folder(folder .. "/deep")
    write("a_spec.lua", "it('one', function() end) it('two', function() end) pending('three')")
    write("deep/b_spec.lua", "it('four', function() end)")
    write("helper.lua", "error 'not a spec'")
    local output, status = run()
    assert.are.equal("3 passed, 0 failed, 1 skipped", last_line(output))
    assert.are.equal(0, status)
    assert.is_truthy(output:find("\n  skip three\n", 1, true))
  end)

  it("shows name, place and message of a failure, and fails", function()
    write("a_spec.lua", "describe('sums', function()\nit('are wrong', function() assert.are.equal(3, 1 + 1) end)\nend)")
    local output, status = run()
    assert.are.equal("0 passed, 1 failed, 0 skipped", last_line(output))
    assert.are.equal(1, status)
    assert.is_truthy(output:find("FAIL sums are wrong (a_spec.lua:2)", 1, true))
    assert.is_truthy(output:find("Expected:\n       (number) 3", 1, true))
  end)

  it("names a skipped test and its reason", function()
    write("a_spec.lua", "it('needs', function() require('ltrain.spec').need('no-such-data') end)")
    local output, status = run()
    assert.is_truthy(output:find("skip needs: no data set 'no-such-data' (LTRAIN_DATA says where to look)", 1, true))
    assert.are.equal("0 passed, 0 failed, 1 skipped", last_line(output))
    assert.are.equal(0, status)
  end)

  it("survives a crash and names the test", function()
    write("a_spec.lua", "it('breaks', function() io.write 'partial' require('ffi').cast('int *', 0)[0] = 1 end)")
    write("b_spec.lua", "it('is fine', function() end)")
    local output, status = run()
    assert.is_truthy(output:find("a_spec.lua crashed by signal 11 (Segmentation fault) in 'breaks'", 1, true)
      or output:find("AddressSanitizer", 1, true), output)
    assert.is_truthy(output:find("partial", 1, true))
    assert.are.equal("1 passed, 1 failed, 0 skipped", last_line(output))
    assert.are.equal(1, status)
  end)

  it("ends what runs too long, with what it started", function()
    write("a_spec.lua", "it('hangs', function() os.execute 'sleep 1000' while true do end end)")
    write("b_spec.lua", "it('is fine', function() end)")
    local output, status = run("", "LTRAIN_TEST_TIMEOUT=2")
    assert.is_truthy(output:find("timed out after 2 s in 'hangs'", 1, true))
    assert.are.equal("1 passed, 1 failed, 0 skipped", last_line(output))
    assert.are.equal(1, status)
  end)

  it("does not believe an early exit", function()
    write("a_spec.lua", "it('leaves', function() os.exit(0) end) it('never runs', function() end)")
    local output, status = run()
    assert.is_truthy(output:find("ended with status 0 before the end of its tests in 'leaves'", 1, true))
    assert.are.equal("0 passed, 1 failed, 0 skipped", last_line(output))
    assert.are.equal(1, status)
  end)

  it("counts a file that does not compile and an error outside of tests", function()
    write("a_spec.lua", "this is no Lua")
    write("b_spec.lua", "describe('x', function() error 'outside' end)")
    local output, status = run()
    assert.are.equal("0 passed, 2 failed, 0 skipped", last_line(output))
    assert.are.equal(1, status)
  end)

  it("keeps the output in the order of the files", function()
    write("a_spec.lua", "it('x', function() require('ltrain.host').sleep(0.3) print 'first' end)")
    write("b_spec.lua", "it('x', function() print 'second' end)")
    local output = run("", "LTRAIN_TEST_JOBS=2")
    assert.is_truthy(output:find "first.*second")
  end)

  it("filters by name and by tag", function()
    write("a_spec.lua", "it('apple #red', function() end) it('pear #green', function() end)")
    assert.are.equal("1 passed, 0 failed, 0 skipped", last_line((run "--filter=apple")))
    assert.are.equal("1 passed, 0 failed, 0 skipped", last_line((run "--tags=green")))
    assert.are.equal("1 passed, 0 failed, 0 skipped", last_line((run "--exclude-tags=red a_spec.lua")))
    assert.are.equal("1 passed, 0 failed, 0 skipped", last_line((run "--in-process --filter pear")))
  end)

  it("fails when nothing ran", function()
    write("a_spec.lua", "")
    local output, status = run()
    assert.is_truthy(output:find("ltrain test: no test ran", 1, true))
    assert.are.equal(1, status)
    output, status = run "missing"
    assert.are.equal("ltrain test: missing: no such file or folder\n", output)
    assert.are.equal(2, status)
    os.remove(folder .. "/a_spec.lua")
    output, status = run()
    assert.are.equal("ltrain test: no *_spec.lua under .\n", output)
    assert.are.equal(2, status)
  end)

  it("runs all in one process when asked to", function()
    write("a_spec.lua", "it('x', function() end)")
    write("b_spec.lua", "it('y', function() assert.is_true(false) end)")
    local output, status = run "--in-process"
    assert.are.equal("1 passed, 1 failed, 0 skipped", last_line(output))
    assert.are.equal(1, status)
  end)
end)

describe("assert.close", function()
  it("compares numbers, tables and tensors", function()
    local lt = require "ltrain"
    assert.close(1, 1 + 1e-9)
    assert.close(1e9, 1e9 + 1, 1e-6)
    assert.not_close(1, 1.1)
    assert.close({ 1, { 2, 3 } }, { 1, { 2, 3 + 1e-8 } })
    assert.close(lt.tensor { 1, 2 }, { 1, 2 })
    assert.not_close(lt.tensor { 1, 2 }, lt.tensor { 1, 2, 3 })
    assert.close(0 / 0, 0 / 0)
    assert.not_close(0 / 0, 1)
    assert.not_close(math.huge, 1)
  end)

  it("tells where the values differ", function()
    local difference = require("ltrain.spec").difference
    assert.are.equal("value[2][1]: 2 is not 3 within 1e-06 (off by 1)", difference({ 1, { 2 } }, { 1, { 3 } }))
    assert.are.equal("value: 2 entries, not 1", difference({ 1, 2 }, { 1 }))
    assert.are.equal("value.b: 1 is not nil", difference({ b = 1 }, {}))
  end)
end)
