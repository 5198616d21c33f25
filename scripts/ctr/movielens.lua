--- MovieLens 100K as a click task: a rating of 4 or 5 is a click. The row with 0-based file index i is test when i % 10 == 9,
--- validation when i % 10 == 8. Data: scripts/fetch_data.sh ml-100k. Settings were found on validation rows.
local lt = require "ltrain"

local task = { name = "MovieLens 100K", data = "ml-100k", remedy = "run scripts/fetch_data.sh ml-100k",
  batch = 512, test_batch = 4096, max_epochs = 20, patience = 3 }

local function decade_of_life(text) return ("%d"):format(math.floor(tonumber(text) / 5)) end

function task.schema()
  return lt.data.schema {
    label = { "rating", at_least = 4 },
    categorical = { "user_id", "item_id", { "age", transform = decade_of_life }, "gender", "occupation", "release_year", "class" },
    verbose = false,
  }
end

---@param folder string
---@return table train, table valid, table test tables of texts, to be encoded
function task.load(folder)
  local path = folder .. "/ml-100k"
  local options = { typed_header = true }
  local users, items = lt.data.csv(path .. ".user", options), lt.data.csv(path .. ".item", options)
  local rows = lt.data.csv(path .. ".inter", options):join(users, "user_id"):join(items, "item_id")
  local parts = rows:split { train = { every = 10, is_not = { 8, 9 } }, valid = { every = 10, is = 8 }, test = { every = 10, is = 9 } }
  return parts.train, parts.valid, parts.test
end

task.models = {
  { name = "lr", title = "LR", config = { l2 = 1e-5 }, lr = 5e-3 },
  { name = "fm", title = "FM", config = { dim = 16, embedding_l2 = 1e-4 }, lr = 2e-3 },
  { name = "deepfm", title = "DeepFM", config = { dim = 16, hidden = { 128, 64 }, dropout = 0.3, embedding_l2 = 1e-3 }, lr = 1e-3 },
}

return task
