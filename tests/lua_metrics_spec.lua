-- The Lua side of metrics: states that merge, weights, strided input, messages. What they compute is in metrics_spec.lua.
local lt = require "ltrain"
local fails = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "./") .. "ops/fails.lua")

local function rows(n, seed)
  lt.manual_seed(seed or 1)
  local logits = (lt.randn(n) * 4):round() / 4 -- with ties
  return logits, (logits + lt.randn(n) * 2):gt(0):to "float32", lt.rand(n)
end

local BINARY = { "AUC", "LogLoss", "BinaryAccuracy", "Calibration", "NormalizedEntropy" }

describe("metrics", function()
  it("merge to the value of all rows, whatever the parts", function()
    local x, y, w = rows(500)
    for _, name in ipairs(BINARY) do
      local whole, merged = lt.metrics[name](), lt.metrics[name]()
      whole:update(x, y, w)
      for first = 1, 500, 125 do
        local part = lt.metrics[name]()
        part:update(x:narrow(1, first, 60), y:narrow(1, first, 60), w:narrow(1, first, 60))
        part:update(x:narrow(1, first + 60, 65), y:narrow(1, first + 60, 65), w:narrow(1, first + 60, 65))
        merged:merge(part)
      end
      assert.close(merged:value(), whole:value(), 1e-12)
    end
    local whole, merged = lt.metrics.AUC { running = true }, lt.metrics.AUC { running = true }
    whole:update(x, y)
    for first = 1, 500, 250 do
      local part = lt.metrics.AUC { running = true }
      part:update(x:narrow(1, first, 250), y:narrow(1, first, 250))
      merged:merge(part)
    end
    assert.equal(whole:value(), merged:value())
  end)

  it("start anew after reset", function()
    local x, y = rows(50)
    for _, name in ipairs(BINARY) do
      local used, fresh = lt.metrics[name](), lt.metrics[name]()
      used:update(x * -1, y)
      used:reset()
      used:update(x, y)
      fresh:update(x, y)
      assert.equal(fresh:value(), used:value(), name)
    end
    local running = lt.metrics.AUC { running = true }
    running:update(x * -1, y)
    running:reset()
    running:update(x, y)
    assert.is_true(running.options.running)
    assert.close(running:value(), lt.metrics.auc(x, y), 1e-3)
  end)

  it("give no value without rows, or of one class", function()
    for _, name in ipairs(BINARY) do assert.is_nil(lt.metrics[name]():value()) end
    assert.is_nil(lt.metrics.auc(lt.randn(3), lt.ones(3)))
    assert.is_nil(lt.metrics.CategoricalAccuracy():value())
  end)

  it("say how exact an AUC is", function()
    local x, y = rows(1000)
    local exact, running, short = lt.metrics.AUC(), lt.metrics.AUC { running = true }, lt.metrics.AUC { budget = 2000 }
    exact:update(x, y)
    running:update(x, y)
    local value, about = exact:value()
    assert.same({ bound = 0, exact = true, rows = 1000 }, about)
    local near, error_of = running:value()
    assert.is_false(error_of.exact)
    assert.is_true(math.abs(near - value) <= error_of.bound)
    short:update(x, y)
    local rough, bound = short:value()
    assert.is_true(math.abs(rough - value) <= bound.bound + 1e-12)
    assert.equal(1000, bound.rows)
  end)

  it("read strided and wider tensors, labels of every kind", function()
    local x, y = rows(40)
    local wide = lt.stack({ x, x * 0 }, 2)
    local expected = lt.metrics.auc(x, y)
    assert.equal(expected, lt.metrics.auc(wide:select(2, 1), y))
    assert.equal(expected, lt.metrics.auc(x:reshape(40, 1), y:to "int64"))
    assert.equal(expected, lt.metrics.auc(x:to "float64", y:to "bool"))
    assert.equal(lt.metrics.logloss(x, y), lt.metrics.logloss(wide:select(2, 1), y))
  end)

  it("of classes skip ignored labels and weigh rows", function()
    local logits = lt.tensor { { 1, 2, 0 }, { 3, 0, 0 }, { 0, 0, 1 }, { 0, 5, 0 } }
    local m = lt.metrics.CategoricalAccuracy()
    m:update(logits, lt.tensor({ 1, 1, 2, -100 }, "int64"))
    assert.close(m:value(), 2 / 3, 1e-12)
    local weighted, other = lt.metrics.CategoricalAccuracy(), lt.metrics.CategoricalAccuracy()
    weighted:update(logits, lt.tensor({ 1, 1, 2, -100 }, "int64"), lt.tensor { 1, 2, 3, 4 })
    assert.close(weighted:value(), 4 / 6, 1e-6)
    other:update(logits:narrow(1, 1, 1), lt.tensor({ 0 }, "int32"), lt.tensor { 2 })
    weighted:merge(other)
    assert.close(weighted:value(), 4 / 8, 1e-6)
    local strided = lt.metrics.CategoricalAccuracy()
    strided:update(lt.tensor { { 1, 3, 0, 0 }, { 2, 0, 0, 5 }, { 0, 0, 1, 0 } }:transpose(1, 2), lt.tensor({ 1, 0, 2, 1 }, "int64"))
    assert.close(strided:value(), 1, 1e-12)
  end)

  it("complain in words", function()
    local x, y = rows(4)
    fails("metrics: 4 predictions and 3 labels; there must be one label for each", function() lt.metrics.auc(x, y:narrow(1, 1, 3)) end)
    fails("metrics: 4 predictions and 2 weights; there must be one weight for each", function() lt.metrics.logloss(x, y, lt.ones(2)) end)
    fails("auc: label of row 2 is 2; labels must be 0 or 1", function() lt.metrics.auc(x, lt.tensor { 1, 2, 0, 0 }) end)
    fails("accuracy: logits are [4] and there are 4 labels; logits must be [rows, classes]",
      function() lt.metrics.CategoricalAccuracy():update(x, y:to "int64") end)
    fails("accuracy: label of row 1 is 9; classes are 0 to 1",
      function() lt.metrics.CategoricalAccuracy():update(lt.zeros(1, 2), lt.tensor({ 9 }, "int64")) end)
    fails("accuracy: 2 labels and 3 weights; there must be one weight for each",
      function() lt.metrics.CategoricalAccuracy():update(lt.zeros(2, 2), lt.tensor({ 0, 1 }, "int64"), lt.ones(3)) end)
    fails("AUC: unknown option 'runing', did you mean 'running'?; it knows running, budget", function() lt.metrics.AUC { runing = true } end)
  end)
end)
