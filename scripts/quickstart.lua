--- The first run: logistic regression, a factorization machine and DeepFM on MovieLens 100K, then a table of what they reach.
--- Usage: ltrain scripts/quickstart.lua [--quiet]
local lt = require "ltrain"
local command_line = require "command_line"
local data_folder = require "data_folder"
local trainer = require "ctr.train"
local task = require "ctr.movielens"

local options = command_line.parse(arg, "usage: ltrain scripts/quickstart.lua [--quiet]", {}, 0)
local folder = data_folder(task.data, task.remedy)

local start = lt.clock()
local parts = {}
parts.train, parts.valid, parts.test = task.load(folder)
print(("%s: %d training, %d validation and %d test rows read in %.2f s"):format(
  task.name, parts.train:rows(), parts.valid:rows(), parts.test:rows(), lt.clock() - start))
local lines = {}
for _, model in ipairs(task.models) do
  local result = trainer.run(task, model, parts, 1, not options.quiet)
  result.title = model.title
  lines[#lines + 1] = result
  if not options.quiet then print() end
end
trainer.print_table(lines)
