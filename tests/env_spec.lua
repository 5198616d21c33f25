--- The environment variables of the engine: what is no number is as if it were not set.
local host = require "ltrain.host"
local spec = require "ltrain.spec"

local function read(assignment, code)
  return (spec.run({ "env", assignment, host.exe, "-e", "local lt = require 'ltrain' " .. code }):gsub("%s+$", ""))
end

describe("LTRAIN_THREADS", function()
  local code = "print(lt.threads())"
  it("is taken when it is a whole number from 1 to 1024", function()
    assert.equal("3", read("LTRAIN_THREADS=3", code))
    local usual = read("LTRAIN_THREADS=", code)
    for _, text in ipairs { "abc", "0", "-1", "1e9", "2.5", "3 cores", "nan", "99999999999999999999" } do
      assert.equal(usual, read("LTRAIN_THREADS=" .. text, code))
    end
  end)
end)

describe("LTRAIN_MEMORY_MIB", function()
  local code = "print(('%.0f'):format(lt.memory().limit))"
  it("is taken when it is a number above 0, and never overflows", function()
    assert.equal("67108864", read("LTRAIN_MEMORY_MIB=64", code))
    assert.equal("1572864", read("LTRAIN_MEMORY_MIB=1.5", code))
    assert.equal("1152921504606846976", read("LTRAIN_MEMORY_MIB=1e30", code))
    local usual = read("LTRAIN_MEMORY_MIB=", code)
    for _, text in ipairs { "abc", "0", "-5", "64 MiB", "inf", "nan" } do
      assert.equal(usual, read("LTRAIN_MEMORY_MIB=" .. text, code))
    end
  end)
end)
