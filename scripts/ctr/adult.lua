--- Adult (census income): does a person earn more than 50K? adult.data trains (its rows i % 10 == 9 validate), adult.test
--- tests. Settings were found on validation rows.
local lt = require "ltrain"

local task = { name = "Adult", data = "adult", batch = 512, test_batch = 4096, max_epochs = 20, patience = 3 }

local COLUMNS = { "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship", "race", "sex",
  "capital_gain", "capital_loss", "hours_per_week", "native_country", "income" }

local function by(width)
  return function(text) return ("%d"):format(math.floor(tonumber(text) / width)) end
end

function task.schema()
  local function common(name, transform) return { name, min_count = 5, transform = transform } end
  return lt.data.schema {
    label = { "income", is = ">50K", strip = "." },
    categorical = { common("age", by(3)), common "workclass", common "education", common "marital_status", common "occupation",
      common "relationship", common "race", common "sex", common "capital_gain", common "capital_loss", common("hours_per_week", by(5)),
      common "native_country" },
    verbose = false,
  }
end

function task.load(folder)
  local options = { header = COLUMNS, trim = true, missing = {} }
  local parts = lt.data.csv(folder .. "/adult.data", options):split { train = { every = 10, is_not = 9 }, valid = { every = 10, is = 9 } }
  options.skip_lines = 1 -- "|1x3 Cross validator"
  return parts.train, parts.valid, lt.data.csv(folder .. "/adult.test", options)
end

task.models = {
  { name = "lr", title = "LR", config = { l2 = 1e-5 }, lr = 5e-3 },
  { name = "fm", title = "FM", config = { dim = 8, embedding_l2 = 1e-4 }, lr = 2e-3 },
  { name = "deepfm", title = "DeepFM", config = { dim = 8, hidden = { 64, 32 }, dropout = 0.3, embedding_l2 = 1e-3 }, lr = 2e-3 },
}

return task
