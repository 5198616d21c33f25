-- fm_interaction: the sum over all pairs of fields, written out; both layouts; every error's text.
local lt = require "ltrain"
local fails = require "tests.ops.fails"
local lookups = require "tests.ops.lookups"

-- The definition: inner products of all pairs.
local function pairs_of(x)
  local y = {}
  for s, fields in ipairs(x) do
    y[s] = 0
    for i = 1, #fields do
      for j = i + 1, #fields do
        for k = 1, #fields[1] do y[s] = y[s] + fields[i][k] * fields[j][k] end
      end
    end
  end
  return y
end

local function block(batch, fields, dim)
  local number, x = lookups.numbers(batch + fields + dim), {}
  for s = 1, batch do x[s] = lookups.matrix(number, fields, dim) end
  return x
end

describe("fm_interaction", function()
  it("is the sum of inner products of all pairs of fields", function()
    for _, size in ipairs { { 3, 4, 5 }, { 40, 39, 10 }, { 2, 1, 7 }, { 3, 2, 300 } } do
      local x = block(unpack(size))
      local expected = pairs_of(x)
      assert.close(lt.fm_interaction(lt.tensor(x, "float64")), expected, 1e-12)
      assert.close(lt.fm_interaction(lt.tensor(x)), expected, 1e-4)
      local flat = lt.tensor(x, "float64"):reshape(size[1], size[2] * size[3])
      assert.close(lt.fm_interaction(flat, { fields = size[2] }), expected, 1e-12)
    end
    assert.same({ 0, 0 }, lt.fm_interaction(lt.zeros { 2, 0, 3 }):totable())
  end)

  it("agrees with its fallback of plain operators", function()
    local x = lt.tensor(block(9, 5, 4), "float64")
    assert.close(lookups.fallback("fm_interaction", { x }, { 0 }), lt.fm_interaction(x):totable(), 1e-14)
    x = x:reshape(9, 20)
    assert.close(lookups.fallback("fm_interaction", { x }, { 5 }), lt.fm_interaction(x, 5):totable(), 1e-14)
  end)

  it("has as gradient the sum of the other fields", function()
    local values = block(4, 3, 2)
    local x = lt.tensor(values, { dtype = "float64", requires_grad = true })
    local g = { 1, -2, 0.5, 3 }
    lt.fm_interaction(x):backward { grad = lt.tensor(g, "float64") }
    local expected = {}
    for s, fields in ipairs(values) do
      expected[s] = {}
      for f = 1, 3 do
        expected[s][f] = {}
        for k = 1, 2 do
          local others = 0
          for o = 1, 3 do others = others + (o ~= f and fields[o][k] or 0) end
          expected[s][f][k] = g[s] * others
        end
      end
    end
    assert.close(x.grad, expected, 1e-14)
  end)

  it("has the same bits for any number of threads", function()
    local x = lt.tensor(block(200, 39, 10)):requires_grad_()
    lookups.same_for_threads(function()
      x:set_grad(nil)
      local y = lt.fm_interaction(x)
      y:sum():backward()
      return lookups.bytes(y) .. lookups.bytes(x.grad)
    end)
  end)

  it("says what does not fit", function()
    fails("fm_interaction: the embeddings are [2, 6] and fields is 4; give a number of fields that divides 6",
      lt.fm_interaction, lt.zeros { 2, 6 }, 4)
    fails("fm_interaction: the embeddings are [2, 6] and fields is 0; give a number of fields that divides 6",
      lt.fm_interaction, lt.zeros { 2, 6 })
    fails("fm_interaction: the embeddings are [2, 3, 4], so fields is 3; it was given as 4", lt.fm_interaction,
      lt.zeros { 2, 3, 4 }, 4)
    fails("fm_interaction: the embeddings are [2]; they must be [batch, fields, dim] or [batch, fields * dim]",
      lt.fm_interaction, lt.zeros { 2 })
    fails("fm_interaction: the embeddings are int64; they must be float32 or float64: " ..
      "convert with x:to(\"float32\")", lt.fm_interaction,
      lt.zeros({ 1, 2, 2 }, "int64"))
  end)
end)
