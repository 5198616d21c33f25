-- evaluate and predict: every row once, means over what takes part, in the order of the rows.
local lt = require "ltrain"
local fails = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "./") .. "ops/fails.lua")

local function rows(n)
  lt.manual_seed(1)
  local x = lt.randn(n, 5)
  return x, (x:sum(2) + lt.randn(n)):gt(0):to "float32"
end

local function linear(n_out, loss, options)
  lt.manual_seed(2)
  local model = lt.nn.Sequential(lt.nn.Linear(5, n_out or 1))
  options = options or {}
  options.optimizer, options.loss = lt.optim.SGD { lr = 0.1 }, loss or "bce_with_logits"
  return model:compile(options)
end

-- The logit of a row and its loss in plain Lua, in doubles.
local function logits(model, x)
  local w, b, list = model:parameters()[1]:totable()[1], model:parameters()[2]:totable()[1], {}
  for i, row in ipairs(x:totable()) do
    local z = b
    for k, v in ipairs(row) do z = z + w[k] * v end
    list[i] = z
  end
  return list
end
local function bce(z, y) return math.max(z, 0) - z * y + math.log(1 + math.exp(-math.abs(z))) end

-- Pairs in the right order, ties half: the definition of the AUC.
local function auc(z, y)
  local right, pairs_ = 0, 0
  for i = 1, #z do
    for j = 1, #z do
      if y[i] == 1 and y[j] == 0 then
        pairs_ = pairs_ + 1
        right = right + (z[i] > z[j] and 1 or z[i] == z[j] and 0.5 or 0)
      end
    end
  end
  return right / pairs_
end

