-- The training scripts: a task of one's own from the command line, their words about wrong arguments, and Adult where it is
-- at hand. That MovieLens and Fashion-MNIST reach their goals is shown by running the scripts.
local host = require "ltrain.host"
local spec = require "ltrain.spec"
local scratch = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "./") .. "../data/scratch.lua")

local function script(name, ...) return spec.run({ "ltrain", host.home .. "/scripts/" .. name, ... }, 300) end

local TASK = [[
local lt = require "ltrain"
return {
  name = "Colours", data = "colours", batch = 64, test_batch = 100, max_epochs = 4, patience = 2,
  schema = function() return lt.data.schema { label = "y", categorical = { "a", "b" }, verbose = false } end,
  load = function(folder)
    local parts = lt.data.csv(folder .. "/rows.csv"):split { train = { every = 4, is_not = { 2, 3 } }, valid = { every = 4, is = 2 },
      test = { every = 4, is = 3 } }
    return parts.train, parts.valid, parts.test
  end,
  models = { { name = "lr", title = "LR", lr = 0.05 }, { name = "fm", config = { dim = 2 }, lr = 0.05 } },
}
]]

describe("train_ctr", function()
  local folder
  setup(function()
    folder = scratch.folder()
    assert(host.make_folder(folder .. "/colours"))
    local lines = { "y,a,b" }
    for i = 1, 800 do
      local a, b = i * i % 7, i * 3 % 5
      lines[i + 1] = ("%d,a%d,b%d"):format((a < 3) ~= (i % 10 == 0) and 1 or 0, a, b)
    end
    scratch.write(folder .. "/colours/rows.csv", table.concat(lines, "\n") .. "\n")
    scratch.write(folder .. "/task.lua", TASK)
  end)
  teardown(function() scratch.remove(folder) end)

  it("trains a task of one's own and prints every seed, means and spread", function()
    local output, status = script("train_ctr.lua", folder .. "/task.lua", "--data", folder .. "/colours", "--seeds", "2", "--quiet")
    assert.equal(0, status, output)
    local lines = {}
    for line in output:gmatch "[^\n]+" do lines[#lines + 1] = line end
    assert.equal("Colours: 400 training, 200 validation and 200 test rows", lines[1])
    assert.equal("model     test AUC   logloss  epochs   seconds      rows/s", lines[2])
    for i, name in ipairs { "LR 1", "LR 2", "fm 1", "fm 2" } do
      assert.is_truthy(lines[2 + i]:find("^" .. name .. "  +0%.%d%d%d%d  +0%.%d%d%d%d  +[1-4]  +%d+%.%d  +%d+$"), lines[2 + i])
    end
    assert.equal("over 2 seeds, mean (lowest .. highest):", lines[7])
    local auc, low, high = lines[8]:match "^LR        test AUC (0%.%d+) %((0%.%d+) %.%. (0%.%d+)%)  logloss 0%.%d+ %(0%.%d+ %.%. 0%.%d+%)$"
    assert.is_true(tonumber(low) <= tonumber(auc) and tonumber(auc) <= tonumber(high), lines[8])
    assert.is_true(tonumber(low) > 0.8, lines[8])
    assert.is_truthy(lines[9]:find "^fm        test AUC 0%.")
    assert.equal(9, #lines)
    local again = script("train_ctr.lua", folder .. "/task.lua", "--data", folder .. "/colours", "--seeds", "2", "--quiet", "--models", "lr")
    assert.is_truthy(again:find(lines[8], 1, true), again) -- the same numbers, whatever runs before
    assert.is_falsy(again:find "fm")
  end)

  it("shows the epochs unless it is quiet", function()
    local output = script("train_ctr.lua", folder .. "/task.lua", "--data", folder .. "/colours", "--seeds", "1", "--models", "lr")
    assert.is_truthy(output:find("LR: choosing the number of epochs on validation rows\n", 1, true))
    assert.is_truthy(output:find "epoch 1/4  step 7/7 .* val_auc [01]%.%d+", output)
    assert.is_truthy(output:find "LR: %d epochs? on training and validation rows\n", output)
  end)

  it("says what is wrong with its arguments", function()
    local usage = "usage: ltrain scripts/train_ctr.lua TASK [--models lr,fm,deepfm] [--seeds 3] [--data FOLDER] [--quiet]"
    local function check(message, ...)
      local output, status = script("train_ctr.lua", ...)
      assert.equal("ltrain: " .. message .. "\n", output)
      assert.equal(2, status)
    end
    local task = folder .. "/task.lua"
    check("no task is given; " .. usage)
    check("unknown option --seed, did you mean --seeds?; " .. usage, task, "--seed", "3")
    check("--seeds needs a value after it; " .. usage, task, "--seeds")
    check("--seeds is none; it must be a whole number of at least 1", task, "--seeds", "none")
    check("movielens is one word too many; " .. usage, "adult", "movielens")
    check("there is no task " .. folder .. "/none.lua; name one of scripts/ctr or a Lua file", folder .. "/none.lua")
    check("the task has no model dcn; it has lr, fm", task, "--models", "lr,dcn")
    check(folder .. "/nowhere is no folder", task, "--data", folder .. "/nowhere")
    scratch.write(folder .. "/half.lua", "return { name = 'half' }")
    check(folder .. "/half.lua: the task's schema is a nil; it must be a function", folder .. "/half.lua")
    local output, status = script("train_ctr.lua", task)
    assert.equal(2, status)
    assert.is_truthy(output:find "^ltrain: no data: there is no .*data/colours, no .*; set LTRAIN_DATA to the folder it lies in\n$", output)
  end)

  it("reaches the goals on Adult (one seed)", function()
    local data = spec.need "adult"
    local output, status = script("train_ctr.lua", "adult", "--data", data, "--seeds", "1", "--quiet")
    assert.equal(0, status, output)
    local auc = {}
    for name, value in output:gmatch "(%a+) +test AUC (0%.%d+)" do auc[name] = tonumber(value) end
    assert.is_true(auc.LR >= 0.911, output)
    assert.is_true(auc.FM >= 0.913, output)
    assert.is_true(auc.DeepFM >= 0.914 and auc.DeepFM > auc.FM, output)
  end)
end)

describe("train_fashion", function()
  local folder
  setup(function()
    folder = scratch.folder()
    -- ten classes of pictures, each bright in a row of its own
    local function write(name, n)
      local pictures, labels = {}, {}
      for i = 1, n do
        local class = i % 10
        labels[i] = string.char(class)
        pictures[i] = ("\10"):rep(28 * class * 2) .. ("\200"):rep(28) .. ("\10"):rep(784 - 28 * class * 2 - 28)
      end
      local function u32(v) return string.char(0, 0, math.floor(v / 256), v % 256) end
      scratch.write(("%s/%s-images-idx3-ubyte"):format(folder, name), "\0\0\8\3" .. u32(n) .. u32(28) .. u32(28) .. table.concat(pictures))
      scratch.write(("%s/%s-labels-idx1-ubyte"):format(folder, name), "\0\0\8\1" .. u32(n) .. table.concat(labels))
    end
    write("train", 1280)
    write("t10k", 200)
    assert(os.execute("gzip " .. folder .. "/*-ubyte") == 0)
  end)
  teardown(function() scratch.remove(folder) end)

  it("learns pictures and prints seeds and their mean", function()
    local output, status = script("train_fashion.lua", "--data", folder, "--seeds", "1")
    assert.equal(0, status, output)
    assert.is_truthy(output:find("Fashion-MNIST: 1280 training and 200 test pictures\n", 1, true))
    assert.is_truthy(output:find "epoch 10/10  step 10/10  [%d,]+ rows/s  loss %d%.%d+  accuracy [01]%.%d+  0:%d%d\n")
    assert.is_truthy(output:find "mean accuracy over 1 seed: 1.0000 %(1.0000 .. 1.0000%)\n$", output)
  end)

  it("says what is wrong with its arguments", function()
    local usage = "usage: ltrain scripts/train_fashion.lua [--seeds 3] [--data FOLDER] [--quiet]"
    local function check(message, ...) assert.same({ "ltrain: " .. message .. "\n", 2, "" }, { script("train_fashion.lua", ...) }) end
    check("unknown option --seed, did you mean --seeds?; " .. usage, "--seed", "1")
    check("--seeds is 0; it must be a whole number of at least 1", "--seeds", "0")
    check(folder .. "/none is no folder", "--data", folder .. "/none")
  end)
end)
