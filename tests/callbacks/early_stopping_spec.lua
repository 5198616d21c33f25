-- EarlyStopping: patience, min_delta, direction, and weights that come back to the bit.
local lt = require "ltrain"
local here = debug.getinfo(1, "S").source:match "^@(.*/)" or "./"
local scripted, fails = dofile(here .. "scripted.lua"), dofile(here .. "../ops/fails.lua")

-- Epochs trained, best epoch, and the weight afterwards, which is the number of the epoch it belongs to.
local function run(values, options)
  local stop = lt.callbacks.EarlyStopping(options)
  local model, history = scripted.fit(values, { stop })
  return { history.epochs, stop.best_epoch, model.w:item() }
end

describe("EarlyStopping", function()
  it("stops when `patience` epochs brought nothing better", function()
    local values = { 5, 4, 6, 4.5, 3, 3, 3, 3, 3 }
    assert.same({ 3, 2, 3 }, run(values, {}))
    assert.same({ 3, 2, 3 }, run(values, { patience = 1 }))
    assert.same({ 4, 2, 4 }, run(values, { patience = 2 }))
    assert.same({ 8, 5, 8 }, run(values, { patience = 3 }))
    assert.same({ 9, 5, 9 }, run(values, { patience = 9 }))
  end)

  it("puts the best epoch's weights back, also when all epochs were trained", function()
    local values = { 5, 4, 6, 4.5, 3, 3, 3, 3, 3 }
    assert.same({ 4, 2, 2 }, run(values, { patience = 2, restore_best_weights = true }))
    assert.same({ 9, 5, 5 }, run(values, { patience = 9, restore_best_weights = true }))
    assert.same({ 3, 3, 3 }, run({ 3, 2, 1 }, { patience = 2, restore_best_weights = true }))
  end)

  it("counts as better only what is better by more than min_delta", function()
    assert.same({ 3, 1, 3 }, run({ 5, 4.9, 4.8, 4 }, { patience = 2, min_delta = 0.25 }))
    assert.same({ 4, 4, 4 }, run({ 5, 4.9, 4.7, 4 }, { patience = 2, min_delta = 0.25 }))
  end)

  it("knows the direction of a name, or is told", function()
    assert.same({ 3, 1, 3 }, run({ 1, 2, 3, 4 }, { patience = 2 }))
    assert.same({ 4, 4, 4 }, run({ 1, 2, 3, 4 }, { patience = 2, mode = "max" }))
    assert.same({ 3, 1, 3 }, run({ 4, 3, 2, 1 }, { patience = 2, mode = "max" }))
  end)

  it("never takes NaN for better", function()
    assert.same({ 4, 2, 2 }, run({ 0 / 0, 1, 0 / 0, 0 / 0, 0 }, { patience = 2, restore_best_weights = true }))
    assert.same({ 2, nil, 2 }, run({ 0 / 0, 0 / 0, 0 / 0 }, { patience = 2, restore_best_weights = true }))
  end)

  it("begins anew with each fit", function()
    local stop = lt.callbacks.EarlyStopping { patience = 1, restore_best_weights = true }
    scripted.fit({ 1, 2, 3 }, { stop })
    assert.equal(1, stop.best_epoch)
    local model, history = scripted.fit({ 9, 8, 9, 9 }, { stop })
    assert.same({ 3, 2, 2 }, { history.epochs, stop.best_epoch, model.w:item() })
  end)

  it("gives DeepFM the bits that a run of so many epochs has, tables included", function()
    local data = lt.data.synthetic_clicks { rows = 800, fields = 15, values = 3000, seed = 3 }
    local valid = lt.data.synthetic_clicks { rows = 500, fields = 15, values = 3000, seed = 3, first_row = 100000 }
    local function train(epochs, callbacks)
      lt.manual_seed(1)
      local model = require "ltrain.models.deepfm" { features = data:features(), dim = 4, hidden = { 16 }, dropout = 0.2 }
      model:compile { optimizer = lt.optim.Adam { lr = 0.03 }, loss = "bce_with_logits", metrics = { "auc" } }
      local history = model:fit(data:shuffle(true, { seed = 2 }):batch(100),
        { epochs = epochs, validation_data = valid:batch(200), callbacks = callbacks, verbose = false })
      local bits = {}
      for i, p in ipairs(model:parameters()) do
        local t = p:detach():contiguous()
        bits[i] = require("ffi").string(t:data(), t:numel() * 4)
      end
      return table.concat(bits), history
    end
    local stop = lt.callbacks.EarlyStopping { monitor = "val_auc", patience = 2, restore_best_weights = true }
    local restored, history = train(15, { stop })
    assert.is_true(stop.best_epoch < history.epochs)
    for i = 1, history.epochs do assert.is_true(history.val_auc[stop.best_epoch] >= history.val_auc[i]) end
    assert.is_true(restored == (train(stop.best_epoch)))
    assert.is_false(restored == (train(stop.best_epoch + 1)))
  end)

  it("says so", function()
    local said = {}
    local old = print
    _G.print = function(text) said[#said + 1] = text end
    local model = scripted.model()
    local context = { names = { "loss", "val_loss" }, verbose = true, model = model, epoch = 3 }
    local stop = lt.callbacks.EarlyStopping { patience = 1 }
    local ok, message = pcall(function()
      stop:on_train_begin(context)
      stop:on_epoch_end(context, { val_loss = 0.5 })
      context.epoch = 4
      stop:on_epoch_end(context, { val_loss = 0.625 })
    end)
    _G.print = old
    assert(ok, message)
    assert.same({ "early stop after epoch 4: best val_loss 0.5000 at epoch 3" }, said)
    assert.is_true(context.stop)
  end)

  it("refuses what it cannot watch, before an epoch is trained", function()
    local function monitored(options, fit_options)
      local model = scripted.model()
      local function run_it()
        fit_options = fit_options or { validation_data = scripted.validation { 1 } }
        fit_options.callbacks, fit_options.verbose = { lt.callbacks.EarlyStopping(options) }, false
        model:fit(scripted.train(), fit_options)
      end
      return model, run_it
    end
    local function check(message, options, fit_options)
      local model, run_it = monitored(options, fit_options)
      fails(message, run_it)
      assert.equal(0, model.w:item())
    end
    check("EarlyStopping: there is no 'val_los' to monitor; epochs have loss, val_loss; did you mean 'val_loss'?", { monitor = "val_los" })
    check("EarlyStopping: there is no 'val_loss' to monitor; epochs have loss; val_ values need fit { validation_data = ... }", {}, {})
    check("EarlyStopping: unknown option 'patient', did you mean 'patience'?; it knows monitor, mode, patience, min_delta, restore_best_weights",
      { patient = 3 })
    check("EarlyStopping: mode is 'up'; it must be 'max', 'min' or 'auto'", { mode = "up" })
    check("EarlyStopping: patience is 1.5; it must be a whole number of at least 0", { patience = 1.5 })
    check("EarlyStopping: min_delta is -1; it must be a number of at least 0", { min_delta = -1 })
    check("EarlyStopping: monitor is a number; it must be a name, as 'val_loss'", { monitor = 3 })
    local stop = lt.callbacks.EarlyStopping { monitor = "val_calibration" }
    fails("EarlyStopping: 'val_calibration' has no better direction of its own; say mode = 'max' or 'min'",
      function() stop:on_train_begin { names = { "loss", "val_calibration" } } end)
  end)
end)
