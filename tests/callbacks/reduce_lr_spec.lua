-- ReduceLROnPlateau: when the learning rate falls, by how much, and how long it rests.
local lt = require "ltrain"
local here = debug.getinfo(1, "S").source:match "^@(.*/)" or "./"
local scripted, fails = dofile(here .. "scripted.lua"), dofile(here .. "../ops/fails.lua")

-- The learning rate of each epoch.
local function rates(values, options, lr)
  local seen = {}
  scripted.fit(values, { { on_epoch_begin = function(_, context) seen[#seen + 1] = context.optimizer:lr() end },
    lt.callbacks.ReduceLROnPlateau(options) }, lr)
  return seen
end

describe("ReduceLROnPlateau", function()
  it("multiplies the rate after `patience` epochs without a better value", function()
    assert.same({ 1, 1, 1, 0.5, 0.25, 0.125 }, rates({ 3, 2, 2, 2, 2, 2 }, { factor = 0.5, patience = 1 }))
    assert.same({ 1, 1, 1, 1, 0.5, 0.5 }, rates({ 3, 2, 2, 2, 2, 2 }, { factor = 0.5, patience = 2 }))
    assert.same({ 1, 1, 1, 1, 1, 1 }, rates({ 6, 5, 4, 3, 2, 1 }, { factor = 0.5, patience = 1 }))
    assert.same({ 1, 1, 0.5, 0.5, 0.25 }, rates({ 3, 4, 2, 3, 1 }, { factor = 0.5, patience = 1 }))
  end)

  it("does not count the epochs of a cooldown", function()
    assert.same({ 1, 1, 0.5, 0.5, 0.25 }, rates({ 1, 1, 1, 1, 1 }, { factor = 0.5, patience = 1, cooldown = 2 }))
  end)

  it("stops at min_lr", function()
    assert.same({ 1, 1, 0.5, 0.4, 0.4 }, rates({ 1, 1, 1, 1, 1 }, { factor = 0.5, patience = 1, min_lr = 0.4 }))
    assert.same({ 0.3, 0.3, 0.3 }, rates({ 1, 1, 1 }, { factor = 0.5, patience = 1, min_lr = 0.4 }, 0.3))
  end)

  it("keeps the ratio of parameter groups", function()
    local model = scripted.model()
    local optimizer = lt.optim.SGD({ { params = { model.w }, lr = 1 }, { params = { lt.zeros(1):requires_grad_() }, lr = 0.25 } }, { lr = 1 })
    local reduce = lt.callbacks.ReduceLROnPlateau { patience = 1, factor = 0.5, min_lr = 0.2 }
    local context = { names = { "loss", "val_loss" }, optimizer = optimizer }
    reduce:on_train_begin(context)
    for _ = 1, 3 do reduce:on_epoch_end(context, { val_loss = 1 }) end
    assert.same({ 0.25, 0.2 }, { optimizer.groups[1].lr, optimizer.groups[2].lr })
  end)

  it("takes improvements of 1e-4 and less for none, unless told otherwise", function()
    assert.same({ 1, 1, 0.1 }, rates({ 1, 0.99995, 0.9999 }, { patience = 1 }))
    assert.same({ 1, 1, 1 }, rates({ 1, 0.99995, 0.9999 }, { patience = 1, min_delta = 0 }))
  end)

  it("refuses misspelt options and senseless numbers", function()
    local R = lt.callbacks.ReduceLROnPlateau
    fails("ReduceLROnPlateau: unknown option 'facto', did you mean 'factor'?; it knows monitor, mode, factor, patience, min_delta, min_lr, "
      .. "cooldown", function() R { facto = 0.5 } end)
    fails("ReduceLROnPlateau: factor is 1; it must lie between 0 and 1", function() R { factor = 1 } end)
    fails("ReduceLROnPlateau: factor is half; it must be a number of at least 0", function() R { factor = "half" } end)
    fails("ReduceLROnPlateau: cooldown is -1; it must be a whole number of at least 0", function() R { cooldown = -1 } end)
  end)
end)