describe("evaluate", function()
  it("is the mean over all rows whatever the batches, with exact metrics", function()
    local x, y = rows(101)
    local model = linear(1, nil, { metrics = { "auc", "logloss", "accuracy", "calibration", "normalized_entropy" } })
    local z, label, sum, right, predicted, positive = logits(model, x), y:totable(), 0, 0, 0, 0
    for i = 1, 101 do
      sum, right = sum + bce(z[i], label[i]), right + ((z[i] > 0) == (label[i] == 1) and 1 or 0)
      predicted, positive = predicted + 1 / (1 + math.exp(-z[i])), positive + label[i]
    end
    local p = positive / 101
    local data = lt.data.from_tensors { x = x, y = y }
    for _, size in ipairs { 1, 7, 100, 101, 1000 } do
      local result = model:evaluate(data:batch(size))
      assert.close(result.loss, sum / 101, 1e-6)
      assert.close(result.logloss, sum / 101, 1e-6)
      assert.close(result.auc, auc(z, label), 1e-12)
      assert.close(result.accuracy, right / 101, 1e-12)
      assert.close(result.calibration, predicted / positive, 1e-6)
      assert.close(result.normalized_entropy, sum / 101 / -(p * math.log(p) + (1 - p) * math.log(1 - p)), 1e-6)
    end
  end)

  it("covers every row once, also shuffled and read ahead", function()
    local seen, x = {}, lt.arange(1, 103):reshape(103, 1)
    local model = lt.nn.Sequential(lt.nn.Linear(1, 1))
    model:compile { optimizer = lt.optim.SGD { lr = 0.1 }, loss = "mse", input = function(batch)
      for _, v in ipairs(batch.x:reshape(-1):totable()) do seen[v] = (seen[v] or 0) + 1 end
      return batch.x
    end }
    model:evaluate(lt.data.from_tensors { x = x, y = lt.zeros(103) }:shuffle():batch(10):prefetch())
    for i = 1, 103 do assert.equal(1, seen[i]) end
  end)

  it("weighs rows", function()
    local x, y = rows(33)
    lt.manual_seed(9)
    local w = lt.rand(33) * 2
    local model = linear(1, nil, { metrics = { "logloss", "accuracy" } })
    local z, label, weight, sum, total, right = logits(model, x), y:totable(), w:totable(), 0, 0, 0
    for i = 1, 33 do
      sum, total = sum + weight[i] * bce(z[i], label[i]), total + weight[i]
      right = right + ((z[i] > 0) == (label[i] == 1) and weight[i] or 0)
    end
    local data = lt.data.from_tensors { x = x, y = y, weight = w }
    for _, size in ipairs { 4, 33 } do
      local result = model:evaluate(data:batch(size))
      assert.close(result.loss, sum / 33, 1e-6) -- multiplied, and divided by rows
      assert.close(result.logloss, sum / total, 1e-6)
      assert.close(result.accuracy, right / total, 1e-6)
      local normalized = linear(1, nil, { normalize = "weights" })
      assert.close(normalized:evaluate(data:batch(size)).loss, sum / total, 1e-6)
    end
  end)

  it("leaves ignored targets out of the mean, whatever batches they fall into", function()
    local x = rows(40)
    local y = lt.tensor({ 0 }, "int64"):expand({ 40 }):clone()
    for i = 1, 40 do y:select(1, i):fill_(i % 3) end
    for _, i in ipairs { 1, 2, 3, 4, 5, 6, 8, 15, 40 } do y:select(1, i):fill_(-100) end
    lt.manual_seed(4)
    local w = lt.rand(40) + 0.5
    local model = linear(3, "cross_entropy", { metrics = { "accuracy" } })
    local output, label, weight = model(x):totable(), y:totable(), w:totable()
    local sum, weighted, total, count, right = 0, 0, 0, 0, 0
    for i = 1, 40 do
      if label[i] >= 0 then
        local o = output[i]
        local loss = math.log(math.exp(o[1]) + math.exp(o[2]) + math.exp(o[3])) - o[label[i] + 1]
        sum, weighted, total, count = sum + loss, weighted + loss * weight[i], total + weight[i], count + 1
        right = right + (o[label[i] + 1] == math.max(unpack(o)) and 1 or 0)
      end
    end
    local plain, with = lt.data.from_tensors { x = x, y = y }, lt.data.from_tensors { x = x, y = y, weight = w }
    local by_weights = linear(3, "cross_entropy", { normalize = "weights" })
    for _, size in ipairs { 3, 16, 40 } do -- with 3, whole batches are ignored
      assert.close(model:evaluate(plain:batch(size)).loss, sum / count, 1e-6)
      assert.close(model:evaluate(plain:batch(size)).accuracy, right / count, 1e-12)
      assert.close(model:evaluate(with:batch(size)).loss, weighted / count, 1e-6)
      assert.close(by_weights:evaluate(with:batch(size)).loss, weighted / total, 1e-6)
    end
    local nothing = lt.data.from_tensors { x = x, y = lt.full({ 40 }, -100, "int64") }:batch(8)
    assert.equal(0, model:evaluate(nothing).loss)
    assert.equal(0, model:fit(nothing, { verbose = false }).loss[1])
    assert.is_true(model:parameters()[1]:isfinite():all():item())
  end)

  it("takes targets of several columns, weights by row or by element, and outputs [rows, 1]", function()
    local x = rows(10)
    lt.manual_seed(5)
    local y, w = lt.randn(10, 3), lt.rand(10)
    for _, loss in ipairs { "mse", "l1", "huber" } do
      local model = linear(3, loss)
      local each = ({ mse = lt.mse_loss, l1 = lt.l1_loss, huber = lt.huber_loss })[loss](model(x), y, { reduction = "none" })
      assert.close(model:evaluate(lt.data.from_tensors { x = x, y = y }:batch(4)).loss, each:sum():item() / 30, 1e-6)
      local by_row = lt.data.from_tensors { x = x, y = y, weight = w }:batch(4)
      assert.close(model:evaluate(by_row).loss, (each * w:reshape(10, 1)):sum():item() / 30, 1e-6)
      local by_element = lt.data.from_tensors { x = x, y = y, weight = w:reshape(10, 1):expand({ 10, 3 }):contiguous() }:batch(4)
      assert.close(model:evaluate(by_element).loss, (each * w:reshape(10, 1)):sum():item() / 30, 1e-6)
    end
    local model = linear(1, "mse")
    local wide = (model(x):reshape(-1) - y:select(2, 1)):square():mean():item()
    assert.close(model:evaluate(lt.data.from_tensors { x = x, y = y:select(2, 1):contiguous() }:batch(3)).loss, wide, 1e-6)
    fails("mse_loss: input is [4, 3] and target [4, 2]; the shapes must be equal: reshape one of them", function()
      linear(3, "mse"):evaluate(lt.data.from_tensors { x = x, y = y:narrow(2, 1, 2):contiguous() }:batch(4))
    end)
  end)

  it("prints its values in their order, without those that have none", function()
    local model = lt.nn.Sequential { lt.nn.Linear(1, 1, { bias = false }) }
    model:compile { optimizer = lt.optim.SGD { lr = 1 }, loss = "bce_with_logits", metrics = { "auc", "logloss" } }
    local x = lt.zeros(2, 1)
    local function values(y) return tostring(model:evaluate(lt.data.from_tensors { x = x, y = lt.tensor(y) }:batch(2))) end
    assert.equal("loss 0.6931  auc 0.5000  logloss 0.6931", values { 0, 1 })
    assert.equal("loss 0.6931  logloss 0.6931", values { 1, 1 })
  end)

  it("gives nil for the AUC of one class", function()
    local model = linear(1, nil, { metrics = { "auc" } })
    local result = model:evaluate(lt.data.from_tensors { x = lt.zeros(4, 5), y = lt.ones(4) }:batch(2))
    assert.is_nil(result.auc)
    assert.close(result.loss, bce(logits(model, lt.zeros(1, 5))[1], 1), 1e-6)
  end)

  it("turns dropout off and puts every module's own mode back, also after an error", function()
    local frozen, free = lt.nn.Dropout(0.5), lt.nn.Dropout(0.5)
    local model = lt.nn.Sequential(lt.nn.Linear(5, 4), frozen, free, lt.nn.Linear(4, 1))
    model:compile { optimizer = lt.optim.SGD { lr = 0.1 }, loss = "bce_with_logits" }
    model:train()
    frozen:eval()
    local x, y = rows(20)
    local data = lt.data.from_tensors { x = x, y = y }
    assert.equal(model:evaluate(data:batch(20)).loss, model:evaluate(data:batch(20)).loss)
    assert.same({ true, false, true }, { model:is_training(), frozen:is_training(), free:is_training() })
    local wrong = lt.data.from_tensors { x = lt.zeros(4, 6), y = lt.zeros(4) }:batch(4)
    assert.is_false(pcall(model.evaluate, model, wrong))
    assert.same({ true, false, true }, { model:is_training(), frozen:is_training(), free:is_training() })
    assert.is_true(lt.is_grad_enabled())
  end)

  it("records no gradients and changes nothing", function()
    local x, y = rows(20)
    local model = linear()
    local before = model:parameters()[1]:totable()
    model:evaluate(lt.data.from_tensors { x = x, y = y }:batch(8))
    assert.is_nil(model:parameters()[1].grad)
    assert.same(before, model:parameters()[1]:totable())
  end)

  it("needs a compiled model and rows", function()
    fails("evaluate: the model is not compiled; call model:compile { optimizer =, loss = } first",
      function() lt.nn.Sequential(lt.nn.Linear(5, 1)):evaluate() end)
    local empty = lt.data.from_tensors { x = lt.zeros(0, 5), y = lt.zeros(0) }:batch(4)
    fails("evaluate: the data set has no rows", function() linear():evaluate(empty) end)
    fails("evaluate: the data set repeats without end; give repeat_ a count",
      function() linear():evaluate(lt.data.from_tensors { x = lt.zeros(4, 5), y = lt.zeros(4) }:batch(4):repeat_()) end)
    fails("evaluate: the data is a string; it must be a data set with batches, for instance lt.data.from_tensors { x =, y = }:batch(32)",
      function() linear():evaluate "valid.csv" end)
  end)
end)

