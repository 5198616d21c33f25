--- Trains click models on a CSV and prints how good they are: the number of epochs is chosen on validation rows, the
--- model is fitted again on training and validation rows, and meets the test rows once (scripts/ctr/train.lua).
--- Usage: ltrain scripts/train_ctr.lua TASK [--models lr,fm,deepfm] [--seeds 3] [--data FOLDER] [--quiet]
--- TASK is adult, movielens (scripts/ctr/TASK.lua), or your own Lua file, which returns a table:
---   name = "My clicks"
---   data = "my-clicks"               the folder's name below data/, or pass --data; remedy = "how to get it"
---   schema = function() return lt.data.schema { ... } end    called for each fit: vocabularies are learnt anew
---   load = function(folder) return train, valid, test end    three tables of lt.data.csv(path), split, joined, ...
---   models = { { name = "deepfm", title = "DeepFM", config = { dim = 8, hidden = { 64, 32 } }, lr = 1e-3 }, ... }
---   batch = 512, test_batch = 4096, max_epochs = 20, patience = 3
local host = require "ltrain.host"
local command_line = require "command_line"
local trainer = require "ctr.train"
local data_folder = require "data_folder"

local USAGE = "usage: ltrain scripts/train_ctr.lua TASK [--models lr,fm,deepfm] [--seeds 3] [--data FOLDER] [--quiet]"
local NEEDS = { { "name", "string" }, { "schema", "function" }, { "load", "function" }, { "models", "table" }, { "batch", "number" },
  { "test_batch", "number" }, { "max_epochs", "number" }, { "patience", "number" } }

local fail = command_line.fail

local function read_task(name)
  local folder = arg[0]:match "^(.*/)" or "./"
  local path = name:find "^[%w_-]+$" and folder .. "ctr/" .. name .. ".lua" or name
  if host.kind(path) ~= "file" then fail("there is no task %s; name one of scripts/ctr or a Lua file", path) end
  local chunk, problem = loadfile(path)
  if not chunk then fail("%s", tostring(problem)) end
  local task = chunk()
  if type(task) ~= "table" then fail("%s returned a %s; it must return the task's table", path, type(task)) end
  for _, need in ipairs(NEEDS) do
    if type(task[need[1]]) ~= need[2] then fail("%s: the task's %s is a %s; it must be a %s", path, need[1], type(task[need[1]]), need[2]) end
  end
  return task
end

local function chosen_models(task, list)
  if not list then return task.models end
  local by_name, names, chosen = {}, {}, {}
  for i, model in ipairs(task.models) do by_name[model.name], names[i] = model, model.name end
  for name in list:gmatch "[^,]+" do
    if not by_name[name] then fail("the task has no model %s; it has %s", name, table.concat(names, ", ")) end
    chosen[#chosen + 1] = by_name[name]
  end
  return chosen
end

local function summary(results, key)
  local sum, low, high = 0, math.huge, -math.huge
  for _, r in ipairs(results) do
    sum, low, high = sum + r[key], math.min(low, r[key]), math.max(high, r[key])
  end
  return sum / #results, low, high
end

local options, words = command_line.parse(arg, USAGE, { "--models", "--seeds", "--data" }, 1)
if not words[1] then fail("no task is given; %s", USAGE) end
local task = read_task(words[1])
local models = chosen_models(task, options.models)
local folder = options.data or data_folder(task.data or words[1], task.remedy)
if host.kind(folder) ~= "folder" then fail("%s is no folder", folder) end

local parts = {}
parts.train, parts.valid, parts.test = task.load(folder)
print(("%s: %d training, %d validation and %d test rows"):format(task.name, parts.train:rows(), parts.valid:rows(), parts.test:rows()))
local all, lines = {}, {}
for m, model in ipairs(models) do
  all[m] = {}
  for seed = 1, options.seeds do
    local result = trainer.run(task, model, parts, seed, not options.quiet)
    result.title, result.model = ("%s %d"):format(model.title or model.name, seed), nil
    lines[#lines + 1], all[m][seed] = result, result
  end
end
print()
trainer.print_table(lines)
print(("\nover %d seed%s, mean (lowest .. highest):"):format(options.seeds, options.seeds == 1 and "" or "s"))
for m, model in ipairs(models) do
  local auc, low, high = summary(all[m], "auc")
  print(("%-8s  test AUC %.4f (%.4f .. %.4f)  logloss %.4f (%.4f .. %.4f)"):format(model.title or model.name, auc, low, high,
    summary(all[m], "logloss")))
end
