--- Trains one model of a task the honest way: the number of epochs is chosen on validation rows, then a new model with the
--- same seed is trained for that many epochs on training and validation rows together, and meets the test rows once.
local lt = require "ltrain"

local M = {}

local function build(task, model, data, seed)
  lt.manual_seed(seed)
  local config = { features = data:features() }
  for key, value in pairs(model.config or {}) do config[key] = value end
  local net = require("ltrain.models." .. model.name)(config)
  net:compile { optimizer = lt.optim.Adam { lr = model.lr or task.lr or 1e-3 }, loss = "bce_with_logits", metrics = { "auc", "logloss" } }
  return net
end

local function batches(task, data, seed) return data:shuffle(true, { seed = seed }):batch(task.batch):prefetch() end

---@param task table see scripts/ctr/movielens.lua
---@param model table { name, config, lr }
---@param parts table { train =, valid =, test = } tables of texts
---@param seed integer
---@param verbose boolean show the epochs
---@return table result { auc, logloss, epochs, seconds, rows_per_second }
function M.run(task, model, parts, seed, verbose)
  local start, trained_rows, trained_seconds = lt.clock(), 0, 0
  local function fit(net, data, options)
    local from = lt.clock()
    local history = net:fit(data, options)
    trained_rows = trained_rows + history.epochs * data:rows()
    trained_seconds = trained_seconds + lt.clock() - from
    return history
  end
  -- 1. how many epochs? vocabularies come from the training rows alone
  local schema = task.schema()
  local train = parts.train:encode(schema)
  local valid = parts.valid:encode(schema)
  local stop = lt.callbacks.EarlyStopping { monitor = "val_auc", patience = task.patience }
  if verbose then print(("%s: choosing the number of epochs on validation rows"):format(model.title or model.name)) end
  fit(build(task, model, train, seed), batches(task, train, seed),
    { epochs = task.max_epochs, validation_data = valid:batch(task.test_batch), callbacks = { stop }, verbose = verbose })
  -- 2. the same from the start on training and validation rows
  local full_schema = task.schema()
  local full = parts.train:concat(parts.valid):encode(full_schema)
  local net = build(task, model, full, seed)
  local epochs = stop.best_epoch
  if not epochs then error("train: no epoch had a val_auc; the validation rows must hold both classes", 0) end
  if verbose then
    print(("%s: %d epoch%s on training and validation rows"):format(model.title or model.name, epochs, epochs == 1 and "" or "s"))
  end
  fit(net, batches(task, full, seed), { epochs = epochs, verbose = verbose })
  -- 3. the test rows, once
  local result = net:evaluate(parts.test:encode(full_schema):batch(task.test_batch))
  return { auc = result.auc, logloss = result.logloss, epochs = epochs, seconds = lt.clock() - start,
    rows_per_second = trained_rows / trained_seconds, model = net }
end

---A table of results, one line a model.
function M.print_table(lines)
  print(("%-8s  %8s  %8s  %6s  %8s  %10s"):format("model", "test AUC", "logloss", "epochs", "seconds", "rows/s"))
  for _, r in ipairs(lines) do
    print(("%-8s  %8.4f  %8.4f  %6d  %8.1f  %10.0f"):format(r.title, r.auc, r.logloss, r.epochs, r.seconds, r.rows_per_second))
  end
end

return M
