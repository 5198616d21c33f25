-- ModelCheckpoint: which epochs are saved, under which names, and that an older file is never lost.
local lt = require "ltrain"
local here = debug.getinfo(1, "S").source:match "^@(.*/)" or "./"
local scripted, fails = dofile(here .. "scripted.lua"), dofile(here .. "../ops/fails.lua")
local scratch = dofile(here .. "../data/scratch.lua")

describe("ModelCheckpoint", function()
  local folder
  before_each(function() folder = scratch.folder() end)
  after_each(function() scratch.remove(folder) end)

  -- The epoch whose weights a file holds.
  local function epoch_in(name) return lt.load(folder .. "/" .. name).w:item() end

  it("keeps the best epoch's weights", function()
    scripted.fit({ 3, 1, 2, 1 }, { lt.callbacks.ModelCheckpoint { path = folder .. "/best" } })
    assert.same({ "best.safetensors" }, scratch.list(folder))
    assert.equal(2, epoch_in "best.safetensors")
    scripted.fit({ 3, 1, 2, 1 }, { lt.callbacks.ModelCheckpoint { path = folder .. "/best.safetensors", mode = "max" } })
    assert.equal(1, epoch_in "best.safetensors")
    scripted.fit({ 3, 1, 2, 1 }, { lt.callbacks.ModelCheckpoint { path = folder .. "/best", monitor = "loss" } })
    assert.equal(4, epoch_in "best.safetensors") -- the training loss is minus the number of the step
  end)

  it("keeps every epoch, by its number, or the last", function()
    scripted.fit({ 3, 1, 2 }, { lt.callbacks.ModelCheckpoint { path = folder .. "/e{epoch}", save_best_only = false } })
    assert.same({ "e1.safetensors", "e2.safetensors", "e3.safetensors" }, scratch.list(folder))
    for i = 1, 3 do assert.equal(i, epoch_in(("e%d.safetensors"):format(i))) end
    scripted.fit({ 3, 1, 2 }, { lt.callbacks.ModelCheckpoint { path = folder .. "/last", save_best_only = false } })
    assert.equal(3, epoch_in "last.safetensors")
  end)

  it("saves nothing for NaN", function()
    scripted.fit({ 0 / 0, 0 / 0 }, { lt.callbacks.ModelCheckpoint { path = folder .. "/best" } })
    assert.same({}, scratch.list(folder))
    scripted.fit({ 0 / 0, 5, 0 / 0 }, { lt.callbacks.ModelCheckpoint { path = folder .. "/best" } })
    assert.equal(2, epoch_in "best.safetensors")
  end)

  it("names what keeps it from saving", function()
    fails(folder .. "/none/best.safetensors: its folder does not exist; make it first", function()
      scripted.fit({ 1 }, { lt.callbacks.ModelCheckpoint { path = folder .. "/none/best" } })
    end)
  end)

  it("refuses misspelt options and a missing path", function()
    fails("ModelCheckpoint: unknown option 'save_bestonly', did you mean 'save_best_only'?; it knows path, monitor, mode, save_best_only",
      function() lt.callbacks.ModelCheckpoint { path = "x", save_bestonly = true } end)
    fails("ModelCheckpoint: path must be given, for instance \"best\"", function() lt.callbacks.ModelCheckpoint {} end)
    fails("ModelCheckpoint: there is no 'val_aux' to monitor; epochs have loss, val_loss", function()
      scripted.fit({ 1 }, { lt.callbacks.ModelCheckpoint { path = folder .. "/best", monitor = "val_aux" } })
    end)
  end)
end)
