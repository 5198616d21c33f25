-- SGD, Adam, AdamW and Adagrad (lua/ltrain/optim) against plain loops in doubles, over steps whose gradients depend on the
-- weights; tables updated exactly against dense parameters, to the bit.
local lt = require "ltrain"

local STEPS, N = 20, 3
local START, TARGET = { 1, -2, 0.5 }, { 0.3, 0.7, -1 }

local function gradient(w, i) return 2 * (w - TARGET[i]) * i end

-- Runs the class on sum(i * (w - target)^2).
local function ours(class, options)
  local w = lt.tensor(START, { dtype = "float64", requires_grad = true })
  local target, scale = lt.tensor(TARGET, "float64"), lt.tensor({ 1, 2, 3 }, "float64")
  local optimizer = lt.optim[class]({ w }, options)
  for _ = 1, STEPS do
    optimizer:zero_grad()
    ;((w - target):square() * scale):sum():backward()
    optimizer:step()
  end
  return w:totable()
end

-- The same by update(weight, gradient, state, step) -> weight, element by element.
local function plain(update)
  local out = {}
  for i = 1, N do
    local w, state = START[i], {}
    for step = 1, STEPS do w = update(w, gradient(w, i), state, step) end
    out[i] = w
  end
  return out
end

local function agree(class, options, update) assert.close(ours(class, options), plain(update), 1e-13) end

local function power(b, n)
  local p = 1
  for _ = 1, n do p = p * b end
  return p
end

describe("SGD", function()
  it("steps against the gradient", function()
    agree("SGD", { lr = 0.05 }, function(w, g) return w - 0.05 * g end)
    agree("SGD", nil, function(w, g) return w - 0.01 * g end)
  end)

  it("has momentum, dampening, Nesterov's look ahead, weight decay", function()
    agree("SGD", { lr = 0.02, momentum = 0.9 }, function(w, g, s)
      s.v = (s.v or 0) * 0.9 + g
      return w - 0.02 * s.v
    end)
    agree("SGD", { lr = 0.02, momentum = 0.9, dampening = 0.5 }, function(w, g, s, step)
      s.v = step == 1 and g or s.v * 0.9 + 0.5 * g
      return w - 0.02 * s.v
    end)
    agree("SGD", { lr = 0.02, momentum = 0.8, nesterov = true }, function(w, g, s)
      s.v = (s.v or 0) * 0.8 + g
      return w - 0.02 * (g + 0.8 * s.v)
    end)
    agree("SGD", { lr = 0.02, weight_decay = 0.3 }, function(w, g) return w - 0.02 * (g + 0.3 * w) end)
  end)
end)

local function adam(lr, b1, b2, eps, decay, decoupled)
  return function(w, g, s, step)
    if decoupled then w = w * (1 - lr * decay) else g = g + decay * w end
    s.m = (s.m or 0) * b1 + (1 - b1) * g
    s.v = (s.v or 0) * b2 + (1 - b2) * g * g
    local m, v = s.m / (1 - power(b1, step)), s.v / (1 - power(b2, step))
    return w - lr * m / (math.sqrt(v) + eps)
  end
end

describe("Adam and AdamW", function()
  it("follow their papers", function()
    agree("Adam", nil, adam(1e-3, 0.9, 0.999, 1e-8, 0))
    agree("Adam", { lr = 0.1, betas = { 0.8, 0.95 }, eps = 1e-4 }, adam(0.1, 0.8, 0.95, 1e-4, 0))
    agree("Adam", { lr = 0.1, weight_decay = 0.2 }, adam(0.1, 0.9, 0.999, 1e-8, 0.2))
    agree("AdamW", { lr = 0.1, weight_decay = 0.2 }, adam(0.1, 0.9, 0.999, 1e-8, 0.2, true))
    agree("AdamW", { lr = 0.1 }, adam(0.1, 0.9, 0.999, 1e-8, 0.01, true))
  end)
end)

describe("Adagrad", function()
  it("divides by the root of the sum of squares", function()
    agree("Adagrad", { lr = 0.5, lr_decay = 0.1, weight_decay = 0.05 }, function(w, g, s, step)
      g = g + 0.05 * w
      s.sum = (s.sum or 0) + g * g
      return w - 0.5 / (1 + (step - 1) * 0.1) * g / (math.sqrt(s.sum) + 1e-10)
    end)
  end)
end)

-- A table of 6 rows beside a plain parameter of the same values, trained on the same batches.
local function side_by_side(class, dtype, options, l2, each)
  lt.manual_seed(12)
  local e = lt.nn.Embedding(6, 5, { dtype = dtype, update = "exact", l2 = l2 })
  local w = lt.nn.Parameter(e.weight)
  local a = lt.optim[class](e, options)
  local dense = {}
  for key, value in pairs(options) do dense[key] = value end
  dense.weight_decay = l2
  local b = lt.optim[class]({ w }, dense)
  local scale = lt.randn({ 3, 5 }, dtype)
  for step = 1, 12 do
    local ids = lt.tensor({ step % 4, 2, (step * 3) % 5 }, "int64") -- row 5 is never used
    a:zero_grad()
    b:zero_grad()
    ;(e(ids):square() * scale):sum():backward()
    local grad = e.weight.grad:to_dense()
    w:set_grad(grad)
    if each then each(a, b) end
    a:step()
    b:step()
  end
  return e.weight, w
end

describe("exact updates of tables", function()
  it("are the dense formula's, to the bit, also in rows not touched", function()
    for _, dtype in ipairs { "float32", "float64" } do
      for _, case in ipairs { { "Adam", { lr = 0.1 }, 0 }, { "Adam", { lr = 0.1 }, 0.3 }, { "AdamW", { lr = 0.1 }, 0.3 },
        { "SGD", { lr = 0.1, momentum = 0.9 }, 0.3 }, { "Adagrad", { lr = 0.1 }, 0.1 } } do
        local table_weight, plain_weight = side_by_side(case[1], dtype, case[2], case[3])
        assert.same(plain_weight:totable(), table_weight:totable(), case[1] .. " " .. dtype)
      end
    end
  end)

  it("keep agreeing under clipping", function()
    local table_weight, plain_weight = side_by_side("Adam", "float64", { lr = 0.1 }, 0, function(a, b)
      assert.close(a:clip_grad_norm(0.5), b:clip_grad_norm(0.5), 1e-14)
    end)
    assert.close(table_weight, plain_weight, 1e-13)
  end)
end)

describe("lazy updates of tables", function()
  it("touch the batch's rows only, with moments and decay of their own", function()
    local e = lt.nn.Embedding(4, 2, { dtype = "float64", l2 = 0.1 })
    local before = e.weight:totable()
    local optimizer = lt.optim.Adam(e, { lr = 0.1 })
    local w, m, v = before[2][1], 0, 0 -- SparseAdam's formula: eps beside the root before its correction
    for step = 1, 5 do
      optimizer:zero_grad()
      e(lt.tensor({ 1 }, "int64")):sum():backward()
      optimizer:step()
      local g = 1 + 0.1 * w
      m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
      w = w - 0.1 * math.sqrt(1 - power(0.999, step)) / (1 - power(0.9, step)) * m / (math.sqrt(v) + 1e-8)
    end
    local after = e.weight:totable()
    assert.close(after[2][1], w, 1e-13)
    for _, row in ipairs { 1, 3, 4 } do assert.same(before[row], after[row]) end
  end)
end)
