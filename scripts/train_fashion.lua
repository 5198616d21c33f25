--- An MLP on Fashion-MNIST: 784-256-128-10, ten epochs, the learning rate a tenth after the seventh; nothing is chosen on
--- test pictures. Usage: ltrain scripts/train_fashion.lua [--seeds 3] [--data FOLDER] [--quiet]
local lt = require "ltrain"
local host = require "ltrain.host"
local command_line = require "command_line"
local data_folder = require "data_folder"

local USAGE = "usage: ltrain scripts/train_fashion.lua [--seeds 3] [--data FOLDER] [--quiet]"
local EPOCHS, LOWER_AFTER = 10, 7

-- Pictures as [rows, 784] float32, shifted and scaled by the training pictures' mean and deviation.
local function read(folder)
  local function pictures(name) return lt.data.idx(("%s/%s-images-idx3-ubyte.gz"):format(folder, name)):to("float32"):reshape(-1, 784) end
  local function labels(name) return lt.data.idx(("%s/%s-labels-idx1-ubyte.gz"):format(folder, name)):to("int64") end
  local train, test = pictures "train", pictures "t10k"
  local mean, deviation = train:mean():item(), train:std():item()
  local function dataset(x, y) return lt.data.from_tensors { x = (x - mean) / deviation, y = y } end
  return dataset(train, labels "train"), dataset(test, labels "t10k")
end

local LowerRate = {}
function LowerRate:on_epoch_begin(context)
  if context.epoch == LOWER_AFTER + 1 then context.optimizer:lr(context.optimizer:lr() * 0.1) end
end

local options = command_line.parse(arg, USAGE, { "--seeds", "--data" }, 0)
local folder = options.data or data_folder("fashion-mnist", "run scripts/fetch_data.sh fashion-mnist")
if host.kind(folder) ~= "folder" then command_line.fail("%s is no folder", folder) end
local train, test = read(folder)
print(("Fashion-MNIST: %d training and %d test pictures"):format(train:rows(), test:rows()))
local sum, low, high, lines = 0, math.huge, -math.huge, {}
for seed = 1, options.seeds do
  lt.manual_seed(seed)
  local model = require "ltrain.models.mlp" { n_in = 784, hidden = { 256, 128 }, n_out = 10, dropout = 0.2 }
  model:compile { optimizer = lt.optim.Adam { lr = 1e-3 }, loss = "cross_entropy", metrics = { "accuracy" } }
  local start = lt.clock()
  model:fit(train:shuffle(true, { seed = seed }):batch(128), { epochs = EPOCHS, callbacks = { LowerRate }, verbose = not options.quiet })
  local seconds = lt.clock() - start
  local result = model:evaluate(test:batch(1000))
  lines[seed] = ("%4d  %13.4f  %9.4f  %7.1f  %8.0f"):format(seed, result.accuracy, result.loss, seconds, train:rows() * EPOCHS / seconds)
  sum, low, high = sum + result.accuracy, math.min(low, result.accuracy), math.max(high, result.accuracy)
end
print "\nseed  test accuracy  test loss  seconds    rows/s"
for _, line in ipairs(lines) do print(line) end
print(("mean accuracy over %d seed%s: %.4f (%.4f .. %.4f)"):format(options.seeds, options.seeds == 1 and "" or "s", sum / options.seeds, low, high))
