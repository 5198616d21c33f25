-- The script that a newcomer writes first, as the README and the design have it, on a small CSV: it runs from a folder of
-- its own, and a plain loop comes to the same bits.
local lt = require "ltrain"
local host = require "ltrain.host"
local spec = require "ltrain.spec"
local here = debug.getinfo(1, "S").source:match "^@(.*/)" or "./"
local scratch = dofile(here .. "../data/scratch.lua")

local DATA = [[
local lt     = require "ltrain"
local schema = lt.data.schema { label = "clicked", numeric = { "age", "price" }, categorical = { "user", "item" } }
local train  = lt.data.csv("train.csv.gz", { schema = schema }):shuffle(100000):batch(4096):prefetch()
local valid  = lt.data.csv("valid.csv.gz", { schema = schema }):batch(8192)
local model  = require "ltrain.models.deepfm" { features = schema:features(), dim = 10, hidden = { 400, 400, 400 } }
]]
local SCRIPT = DATA .. [[
model:compile { optimizer = lt.optim.Adam { lr = 1e-3 }, loss = "bce_with_logits", metrics = { "auc", "logloss" } }
model:fit(train, { epochs = 10, validation_data = valid, callbacks = {
  lt.callbacks.EarlyStopping { monitor = "val_auc", mode = "max", patience = 2, restore_best_weights = true },
  lt.callbacks.ModelCheckpoint { path = "best", monitor = "val_auc", mode = "max" },
  lt.callbacks.TensorBoard { path = "logs" } } })
model:save "deepfm.safetensors"
]]
local PLAIN = DATA .. [[
local optimizer = lt.optim.Adam(model, { lr = 1e-3 })
local best, waited = -1, 0
for epoch = 1, 10 do
  model:train()
  for batch in train:iter() do
    local loss = lt.bce_with_logits(model(batch), batch.label)
    optimizer:zero_grad()
    loss:backward()
    optimizer:step()
  end
  model:eval()
  local auc = lt.metrics.AUC()
  lt.no_grad(function()
    for batch in valid:iter() do auc:update(model(batch), batch.label) end
  end)
  print(("epoch %d val_auc %.4f"):format(epoch, auc:value()))
  waited = waited + 1
  if auc:value() > best then
    best, waited = auc:value(), 0
    model:save "plain.safetensors"
  end
  if waited == 2 then break end
end
]]
local PREDICT = [[
local lt = require "ltrain"
local model = lt.load_model "deepfm.safetensors"
model:compile { optimizer = lt.optim.Adam {}, loss = "bce_with_logits", metrics = { "auc" } }
local rows = lt.data.csv("valid.csv.gz", { schema = model.schema })
print(("auc %.4f"):format(model:evaluate(rows:batch(100)).auc))
print(#model:predict(rows:batch(7)):totable())
]]

-- Users and items with tastes, so that there is something to learn; numbers on different scales.
local function clicks(rows, seed)
  lt.manual_seed(seed)
  local draws, lines = lt.rand(rows, 5):totable(), { "clicked,age,price,user,item" }
  for i, d in ipairs(draws) do
    local user, item = math.floor(d[1] * 40), math.floor(d[2] * 30)
    local score = (user % 3 == 0 and 1.5 or -1) + (item % 4 == 0 and 1 or -0.5) + (d[3] - 0.5)
    lines[i + 1] = ("%d,%.3f,%.2f,u%d,item %d"):format(1 / (1 + math.exp(-score)) > d[4] and 1 or 0, d[3], d[5], user, item)
  end
  return table.concat(lines, "\n") .. "\n"
end

describe("the first script", function()
  local folder
  setup(function()
    folder = scratch.folder()
    scratch.write(folder .. "/train.csv", clicks(4400, 1))
    scratch.write(folder .. "/valid.csv", clicks(500, 2))
    assert(os.execute("gzip " .. folder .. "/*.csv") == 0)
    scratch.write(folder .. "/first.lua", SCRIPT)
    scratch.write(folder .. "/plain.lua", PLAIN)
    scratch.write(folder .. "/predict.lua", PREDICT)
  end)
  teardown(function() scratch.remove(folder) end)

  local function run(name)
    local output, status = spec.run({ "/bin/sh", "-c", ("cd '%s' && exec '%s' %s"):format(folder, host.exe, name) }, 300)
    assert.equal(0, status, output)
    return output
  end

  it("trains, saves, and comes to the bits of the plain loop", function()
    local output = run "first.lua"
    assert.is_truthy(output:find("schema fitted on 4400 rows of train.csv.gz: user 42, item 32, age, price", 1, true), output)
    assert.is_truthy(output:find("table table.weight: lazy update", 1, true), output)
    assert.is_truthy(output:find "epoch 1/10  step 2/2  [%d,]+ rows/s  loss 0%.%d+  auc 0%.%d+  logloss 0%.%d+  val_loss 0%.%d+  val_auc 0%.%d+",
      output)
    local plain = run "plain.lua"
    local aucs = {}
    for epoch, value in output:gmatch "epoch (%d+)/10[^\n]*val_auc (0%.%d+)" do aucs[#aucs + 1] = ("epoch %s val_auc %s"):format(epoch, value) end
    for line in plain:gmatch "epoch %d+ val_auc 0%.%d+" do assert.equal(line, table.remove(aucs, 1)) end
    assert.equal(0, #aucs)
    local saved = scratch.read(folder .. "/deepfm.safetensors")
    assert.is_true(saved == scratch.read(folder .. "/plain.safetensors"))
    assert.is_true(saved == scratch.read(folder .. "/best.safetensors"))
    assert.same({ "train", "validation" }, scratch.list(folder .. "/logs"))

    local best = 0
    for value in output:gmatch "val_auc (0%.%d+)" do best = math.max(best, tonumber(value)) end
    assert.is_true(best > 0.6, output) -- it learnt something
    assert.equal(("auc %.4f\n500\n"):format(best), run "predict.lua")
  end)
end)
