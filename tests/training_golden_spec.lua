-- Training runs against PyTorch's recorded ones (golden/training, described in golden/README.md): DeepFM with exact and
-- lazy table updates, a classifier with every optimizer; free runs in float64, losses and gradients in float32 at the
-- recorded weights, and how far a free float32 run may drift.
local ffi = require "ffi"
local lt = require "ltrain"
local json = require "ltrain.json"

local HERE = (debug.getinfo(1, "S").source:match "^@(.*/)" or "./") .. "golden/training/"

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "*a"
  file:close()
  return text
end

local about = json.decode(read(HERE .. "training.json"))
local STEPS, FM, MLP = about.steps, about.deepfm, about.mlp

local recorded = setmetatable({}, { __index = function(t, name)
  local state = lt.load(HERE .. name .. ".safetensors")
  rawset(t, name, state)
  return state
end })

-- ---- models with PyTorch's weights: { name of the parameter in ltrain's order = its tensor in the file } ----

local function deepfm_weights(state, prefix)
  local list = { lt.cat({ state[prefix .. "table.embedding"], state[prefix .. "table.linear"]:reshape(-1, 1) }, 2) }
  for i = 1, #FM.hidden + 1 do
    list[#list + 1] = state[("%smlp.%d.weight"):format(prefix, i)]
    list[#list + 1] = state[("%smlp.%d.bias"):format(prefix, i)]
  end
  list[#list + 1] = state[prefix .. "bias"]
  return list
end

local function mlp_weights(state, prefix)
  local list = {}
  for i = 1, #MLP.hidden + 1 do
    list[#list + 1] = state[("%s%d.weight"):format(prefix, i)]
    list[#list + 1] = state[("%s%d.bias"):format(prefix, i)]
  end
  return list
end

local function load_weights(model, list)
  local parameters = model:named_parameters()
  assert.equal(#list, #parameters)
  lt.no_grad(function()
    for i, p in ipairs(parameters) do p.tensor:copy_(list[i]) end
  end)
end

local function new_deepfm(dtype, options)
  local features = {}
  for i, size in ipairs(FM.sizes) do features[i] = { name = "field" .. i, size = size, kind = "categorical" } end
  local model = require "ltrain.models.deepfm" { features = features, dim = FM.dim, hidden = FM.hidden,
    update = options.update, embedding_l2 = options.l2 }
  return model:to(dtype)
end

local function new_mlp(dtype)
  return require "ltrain.models.mlp" { n_in = MLP.inputs, hidden = MLP.hidden, n_out = MLP.classes }:to(dtype)
end

-- ---- one batch ----

local function deepfm_loss(model, state, step, dtype)
  return lt.bce_with_logits(model(state.ids[step + 1]), state.labels[step + 1]:to(dtype))
end

local function mlp_loss(model, state, step, dtype)
  local first = step * MLP.batch % MLP.rows
  local x = state.x:slice(1, first + 1, first + MLP.batch):to(dtype)
  return lt.cross_entropy(model(x), state.targets:slice(1, first + 1, first + MLP.batch))
end

-- A free run from the recorded start: the losses before each update.
local function train(model, optimizer, loss_of, state, dtype, clip)
  local losses = {}
  for step = 0, STEPS - 1 do
    lt.scope(function()
      local loss = loss_of(model, state, step, dtype)
      optimizer:zero_grad()
      loss:backward()
      if clip then optimizer:clip_grad_norm(clip) end
      losses[step + 1] = loss:item()
      optimizer:step()
    end)
  end
  return losses
end

-- Largest absolute difference of two lists of numbers or tensors; NaN counts as infinitely far.
local function distance(a, b)
  if ffi.istype("lt_handle", a) then a = a:reshape(-1):totable() end
  if ffi.istype("lt_handle", b) then b = b:reshape(-1):totable() end
  assert.equal(#b, #a)
  local worst = 0
  for i = 1, #a do
    local d = math.abs(a[i] - b[i])
    worst = d > worst and d or d ~= d and math.huge or worst
  end
  return worst
end

local function assert_within(limit, what, found)
  assert(found <= limit, ("%s: off by %.3g, the limit is %.3g"):format(what, found, limit))
end

local function compare_run(model, losses, state, run, weights)
  assert_within(1e-10, "losses", distance(losses, state[run .. ".losses"]))
  for i, p in ipairs(model:named_parameters()) do
    assert_within(1e-10, "final " .. p.name, distance(p.tensor:detach():clone(), weights[i]:contiguous()))
  end
end

-- A table's gradient has only the rows of the batch.
local function dense_grad(p)
  local grad = p.tensor.grad
  return ffi.istype("lt_handle", grad) and grad or grad:to_dense()
end

local function compare_snapshots(model, state, loss_of, weights_of)
  for _, step in ipairs(about.snapshots) do
    local at = ("step%d."):format(step)
    load_weights(model, weights_of(state, at .. "weight."))
    model:zero_grad()
    local loss = loss_of(model, state, step, "float32")
    loss:backward()
    assert_within(1e-5, at .. "loss", math.abs(loss:item() - state[at .. "loss"]:item()))
    local grads = weights_of(state, at .. "grad.")
    for i, p in ipairs(model:named_parameters()) do
      assert_within(1e-5, at .. "gradient of " .. p.name, distance(dense_grad(p), grads[i]:contiguous()))
    end
  end
end

-- Within three times what PyTorch itself moves when rows change places inside the batches.
local function compare_drift(losses, state, run)
  local drift = state[run .. ".drift"]:totable()
  assert_within(3 * math.max(unpack(drift)), run .. " losses", distance(losses, state[run .. ".losses"]))
end

-- ---- DeepFM ----

local function deepfm_optimizer(model)
  return lt.optim.Adam(model, { lr = FM.lr, betas = FM.betas, eps = FM.eps })
end

describe("DeepFM trained as PyTorch trains it", function()
  for _, run in ipairs { "exact", "lazy", "exact_l2", "lazy_l2" } do
    it(("200 steps in float64, %s"):format(run), function()
      local state = recorded.deepfm_float64
      local model = new_deepfm("float64", { update = run:match "^%a+", l2 = run:find "l2" and FM.table_l2 or nil })
      load_weights(model, deepfm_weights(state, "init."))
      local losses = train(model, deepfm_optimizer(model), deepfm_loss, state, "float64")
      compare_run(model, losses, state, run, deepfm_weights(state, run .. ".final."))
    end)
  end

  it("loss and gradients in float32 at PyTorch's weights", function()
    compare_snapshots(new_deepfm("float32", {}), recorded.deepfm_float32, deepfm_loss, deepfm_weights)
  end)

  for _, update in ipairs { "exact", "lazy" } do
    it(("200 free steps in float32, %s"):format(update), function()
      local state = recorded.deepfm_float32
      local model = new_deepfm("float32", { update = update })
      load_weights(model, deepfm_weights(state, "init."))
      compare_drift(train(model, deepfm_optimizer(model), deepfm_loss, state, "float32"), state, update)
    end)
  end
end)

-- ---- classifier ----

local CLASS = { adam = "Adam", adamw = "AdamW", adagrad = "Adagrad", sgd = "SGD" }

local function mlp_optimizer(model, recorded_options)
  local options = {}
  for _, key in ipairs { "lr", "betas", "eps", "weight_decay", "momentum", "nesterov" } do
    options[key] = recorded_options[key]
  end
  return lt.optim[CLASS[recorded_options.kind]](model, options)
end

describe("a classifier trained as PyTorch trains it", function()
  local names = {}
  for name in pairs(MLP.runs) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    it(("200 steps in float64, %s"):format(name), function()
      local state, options = recorded.mlp_float64, MLP.runs[name]
      local model = new_mlp "float64"
      load_weights(model, mlp_weights(state, "init."))
      local losses = train(model, mlp_optimizer(model, options), mlp_loss, state, "float64", options.clip_norm)
      compare_run(model, losses, state, name, mlp_weights(state, name .. ".final."))
    end)
  end

  it("loss and gradients in float32 at PyTorch's weights", function()
    compare_snapshots(new_mlp "float32", recorded.mlp_float32, mlp_loss, mlp_weights)
  end)

  it("200 free steps in float32", function()
    local state, model = recorded.mlp_float32, new_mlp "float32"
    load_weights(model, mlp_weights(state, "init."))
    compare_drift(train(model, mlp_optimizer(model, MLP.runs.adam), mlp_loss, state, "float32"), state, "adam")
  end)
end)
