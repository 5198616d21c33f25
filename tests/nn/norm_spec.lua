-- LayerNorm, BatchNorm1d and Dropout as modules (lua/ltrain/nn/norm.lua, batch_norm.lua, dropout.lua), against plain loops.
local lt = require "ltrain"
local nn = lt.nn
local fails = require "tests.ops.fails"

describe("LayerNorm", function()
  it("normalises the last dims", function()
    local norm = nn.LayerNorm({ 3 }, { eps = 0.5 }):to "float64"
    lt.no_grad(function()
      norm.weight:copy_(lt.tensor({ 1, 2, 3 }, "float64"))
      norm.bias:copy_(lt.tensor({ 0, 1, 0 }, "float64"))
    end)
    local x, expected = { { 1, 2, 6 }, { -1, 0, 1 } }, {}
    for i, row in ipairs(x) do
      local mean = (row[1] + row[2] + row[3]) / 3
      local var = ((row[1] - mean) ^ 2 + (row[2] - mean) ^ 2 + (row[3] - mean) ^ 2) / 3
      expected[i] = {}
      for j, v in ipairs(row) do expected[i][j] = (v - mean) / math.sqrt(var + 0.5) * j + (j == 2 and 1 or 0) end
    end
    assert.close(norm(lt.tensor(x, "float64")), expected, 1e-12)
  end)

  it("takes several dims, and no weights", function()
    local norm = nn.LayerNorm({ 2, 3 }, { affine = false })
    assert.equal(0, #norm:parameters())
    local y = norm(lt.rand(4, 2, 3) * 10)
    assert.close(y:mean { 2, 3 }, { 0, 0, 0, 0 }, 1e-5)
    assert.close(y:square():mean { 2, 3 }, { 1, 1, 1, 1 }, 1e-4)
    assert.equal("LayerNorm [2, 3]\n0 parameters", tostring(norm))
    assert.equal(12, nn.LayerNorm { 2, 3 }:count())
    assert.equal(8, nn.LayerNorm(4):count())
    assert.is_false(pcall(nn.LayerNorm(4), lt.zeros(2, 3)))
  end)
end)

describe("BatchNorm1d", function()
  it("moves its running statistics as a plain loop does, and uses them in evaluation", function()
    local norm = nn.BatchNorm1d(2, { momentum = 0.3, eps = 0.1 }):to "float64"
    local mean, var = { 0, 0 }, { 1, 1 }
    lt.manual_seed(6)
    for _ = 1, 5 do
      local x = lt.randn({ 7, 2 }, "float64") * 3 + 1
      local rows, y = x:totable(), norm(x):totable()
      for c = 1, 2 do
        local m, v = 0, 0
        for i = 1, 7 do m = m + rows[i][c] / 7 end
        for i = 1, 7 do v = v + (rows[i][c] - m) ^ 2 end
        for i = 1, 7 do assert.close(y[i][c], (rows[i][c] - m) / math.sqrt(v / 7 + 0.1), 1e-12) end
        mean[c] = 0.7 * mean[c] + 0.3 * m
        var[c] = 0.7 * var[c] + 0.3 * v / 6 -- unbiased
      end
    end
    assert.close(norm.running_mean, mean, 1e-12)
    assert.close(norm.running_var, var, 1e-12)
    norm:eval()
    local x = lt.tensor({ { 1, 2 } }, "float64")
    assert.close(norm(x), { { (1 - mean[1]) / math.sqrt(var[1] + 0.1), (2 - mean[2]) / math.sqrt(var[2] + 0.1) } }, 1e-12)
    assert.close(norm.running_mean, mean, 1e-12) -- not moved again
    assert.is_false(norm.running_mean.requires_grad)
  end)

  it("normalises [n, channels, length], and lives without weights", function()
    local norm = nn.BatchNorm1d(3, { affine = false })
    local y = norm(lt.rand(4, 3, 5) * 4 + 2)
    assert.close(y:mean { 1, 3 }, { 0, 0, 0 }, 1e-5)
    assert.close(y:square():mean { 1, 3 }, { 1, 1, 1 }, 1e-3)
    assert.equal(0, norm:count())
    assert.equal(2, #norm:state_dict())
    assert.equal("BatchNorm1d 3\n0 parameters", tostring(norm))
    assert.is_false(pcall(norm, lt.rand(4, 2)))
  end)

  it("refuses sizes that are none, and a batch of one row", function()
    fails("BatchNorm1d: channels is nil; it must be a whole number of at least 1", nn.BatchNorm1d)
    fails("LayerNorm: the shape is a; it must be the size of the last dim, or a list of sizes", nn.LayerNorm, "a")
    fails("BatchNorm1d (BatchNorm1d 2): batch_norm: [1, 2] has 1 value for each channel, and a spread needs 2; train with more rows, or use the "
      .. "running statistics (eval)", nn.BatchNorm1d(2), lt.rand(1, 2))
  end)

  it("gives gradients that finite differences confirm", function()
    local norm = nn.BatchNorm1d(2):to "float64"
    local x = lt.randn({ 4, 2 }, "float64"):requires_grad_()
    local weights = lt.randn({ 4, 2 }, "float64")
    local g = lt.grad((norm(x) * weights):sum(), x)
    for i = 1, 4 do
      local function at(d)
        local moved = x:detach():clone()
        moved[{ i, 1 }] = moved[{ i, 1 }] + d
        return (norm(moved) * weights):sum():item()
      end
      assert.close(g[{ i, 1 }]:item(), (at(1e-5) - at(-1e-5)) / 2e-5, 1e-6)
    end
  end)
end)

describe("Dropout", function()
  it("zeroes and scales in training only", function()
    local dropout, x = nn.Dropout(0.25), lt.full({ 4000 }, 1)
    local y = dropout(x)
    local zeros = y:eq(0):float():mean():item()
    assert.is_true(math.abs(zeros - 0.25) < 0.05)
    assert.close(y:amax():item(), 1 / 0.75, 1e-6)
    assert.is_true(dropout:eval()(x) == x)
    assert.is_true(nn.Dropout(0)(x) == x)
    assert.equal("Dropout p = 0.5\n0 parameters", tostring(nn.Dropout()))
    fails("Dropout: p is 1; it must be at least 0 and below 1", nn.Dropout, 1)
    fails("Dropout: p is x; it must be at least 0 and below 1", nn.Dropout, "x")
  end)
end)
