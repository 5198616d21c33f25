--- A short bounded run of the operator fuzzer; `scripts/test.sh --long` runs it on the sanitizer build with other seeds.
local spec = require "ltrain.spec"
local host = require "ltrain.host"

describe("random operator calls", function()
  it("neither crash nor raise anything but an operator's own error", function()
    local output, status = spec.run({ "ltrain", host.home .. "/tests/fuzz/operators.lua", "7", "2000" }, 120)
    assert.equal(0, status, output)
  end)
end)