describe("predict", function()
  it("gives probabilities in the order of the rows, logits when asked, whatever the batches", function()
    local x, y = rows(23)
    local model = linear()
    local z = logits(model, x)
    local data = lt.data.from_tensors { x = x, y = y }
    for _, size in ipairs { 1, 5, 23 } do
      local p, l = model:predict(data:batch(size):prefetch()), model:predict(data:batch(size), { logits = true })
      assert.same({ 23, 1 }, p.shape)
      for i = 1, 23 do
        assert.close(p:totable()[i][1], 1 / (1 + math.exp(-z[i])), 1e-6)
        assert.close(l:totable()[i][1], z[i], 1e-5)
      end
    end
    assert.close(model:predict(lt.data.from_tensors { x = x }:batch(4)), model(x):sigmoid(), 1e-6) -- no target is needed
  end)

  it("gives class probabilities for cross_entropy, outputs as they are for other losses", function()
    local x = rows(7)
    local data = lt.data.from_tensors { x = x }:batch(3)
    local classes, plain = linear(3, "cross_entropy"), linear(2, "mse")
    assert.close(classes:predict(data), lt.softmax(classes(x), 2), 1e-6)
    assert.close(classes:predict(data):sum(2), lt.ones(7), 1e-6)
    assert.close(classes:predict(data, { logits = true }), classes(x), 1e-6)
    assert.close(plain:predict(data), plain(x), 1e-6)
  end)

  it("takes more batches than one operator takes tensors", function()
    local x = lt.arange(1, 4500):reshape(4500, 1)
    local model = lt.nn.Sequential(lt.nn.Linear(1, 1))
    model:compile { optimizer = lt.optim.SGD { lr = 0.1 }, loss = "mse" }
    local one, many = model:predict(lt.data.from_tensors { x = x }:batch(4500)), model:predict(lt.data.from_tensors { x = x }:batch(1))
    assert.close(many, one, 1e-6)
  end)

  it("takes click data whole, also when a feature is called x", function()
    local schema = lt.data.schema { label = "y", categorical = { "x", "z" }, verbose = false }
    local folder = os.tmpname()
    local file = io.open(folder, "wb")
    file:write "y,x,z\n1,a,b\n0,a,c\n1,b,b\n0,c,c\n"
    file:close()
    local data = lt.data.csv(folder, { schema = schema })
    local model = require "ltrain.models.fm" { features = data:features(), dim = 2 }
    model:compile { optimizer = lt.optim.Adam {}, loss = "bce_with_logits" }
    model:fit(data:batch(2), { verbose = false })
    assert.same({ 4 }, model:predict(data:batch(3)).shape)
    os.remove(folder)
  end)

  it("refuses what would lose the order, misspelt options and empty data", function()
    local x, y = rows(6)
    local data = lt.data.from_tensors { x = x, y = y }
    fails("predict: the data set is shuffled, so predictions would not be in the order of its rows; leave shuffle out",
      function() linear():predict(data:shuffle():batch(2)) end)
    fails("predict: unknown option 'logit', did you mean 'logits'?; it knows logits", function() linear():predict(data:batch(2), { logit = true }) end)
    fails("predict: the data set has no rows", function() linear():predict(data:take(0):batch(2)) end)
  end)
end)
