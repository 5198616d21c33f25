--- The first run: logistic regression, a factorization machine and DeepFM on MovieLens 100K, then a table of what they reach.
--- Usage: ltrain scripts/quickstart.lua [--quiet]
local lt = require "ltrain"
local host = require "ltrain.host"
local trainer = require "ctr.train"
local task = require "ctr.movielens"

local folder = host.home .. "/data/ml-100k"
if not host.kind(folder) then error("no data in " .. folder .. "; run scripts/fetch_data.sh ml-100k", 0) end
local verbose = arg[1] ~= "--quiet"

local start = lt.clock()
local parts = {}
parts.train, parts.valid, parts.test = task.load(folder)
print(("%s: %d training, %d validation and %d test rows read in %.2f s"):format(
  task.name, parts.train:rows(), parts.valid:rows(), parts.test:rows(), lt.clock() - start))
local lines = {}
for _, model in ipairs(task.models) do
  local result = trainer.run(task, model, parts, 1, verbose)
  result.title = model.title
  lines[#lines + 1] = result
  print()
end
trainer.print_table(lines)
