--- Arguments that no operator can serve: sizes whose product overflows, outputs that show an element twice, numbers where
--- a tensor is written. Each is refused with a message, and nothing is written.
local lt = require "ltrain"
local fails = require "tests.ops.fails"

describe("sizes", function()
  it("that multiply beyond any memory are refused, also beside a size of 0", function()
    for _, shape in ipairs { { 2 ^ 31, 2 ^ 31, 2 ^ 31 }, { 0, 2 ^ 31, 2 ^ 31, 2 ^ 31 }, { 2 ^ 31, 2 ^ 31, 2 ^ 31, 0 }, { 2 ^ 53 } } do
      local text = {}
      for i, s in ipairs(shape) do text[i] = ("%.0f"):format(s) end
      fails(("zeros: out of memory: a tensor of shape [%s] is larger than any memory"):format(table.concat(text, ", ")), lt.zeros, shape)
    end
  end)

  it("of views are counted as those of tensors", function()
    fails("expand: out of memory: a tensor of shape [4294967296, 4294967296] is larger than any memory", function()
      return lt.ones { 1 }:expand(2 ^ 32, 2 ^ 32) -- 2^64 elements would be counted as none
    end)
    fails("reshape: out of memory: a tensor of shape [9007199254740992, 9007199254740992, 0] is larger than any memory", function()
      return lt.zeros { 0 }:reshape(2 ^ 53, 2 ^ 53, 0)
    end)
    fails("diag_embed: out of memory: a tensor of shape [0, 9007199254740995, 9007199254740995] is larger than any memory", function()
      return lt.zeros { 0, 3 }:diag_embed(2 ^ 53)
    end)
  end)

  it("of arange are counted before they are cast", function()
    fails("arange: from 0 to 1e+300 by 1 has 1e+300 numbers; no memory holds so many", lt.arange, 0, 1e300)
    fails("arange: from 1e+300 to 0 by -1 has 1e+300 numbers; no memory holds so many", lt.arange, 1e300, 0, -1)
  end)
end)

describe("empty", function()
  it("holds truth values where it is bool, not any bytes", function()
    for _ = 1, 3 do
      local used = lt.full({ 64 }, 77, "uint8") -- luacheck: ignore (leaves a block with bytes of 77 behind)
      used = nil -- luacheck: ignore
      collectgarbage()
      assert.equal(0, lt.empty({ 64 }, "bool"):sum():item())
    end
  end)
end)

describe("sum_to", function()
  it("refuses a shape that broadcasting could not have stretched", function()
    fails("sum_to: [] does not come from broadcasting [4, 1, 3]", function() return lt.tensor(1):sum_to { 4, 1, 3 } end)
    fails("sum_to: [2, 3] does not come from broadcasting [2, 2]", function() return lt.ones { 2, 3 }:sum_to { 2, 2 } end)
    fails("sum_to: [2, 3] does not come from broadcasting [1, 2, 3]", function() return lt.ones { 2, 3 }:sum_to { 1, 2, 3 } end)
    fails("sum_to: [2, 3] does not come from broadcasting [-1]", function() return lt.ones { 2, 3 }:sum_to { -1 } end)
  end)

  it("sums what was stretched", function()
    assert.same({ { 3 }, { 3 } }, lt.ones { 2, 3 }:sum_to({ 2, 1 }):totable())
    assert.same({ 2, 2, 2 }, lt.ones { 2, 3 }:sum_to({ 3 }):totable())
    assert.equal(6, lt.ones { 2, 3 }:sum_to({}):item())
  end)
end)

describe("in place", function()
  it("refuses an expanded tensor, whose elements stand in many places", function()
    local base = lt.tensor { 1, 2 }
    local wide = base:expand(3, 2)
    local text = "%s_: the tensor is expanded, dim 1 of [3, 2] shows the same elements 3 times, and cannot be written in place; "
      .. "write into x:clone()"
    fails(text:format "add", function() wide:add_(1) end)
    fails(text:format "exp", function() wide:exp_() end)
    fails(text:format "zero", function() wide:zero_() end)
    fails(text:format "copy", function() wide[{}] = 5 end)
    fails(text:format "uniform", function() wide:uniform_() end)
    assert.same({ 1, 2 }, base:totable())
  end)

  it("writes through dims of size 1 and other views", function()
    local x = lt.zeros { 2, 3 }
    x:select(2, 1):expand(1, 2):add_(1)
    x:t():select(1, 3):add_(2)
    assert.same({ { 1, 0, 2 }, { 1, 0, 2 } }, x:totable())
  end)

  it("refuses a number as what is written", function()
    fails("add: a must be a tensor, got the number -1; signature: add(a: operand, b: operand)", lt.add_, -1, lt.ones { 2 })
    fails("pow: a must be a tensor, got the number 2; signature: pow(a: operand, b: operand)", lt.pow_, 2, 3)
  end)
end)

describe("whole numbers", function()
  -- Expected values are two's complement worked by hand: sums, differences and products modulo 2^64, 2^32 and 2^8.
  local LOW, HIGH = -9223372036854775807LL - 1, 9223372036854775807LL
  local function ints(list) return lt.tensor(list, "int64") end
  local function equal(expected, t)
    local all = (t:eq(lt.tensor(expected, t.dtype))):all():item()
    assert.is_true(all, tostring(t))
  end

  it("wrap round in arithmetic", function()
    local x = ints { LOW, HIGH, -3LL }
    equal({ LOW, -HIGH, 3LL }, -x)
    equal({ LOW, HIGH, 3LL }, x:abs())
    equal({ 0LL, 1LL, 9LL }, x:square())
    equal({ HIGH, HIGH - 1, -4LL }, x - 1 + 0 * x)
    equal({ LOW + 1, LOW, -2LL }, x + 1)
    equal({ 0LL, -2LL, -6LL }, x * 2)
    equal({ 6LL, 0LL, 4LL }, x:mod(7)) -- -2^63 = -1317624576693539402 * 7 + 6
    equal({ 254, 254 }, lt.tensor({ 255, 255 }, "uint8") + lt.tensor({ 255, 255 }, "uint8"))
    equal({ -2 }, lt.tensor({ 2 ^ 31 - 1 }, "int32") + lt.tensor({ 2 ^ 31 - 1 }, "int32"))
  end)

  it("wrap round where rows are added", function()
    local ids = lt.tensor({ 0, 0, 0 }, "int64")
    equal({ HIGH - 2 }, lt.zeros({ 1 }, "int64"):index_add(ids, ints { HIGH, HIGH, HIGH })) -- 3 * 2^63 - 3
    equal({ HIGH - 2, 0LL, 0LL }, lt.zeros({ 3 }, "int64"):scatter_add(1, ids, ints { HIGH, HIGH, HIGH }))
    equal({ 2 ^ 31 - 3 }, lt.zeros({ 1 }, "int32"):index_add(ids, lt.full({ 3 }, 2 ^ 31 - 1, "int32")))
    equal({ HIGH - 2 }, ints({ HIGH, HIGH, HIGH }):sum():reshape(1))
  end)
end)
