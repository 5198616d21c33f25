-- model:fit against the plain loop it stands for, its history, its order, and how it refuses.
local lt = require "ltrain"
local fails = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "./") .. "ops/fails.lua")

-- Every bit of a model's state, as text.
local function bits(model)
  local list = {}
  for _, entry in ipairs(model:state_dict()) do
    local t = entry.tensor:detach():contiguous()
    list[#list + 1] = entry.name .. ":" .. require("ffi").string(t:data(), t:numel() * 4)
  end
  return table.concat(list)
end

local function clicks(rows, first_row)
  return lt.data.synthetic_clicks { rows = rows, fields = 15, values = 3000, seed = 3, first_row = first_row or 0 }
end

local function deepfm(data)
  lt.manual_seed(7)
  return require "ltrain.models.deepfm" { features = data:features(), dim = 4, hidden = { 16, 8 }, dropout = 0.2, embedding_l2 = 1e-4 }
end

local function plain_loop(model, dataset, optimizer, loss_of, epochs, clip)
  model:train()
  local losses = {}
  for _ = 1, epochs do
    local sum, rows = 0, 0
    for batch in dataset:iter() do
      local loss = loss_of(batch)
      sum, rows = sum + loss:item() * batch.size, rows + batch.size
      optimizer:zero_grad()
      loss:backward()
      if clip then optimizer:clip_grad_norm(clip) end
      optimizer:step()
    end
    losses[#losses + 1] = sum / rows
  end
  return losses
end

local function points(n, seed)
  lt.manual_seed(seed or 1)
  local x = lt.randn(n, 6)
  return x, (x:sum(2) * 2 + lt.randn(n)):gt(0):to "int64"
end

local function tiny(options)
  lt.manual_seed(5)
  local model = lt.nn.Sequential(lt.nn.Linear(6, 1))
  options = options or {}
  options.optimizer, options.loss = options.optimizer or lt.optim.SGD { lr = 0.1 }, options.loss or "bce_with_logits"
  return model:compile(options)
end

local function tiny_data(n)
  local x, y = points(n or 40)
  return lt.data.from_tensors { x = x, y = y:to "float32" }
end

local QUIET = { verbose = false }
local function quiet(options)
  options.verbose = false
  return options
end

describe("fit", function()
  describe("gives the numbers of the plain loop, bit for bit:", function()
    it("DeepFM on clicks, lazy Adam, dropout, clipping, three epochs of shuffled rows with an uneven last batch", function()
      local data = clicks(1000)
      local function batches() return data:shuffle(true, { seed = 11 }):batch(128):prefetch() end
      local fitted = deepfm(data)
      fitted:compile { optimizer = lt.optim.Adam { lr = 1e-2 }, loss = "bce_with_logits", metrics = { "auc" }, clip_norm = 0.5 }
      local history = fitted:fit(batches(), quiet { epochs = 3 })
      local by_hand = deepfm(data)
      local losses = plain_loop(by_hand, batches(), lt.optim.Adam(by_hand, { lr = 1e-2 }), function(batch)
        return lt.bce_with_logits(by_hand(batch), batch.label)
      end, 3, 0.5)
      assert.same(losses, history.loss)
      assert.is_true(bits(fitted) == bits(by_hand))
      assert.is_true(losses[3] < losses[1])
    end)

    it("an MLP on tensors", function()
      local x, y = points(300)
      local data = lt.data.from_tensors { x = x, y = y }
      local function make()
        lt.manual_seed(2)
        return require "ltrain.models.mlp" { n_in = 6, hidden = { 8 }, n_out = 2, dropout = 0.1 }
      end
      local fitted = make()
      fitted:compile { optimizer = lt.optim.SGD { lr = 0.1, momentum = 0.9 }, loss = "cross_entropy", metrics = { "accuracy" } }
      local history = fitted:fit(data:shuffle(true, { seed = 4 }):batch(64), quiet { epochs = 4 })
      local by_hand = make()
      local losses = plain_loop(by_hand, data:shuffle(true, { seed = 4 }):batch(64), lt.optim.SGD(by_hand, { lr = 0.1, momentum = 0.9 }),
        function(batch) return lt.cross_entropy(by_hand(batch.x), batch.y) end, 4)
      assert.same(losses, history.loss)
      assert.is_true(bits(fitted) == bits(by_hand))
    end)

    it("and does not change them by validating in between", function()
      local data, valid = clicks(600), clicks(200, 100000)
      local plain = deepfm(data)
      plain:compile { optimizer = lt.optim.Adam {}, loss = "bce_with_logits" }
      plain:fit(data:shuffle(true, { seed = 1 }):batch(64), quiet { epochs = 2 })
      local validated = deepfm(data)
      validated:compile { optimizer = lt.optim.Adam {}, loss = "bce_with_logits" }
      local history = validated:fit(data:shuffle(true, { seed = 1 }):batch(64), quiet { epochs = 2, validation_data = valid:batch(64) })
      assert.is_true(bits(plain) == bits(validated))
      assert.equal(validated:evaluate(valid:batch(64)).loss, history.val_loss[2])
    end)
  end)

  it("returns a history of every value and epoch", function()
    local data, valid = clicks(500), clicks(300, 100000)
    local model = deepfm(data)
    model:compile { optimizer = lt.optim.Adam { lr = 1e-2 }, loss = "bce_with_logits", metrics = { "auc", "logloss" } }
    local seen = {}
    local history = model:fit(data:batch(100), quiet { epochs = 3, validation_data = valid:batch(128),
      callbacks = { { on_epoch_end = function(_, context, logs) seen[#seen + 1] = { context.epoch, logs.val_auc, logs.lr } end } } })
    assert.equal(3, history.epochs)
    for _, name in ipairs { "loss", "auc", "logloss", "val_loss", "val_auc", "val_logloss" } do
      assert.equal(3, #history[name], name)
      for i = 1, 3 do assert.is_true(history[name][i] > 0 and history[name][i] < 2, name) end
    end
    for i = 1, 3 do assert.close(history.loss[i], history.logloss[i], 1e-6) end
    for i = 1, 3 do assert.same({ i, history.val_auc[i], 1e-2 }, seen[i]) end
    assert.is_false(model:is_training())
  end)

  it("begins at initial_epoch with that epoch's order", function()
    local data = lt.data.from_tensors { x = lt.arange(1, 40):reshape(40, 1), y = lt.zeros(40) }:shuffle(true, { seed = 9 }):batch(8)
    local function orders(options)
      local model, seen = lt.nn.Sequential(lt.nn.Linear(1, 1)), {}
      model:compile { optimizer = lt.optim.SGD { lr = 0 }, loss = "mse", input = function(batch)
        seen[#seen + 1] = table.concat(batch.x:reshape(-1):totable(), " ")
        return batch.x
      end }
      options.verbose = false
      model:fit(data, options)
      return seen
    end
    local all = orders { epochs = 3 }
    assert.equal(15, #all)
    for i = 1, 5 do assert.is_true(all[i] ~= all[i + 5] and all[i + 5] ~= all[i + 10]) end
    assert.same({ unpack(all, 6, 15) }, orders { epochs = 3, initial_epoch = 2 })
    assert.same({ unpack(all, 1, 5) }, orders { epochs = 1 })
  end)

  it("shows a running AUC within its stated error of the exact one", function()
    local data = clicks(4000)
    -- with a learning rate of 0 and no dropout, the rows' scores during the epoch are those of an evaluation
    local model = require "ltrain.models.fm" { features = data:features(), dim = 4, embedding_init = { "normal", 0, 0.3 } }
    model:compile { optimizer = lt.optim.SGD { lr = 0 }, loss = "bce_with_logits", metrics = { "auc" } }
    local running = model:fit(data:shuffle(true, { seed = 1 }):batch(256), QUIET).auc[1]
    local exact = model:evaluate(data:batch(1000)).auc
    assert.close(running, exact, 1e-3)
    assert.is_true(exact > 0.3 and exact < 0.7)
  end)

  it("multiplies losses by sample weights, and divides by rows as Keras, or by weights when told to", function()
    local x, y = points(50)
    lt.manual_seed(3)
    local w = lt.rand(50) * 3
    local data = lt.data.from_tensors { x = x, y = y:to "float32", weight = w }
    for _, normalize in ipairs { "rows", "weights" } do
      local fitted, by_hand = tiny { normalize = normalize }, tiny()
      local history = fitted:fit(data:batch(50), quiet { epochs = 2 })
      local optimizer, first = lt.optim.SGD(by_hand, { lr = 0.1 }), nil
      for _ = 1, 2 do
        local each = lt.bce_with_logits(by_hand(x):reshape(-1), y:to "float32", { reduction = "none" })
        local loss = (each * w):sum() / (normalize == "rows" and 50 or w:sum():item())
        first = first or loss:item()
        optimizer:zero_grad()
        loss:backward()
        optimizer:step()
      end
      assert.close(history.loss[1], first, 1e-6)
      assert.close(fitted:parameters()[1], by_hand:parameters()[1], 1e-6)
    end
  end)

  it("clips by the norm of all gradients together", function()
    local x, y = points(40)
    local data = lt.data.from_tensors { x = x, y = y:to "float32" }:batch(40)
    local free, clipped = tiny(), tiny { clip_norm = 0.01 }
    local before = free:parameters()[1]:clone():keep()
    local bias = free:parameters()[2]:item()
    free:fit(data, QUIET)
    clipped:fit(data, QUIET)
    local function moved(model)
      local d = model:parameters()[1] - before
      return math.sqrt((d * d):sum():item() + (model:parameters()[2]:item() - bias) ^ 2)
    end
    assert.is_true(moved(free) > 0.01)
    assert.close(moved(clipped), 0.1 * 0.01, 1e-4)
  end)

  it("trains with a loss function of one's own, whose divisor makes means over uneven batches right", function()
    local x, y = points(50)
    local data = lt.data.from_tensors { x = x, y = y }
    local weight = lt.tensor { 1, 3 }
    local model = lt.nn.Sequential(lt.nn.Linear(6, 2))
    model:compile { optimizer = lt.optim.SGD { lr = 0 }, loss = function(output, target)
      return lt.cross_entropy(output, target, { weight = weight, normalize = "weights" }), lt.index_select(weight, 1, target):sum():item()
    end }
    local whole = lt.cross_entropy(model(x), y, { weight = weight, normalize = "weights" }):item()
    assert.close(model:fit(data:batch(7), QUIET).loss[1], whole, 1e-6)
    assert.close(model:evaluate(data:batch(13)).loss, whole, 1e-6)
  end)

  it("calls callbacks in order, with what they need", function()
    local events, model = {}, tiny()
    local callback = {}
    for _, event in ipairs { "on_train_begin", "on_epoch_begin", "on_batch_end", "on_epoch_end", "on_train_end" } do
      callback[event] = function(self, context, logs)
        assert.equal(callback, self)
        events[#events + 1] = ("%s %s %d %s"):format(event:sub(4), context.epoch or "-", context.step, logs and (logs.loss and "loss") or "")
      end
    end
    model:fit(tiny_data(20):batch(10), quiet { epochs = 2, callbacks = { callback } })
    assert.same({ "train_begin - 0 ", "epoch_begin 1 0 ", "batch_end 1 1 loss", "batch_end 1 2 loss", "epoch_end 1 2 loss",
      "epoch_begin 2 2 ", "batch_end 2 3 loss", "batch_end 2 4 loss", "epoch_end 2 4 loss", "train_end 2 4 " }, events)
  end)

  it("stops in the middle of an epoch when a callback says so", function()
    local model, steps = tiny(), 0
    local history = model:fit(tiny_data(40):batch(4), quiet { epochs = 5, callbacks = { { on_batch_end = function(_, context)
      steps = steps + 1
      context.stop = context.step == 13
    end } } })
    assert.equal(13, steps)
    assert.equal(2, history.epochs)
  end)

  it("holds its memory over epochs, left early or not", function()
    local model, data = tiny { metrics = { "auc" } }, tiny_data(64):batch(4)
    local stop = { on_batch_end = function(_, context) context.stop = context.step == 5 end }
    local function some()
      for _ = 1, 20 do
        model:fit(data, quiet { epochs = 2 })
        model:fit(data, quiet { callbacks = { stop } })
      end
      collectgarbage()
      collectgarbage()
      return lt.memory().live
    end
    some()
    local before = some()
    assert.is_true(some() < before + 4096) -- what forty loops would leave is more
  end)

  describe("refuses", function()
    local function check(message, fn) fails(message, fn) end

    it("a loss that is NaN, naming step, epoch and where it comes from, and saves nothing over", function()
      local folder = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "./") .. "data/scratch.lua").folder()
      local path = folder .. "/best.safetensors"
      local data = tiny_data(12)
      local x = data.source.parts[1].tensor
      local model = tiny()
      local checkpoint = lt.callbacks.ModelCheckpoint { path = path, monitor = "loss" }
      model:fit(data:batch(4), quiet { callbacks = { checkpoint } })
      local saved = io.open(path, "rb"):read "*a"
      x:select(1, 11):select(1, 3):fill_(0 / 0)
      check("fit: the loss is NaN at epoch 1, step 3; found in batch.x at [3, 3]; the learning rate is 0.1: lower it or clip gradients "
        .. "(compile { clip_norm = 1 }), or look with lt.detect_anomaly()", function()
        model:fit(data:batch(4), quiet { epochs = 2, callbacks = { checkpoint } })
      end)
      assert.is_true(model:parameters()[1]:isfinite():all():item())
      assert.equal(saved, io.open(path, "rb"):read "*a")
      local wild = tiny { optimizer = lt.optim.SGD { lr = 1e38 } }
      wild:parameters()[1]:detach():fill_(3)
      check("fit: the loss is NaN at epoch 1, step 2; found in parameter 1.weight; the learning rate is 1e+38: lower it or clip gradients "
        .. "(compile { clip_norm = 1 }), or look with lt.detect_anomaly()", function()
        wild:fit(lt.data.from_tensors { x = lt.full({ 8, 6 }, 100), y = lt.zeros(8) }:batch(4), quiet { callbacks = { checkpoint } })
      end)
      assert.equal(saved, io.open(path, "rb"):read "*a")
      -- broken by the last step of an epoch: no loss tells, but the checkpoint must not be written
      local last = tiny { optimizer = lt.optim.SGD { lr = 1e38 } }
      check("fit: parameter 1.weight holds NaN or infinity after epoch 1, step 1; the learning rate is 1e+38: lower it or clip gradients "
        .. "(compile { clip_norm = 1 })", function()
        last:fit(lt.data.from_tensors { x = lt.full({ 4, 6 }, 100), y = lt.full({ 4 }, 0.5) }:batch(4),
          quiet { callbacks = { lt.callbacks.ModelCheckpoint { path = path, save_best_only = false } } })
      end)
      assert.equal(saved, io.open(path, "rb"):read "*a")
      os.execute("rm -rf " .. folder)
    end)

    it("an infinite loss of one's own", function()
      local model = tiny { loss = function(output) return output:sum() * 0 + math.huge end }
      check("fit: the loss is infinite at epoch 1, step 1; found in the loss alone; the model's output is finite; the learning rate is 0.1: "
        .. "lower it or clip gradients (compile { clip_norm = 1 }), or look with lt.detect_anomaly()",
        function() model:fit(tiny_data(4):batch(4), QUIET) end)
    end)

    it("options that are misspelt or make no sense", function()
      local model, data = tiny(), tiny_data(8):batch(4)
      check("fit: unknown option 'epoch', did you mean 'epochs'?; it knows epochs, validation_data, callbacks, verbose, initial_epoch",
        function() model:fit(data, { epoch = 3 }) end)
      check("fit: epochs is 0; it must be a whole number of at least 1", function() model:fit(data, { epochs = 0 }) end)
      check("fit: epochs is 1.5; it must be a whole number of at least 1", function() model:fit(data, { epochs = 1.5 }) end)
      check("fit: initial_epoch is two; it must be a whole number of at least 1", function() model:fit(data, { initial_epoch = "two" }) end)
      check("fit: callback 1 is a function without on_train_begin, on_epoch_begin, on_batch_end, on_epoch_end, on_train_end; lt.callbacks has "
        .. "some, and any table with one of these functions is one",
        function() model:fit(data, { callbacks = { lt.callbacks.EarlyStopping } }) end)
      check("fit: callbacks is a list; it has the key 'on_epoch_end', so put the callback in braces",
        function() model:fit(data, { callbacks = { on_epoch_end = print } }) end)
      check("callbacks: there is no EarlyStoping, did you mean EarlyStopping?; there are EarlyStopping, ModelCheckpoint, ReduceLROnPlateau, "
        .. "TensorBoard", function() return lt.callbacks.EarlyStoping end)
    end)

    it("data that is none", function()
      local model = tiny()
      local batched = "; it must be a data set with batches, for instance lt.data.from_tensors { x =, y = }:batch(32)"
      check("fit: the data is a nil" .. batched, function() model:fit() end)
      check("fit: the data is a tensor" .. batched, function() model:fit(lt.zeros(3)) end)
      check("fit: validation_data: the data is a number" .. batched, function() model:fit(tiny_data():batch(4), { validation_data = 0.2 }) end)
      check("iter: the data set has no batches; call :batch(n) first", function() model:fit(tiny_data(), QUIET) end)
      check("fit: the data set has no rows", function() model:fit(tiny_data():take(0):batch(4), QUIET) end)
      check("fit: the data set repeats without end; give repeat_ a count",
        function() model:fit(tiny_data():batch(4):repeat_(), QUIET) end)
    end)

    it("a batch without a target, or without what compile names", function()
      local data = lt.data.from_tensors { x = lt.zeros(4, 6) }:batch(4)
      check("fit: the batch has neither label nor y; name the target with compile { target = ... }", function() tiny():fit(data, QUIET) end)
      check("fit: the batch has no 'z'; name the input with compile { input = ... }",
        function() tiny({ input = "z" }):fit(tiny_data():batch(4), QUIET) end)
    end)

    it("a model that is not compiled", function()
      local model = lt.nn.Sequential(lt.nn.Linear(6, 1))
      check("fit: the model is not compiled; call model:compile { optimizer =, loss = } first", function() model:fit(tiny_data():batch(4)) end)
    end)
  end)
end)

describe("compile refuses", function()
  local function check(message, options)
    local model = lt.nn.Sequential(lt.nn.Linear(6, 1))
    fails(message, function() model:compile(options) end)
    assert.is_nil(rawget(model, "compiled"))
  end
  local adam = function() return lt.optim.Adam {} end

  it("what is misspelt", function()
    check("compile: unknown option 'metric', did you mean 'metrics'?; it knows optimizer, loss, metrics, clip_norm, input, target, normalize",
      { optimizer = adam(), loss = "mse", metric = { "auc" } })
    check("compile: there is no loss 'bce', did you mean 'mse'?; there are bce_with_logits, cross_entropy, huber, l1, mse, or a "
      .. "function(output, target, weight)", { optimizer = adam(), loss = "bce" })
    check("metrics: there is no 'acu', did you mean 'auc'?; there are accuracy, auc, calibration, logloss, normalized_entropy",
      { optimizer = adam(), loss = "bce_with_logits", metrics = { "acu" } })
    check("compile: normalize is 'weight'; it must be 'rows' or 'weights'", { optimizer = adam(), loss = "mse", normalize = "weight" })
  end)

  it("what is missing or of another kind", function()
    check("compile: optimizer must be given, for instance lt.optim.Adam { lr = 1e-3 }", { loss = "mse" })
    check("compile: optimizer is a string; it must be an optimizer, for instance lt.optim.Adam { lr = 1e-3 }", { loss = "mse", optimizer = "adam" })
    check("compile: loss must be given, for instance \"bce_with_logits\"", { optimizer = adam() })
    check("compile: metrics is a string; it must be a list of names, { \"auc\" }", { optimizer = adam(), loss = "bce_with_logits", metrics = "auc" })
    check("compile: the metric 'auc' is there twice", { optimizer = adam(), loss = "bce_with_logits", metrics = { "auc", "auc" } })
    check("metrics: 'auc' needs the loss bce_with_logits, this model has mse", { optimizer = adam(), loss = "mse", metrics = { "auc" } })
    check("compile: clip_norm is 0; it must be a number above 0", { optimizer = adam(), loss = "mse", clip_norm = 0 })
    check("compile: input is a number; it must be the name of a part of the batch or a function of it",
      { optimizer = adam(), loss = "mse", input = 3 })
  end)
end)
