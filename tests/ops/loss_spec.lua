-- Losses: values from plain loops in double, what takes part and what does not, fused gradients against mathematics,
-- errors.
local lt = require "ltrain"
local fails = require "tests.ops.fails"

local INF = math.huge
local function f64(values) return lt.tensor(values, "float64") end
local function ids(values, dtype) return lt.tensor(values, dtype or "int64") end

local X, T = { -3, -0.5, 0, 0.25, 4, 2 }, { 0, 1, 1, 0, 1, 0.25 }

local function softplus(z) return z > 0 and z + math.log(1 + math.exp(-z)) or math.log(1 + math.exp(z)) end
local function mean(list)
  local sum = 0
  for _, v in ipairs(list) do sum = sum + v end
  return sum / #list, sum
end
local function map(fn)
  local result = {}
  for i = 1, #X do result[i] = fn(X[i], T[i], i) end
  return result
end

-- All three reductions of a loss against a list of single losses.
local function check(name, expected, options, ...)
  local count, sum = mean(expected)
  local function call(x, t, reduction, ...)
    local given = { reduction = reduction }
    for k, v in pairs(options or {}) do given[k] = v end
    local args = { x, t, ... }
    if next(given) then args[#args + 1] = given end
    return lt[name](unpack(args))
  end
  for dtype, tolerance in pairs { float64 = 1e-14, float32 = 1e-6 } do
    local x, t = lt.tensor(X, dtype), lt.tensor(T, dtype)
    assert.close(call(x, t, "none", ...), expected, tolerance)
    assert.close(call(x, t, "sum", ...):item(), sum, tolerance)
    assert.close(call(x, t, nil, ...):item(), count, tolerance)
    assert.equal(dtype, call(x, t, nil, ...).dtype)
    assert.same({}, call(x, t, "mean", ...).shape)
  end
end

describe("pointwise losses", function()
  it("equal their formulas", function()
    check("mse_loss", map(function(x, t) return (x - t) * (x - t) end))
    check("l1_loss", map(function(x, t) return math.abs(x - t) end))
    for _, delta in ipairs { 1, 0.3, 10 } do
      check("huber_loss", map(function(x, t)
        local d = math.abs(x - t)
        return d <= delta and d * d / 2 or delta * (d - delta / 2)
      end), { delta = delta })
    end
    check("kl_div", map(function(x, t) return t > 0 and t * (math.log(t) - x) or 0 end))
    check("kl_div", map(function(x, t) return math.exp(t) * (t - x) end), { log_target = true })
    check("bce_with_logits", map(function(x, t) return softplus(x) - x * t end))
  end)

  it("weigh binary cross entropy by sample and by label", function()
    local w = { 1, 0.5, 2, 0, 1, 3 }
    check("bce_with_logits", map(function(x, t, i) return w[i] * (softplus(x) - x * t) end), { weight = f64(w) })
    local function labelled(p) return map(function(x, t) return (1 - t) * x + (1 + (p - 1) * t) * softplus(-x) end) end
    check("bce_with_logits", labelled(3), { pos_weight = 3 })
    check("bce_with_logits", labelled(0.2), { pos_weight = f64 { 0.2 } })
    local x, t = f64 { { 1, -2 }, { 0.5, 3 } }, f64 { { 1, 0 }, { 0, 1 } }
    local both = x:bce_with_logits(t, f64 { { 2 }, { 1 } }, f64 { 1, 5 }, { reduction = "none" })
    assert.close(both, { { 2 * softplus(-1), 2 * softplus(-2) }, { softplus(0.5), 5 * softplus(-3) } }, 1e-14)
  end)

  it("stay finite far out", function()
    for _, dtype in ipairs { "float32", "float64" } do
      local x, t = lt.tensor({ 500, -500, 500, -500 }, dtype):requires_grad_(), lt.tensor({ 1, 0, 0, 1 }, dtype)
      local loss = x:bce_with_logits(t, { reduction = "none" })
      assert.close(loss, { 0, 0, 500, 500 }, 1e-12)
      loss:sum():backward()
      assert.close(x.grad, { 0, 0, 1, -1 }, 1e-12)
    end
  end)

  it("take targets of other dtypes", function()
    local x = lt.tensor { 0.5, -1, 2 }
    local expected = x:bce_with_logits(lt.tensor { 1, 0, 1 }):item()
    for _, dtype in ipairs { "float64", "bfloat16", "int64", "int32", "uint8", "bool" } do
      assert.close(x:bce_with_logits(lt.tensor({ 1, 0, 1 }):to(dtype)):item(), expected, 1e-6)
    end
    assert.equal("float32", x:to("bfloat16"):mse_loss(lt.zeros { 3 }).dtype)
    local half = lt.tensor({ 0.5, -1, 2 }, "bfloat16"):requires_grad_()
    half:mse_loss(lt.zeros { 3 }):backward()
    assert.equal("bfloat16", half.grad.dtype)
    assert.close(half.grad, { 1 / 3, -2 / 3, 4 / 3 }, 1e-2)
  end)

  it("take strided and stretched operands", function()
    local x, t = f64 { { 1, 2, 3 }, { 4, 5, 6 } }, f64 { { 0, 1 }, { 2, 0 }, { 1, 1 } }
    assert.close(x:t():mse_loss(t):item(), x:t():contiguous():mse_loss(t):item(), 0)
    assert.close(lt.tensor({ { 1 }, { 2 } }):expand(2, 3):l1_loss(lt.zeros { 2, 3 }):item(), 1.5, 0)
  end)

  it("of nothing are 0, with no gradient", function()
    for _, name in ipairs { "mse_loss", "l1_loss", "huber_loss", "kl_div", "bce_with_logits" } do
      for _, reduction in ipairs { "mean", "sum" } do
        local x = lt.zeros({ 0, 3 }):requires_grad_()
        local loss = lt[name](x, lt.zeros { 0, 3 }, { reduction = reduction })
        assert.equal(0, loss:item())
        loss:backward()
        assert.same({ 0, 3 }, x.grad.shape)
      end
    end
  end)

  it("add to the gradient that is there", function()
    local w = lt.tensor({ 1, -1, 2 }, "int32")
    for _, name in ipairs { "mse_loss", "l1_loss", "huber_loss", "bce_with_logits" } do
      local x = lt.tensor({ 3, -2, 0.5 }):requires_grad_()
      for _ = 1, 3 do lt[name](x, w):backward() end
      local once = lt.grad(lt[name](x, w), { x })
      assert.close(x.grad, once * 3, 1e-6)
    end
  end)

  it("divide the divergence by rows with batchmean", function()
    local logs, p = f64 { { -1, -2 }, { -0.5, -3 } }, f64 { { 0.3, 0.7 }, { 1, 0 } }
    local sum = 0.3 * (math.log(0.3) + 1) + 0.7 * (math.log(0.7) + 2) + 0.5
    assert.close(logs:kl_div(p, { reduction = "batchmean" }):item(), sum / 2, 1e-14)
  end)

  it("add up many losses to the same bits on one thread and on several", function()
    local x = lt.arange(1, 300000, { dtype = "float64" }):sin()
    local t, before, bits = lt.zeros({ 300000 }, "float64"), lt.threads(), {}
    for _, threads in ipairs { 1, 2, 3 } do
      lt.threads(threads)
      bits[#bits + 1] = x:bce_with_logits(t):item()
    end
    lt.threads(before)
    assert.equal(bits[1], bits[2])
    assert.equal(bits[1], bits[3])
  end)

  it("name what is wrong", function()
    local x = lt.zeros { 3, 1 }
    fails("mse_loss: input is [3, 1] and target [3]; the shapes must be equal: reshape one of them", lt.mse_loss, x,
      lt.zeros { 3 })
    fails("bce_with_logits: weight is [2] and does not broadcast to the input's [3, 1]", lt.bce_with_logits,
      lt.zeros { 3, 1 }, lt.zeros { 3, 1 }, lt.zeros { 2 })
    fails("bce_with_logits: pos_weight is [4, 3] and does not broadcast to the input's [3]", lt.bce_with_logits,
      lt.zeros { 3 }, lt.zeros { 3 }, nil, lt.zeros { 4, 3 })
    fails("huber_loss: delta is 0; it must be above 0", lt.huber_loss, x, x, 0)
    fails('l1_loss: input 1 is int64; it must be a floating type: convert with x:to("float32")', lt.l1_loss,
      x:to "int64", x)
    fails("mse_loss: reduction must be one of 'mean', 'sum', 'none', got the string 'avg'; "
      .. "signature: mse_loss(input, target, reduction: mean|sum|none = mean)",
      lt.mse_loss, x, x, { reduction = "avg" })
    fails('kl_div: the input is a number and has no batch to take the mean over; use reduction = "sum"', lt.kl_div,
      lt.tensor(1), lt.tensor(1), { reduction = "batchmean" })
  end)
end)

-- ---- classes ----

local Z = { { 2.89, 1.722, 0.74 }, { 0.017, 3.803, -0.964 }, { 3.188, -6.299, -1.03 }, { -0.482, -0.638, 2.473 } }
local function log_softmax(row)
  local sum, result = 0, {}
  for _, v in ipairs(row) do sum = sum + math.exp(v) end
  for j, v in ipairs(row) do result[j] = v - math.log(sum) end
  return result
end

-- By definition: target distribution (1 - s) * one-hot + s / classes, class weights, rows with the ignored id left out.
local function by_definition(target, weight, ignore, s)
  local losses, rows, weights = {}, 0, 0
  for i, id in ipairs(target) do
    losses[i] = 0
    if id ~= ignore then
      local logs = log_softmax(Z[i])
      for k = 1, 3 do
        local share = (k - 1 == id and 1 - s or 0) + s / 3
        losses[i] = losses[i] - share * weight[k] * logs[k]
      end
      rows, weights = rows + 1, weights + weight[id + 1]
    end
  end
  local _, sum = mean(losses)
  return losses, sum, rows > 0 and sum / rows or 0, weights > 0 and sum / weights or 0
end

describe("cross_entropy and nll_loss", function()
  it("equal the definition", function()
    for _, target in ipairs { { 2, 0, 1, 2 }, { 2, -100, 0, -100 }, { 1, 1, 0, 1 } } do
      for _, weight in ipairs { { 1, 1, 1 }, { 1, 0.5, 2 } } do
        for _, s in ipairs { 0, 0.1, 0.5, 1 } do
          for _, ignore in ipairs { -100, 1 } do
            local possible = true
            for _, id in ipairs(target) do possible = possible and (id >= 0 or id == ignore) end
            if possible then
              local losses, sum, by_rows, by_weights = by_definition(target, weight, ignore, s)
              for dtype, tolerance in pairs { float64 = 1e-13, float32 = 2e-6 } do
                local z, y, w = lt.tensor(Z, dtype), ids(target, dtype == "float32" and "int32" or "int64"),
                  lt.tensor(weight, dtype)
                local function call(options)
                  options.ignore_index, options.label_smoothing = ignore, s
                  return lt.cross_entropy(z, y, w, options)
                end
                assert.close(call { reduction = "none" }, losses, tolerance)
                assert.close(call({ reduction = "sum" }):item(), sum, tolerance)
                assert.close(call({}):item(), by_rows, tolerance)
                assert.close(call({ normalize = "weights" }):item(), by_weights, tolerance)
                if s == 0 then
                  local options = { ignore_index = ignore, normalize = "weights" }
                  assert.close(lt.nll_loss(z:log_softmax(), y, w, options):item(), by_weights, tolerance * 2)
                end
              end
            end
          end
        end
      end
    end
  end)

  it("take classes in dim 2 of deeper inputs, and a single line", function()
    local deep = lt.stack({ lt.tensor(Z, "float64"):t(), lt.tensor(Z, "float64"):t() * 2 }, 1) -- [2, 3, 4]
    local target = ids { { 2, 0, 1, 2 }, { 0, 0, 1, -100 } }
    local rows = deep:permute(1, 3, 2):reshape(8, 3)
    assert.close(deep:cross_entropy(target):item(), rows:cross_entropy(target:reshape(8)):item(), 1e-14)
    assert.close(deep:cross_entropy(target, { reduction = "none" }):reshape(8),
      rows:cross_entropy(target:reshape(8), { reduction = "none" }), 1e-14)
    assert.close(f64(Z[1]):cross_entropy(ids(2)):item(), -log_softmax(Z[1])[3], 1e-14)
    assert.same({}, f64(Z[1]):cross_entropy(ids(2), { reduction = "none" }).shape)
  end)

  it("give the same fused gradient as mathematics on operators, in wide rows too", function()
    local n, classes = 5, 1300
    local z = (lt.arange(1, n * classes, { dtype = "float64" }) * 0.71):sin():reshape(n, classes) * 3
    local target, weight = ids { 7, -100, 1299, 0, 600 }, (lt.arange(1, classes, { dtype = "float64" }):cos() + 1.5)
    for _, options in ipairs { { reduction = "mean" }, { label_smoothing = 0.2 },
      { normalize = "weights", label_smoothing = 0.1 }, { reduction = "sum" } } do
      local x = z:clone():requires_grad_()
      local loss = x:cross_entropy(target, weight, options)
      loss:backward()
      local graph = lt.grad(x:cross_entropy(target, weight, options), { x }, { create_graph = true })
      assert.close(x.grad, graph, 1e-12)
      assert.close(x.grad[2]:norm():item(), 0, 0)
      local narrow = z:to("float32"):requires_grad_()
      narrow:cross_entropy(target:to "int32", weight:to "float32", options):backward()
      assert.close(narrow.grad, x.grad, 1e-6)
    end
  end)

  it("give a gradient that is 0 over each row", function()
    local x = lt.tensor(Z):requires_grad_()
    x:cross_entropy(ids { 2, 0, 1, 2 }):backward()
    assert.close(x.grad:sum(2), { 0, 0, 0, 0 }, 1e-7)
    local p = lt.tensor(Z):softmax()
    assert.close(x.grad[1], { p[1][1]:item() / 4, p[1][2]:item() / 4, (p[1][3]:item() - 1) / 4 }, 1e-6)
  end)

  it("of rows that take no part are 0, with gradient 0", function()
    for _, name in ipairs { "cross_entropy", "nll_loss" } do
      for _, normalize in ipairs { "count", "weights" } do
        local x = lt.tensor(Z):requires_grad_()
        local loss = lt[name](x, ids { -100, -100, -100, -100 }, { normalize = normalize })
        assert.equal(0, loss:item())
        loss:backward()
        assert.close(x.grad, lt.zeros { 4, 3 }, 0)
        assert.close(lt.grad(lt[name](x, ids { -100, -100, -100, -100 }, { normalize = normalize }), { x },
          { create_graph = true }), lt.zeros { 4, 3 }, 0)
      end
      assert.equal(0, lt[name](lt.zeros { 0, 3 }, lt.zeros({ 0 }, "int64")):item())
      local weightless = lt[name](lt.tensor(Z), ids { 1, 1, 1, 1 }, lt.tensor { 1, 0, 1 }, { normalize = "weights" })
      assert.equal(0, weightless:item())
    end
  end)

  it("stay finite far out", function()
    local z = lt.tensor({ { 1000, 0 }, { -1000, 0 } }):requires_grad_()
    local loss = z:cross_entropy(ids { 0, 0 })
    assert.equal(500, loss:item())
    loss:backward()
    assert.close(z.grad, { { 0, 0 }, { -0.5, 0.5 } }, 1e-7)
    assert.close(lt.tensor({ { 1, -INF } }):cross_entropy(ids { 0 }):item(), 0, 0)
  end)

  it("compute 16-bit floats in float32", function()
    local z = lt.tensor(Z):to("bfloat16"):requires_grad_()
    local wide = z:to("float32"):detach():requires_grad_()
    local loss = z:cross_entropy(ids { 2, 0, 1, 2 })
    assert.equal("float32", loss.dtype)
    loss:backward()
    wide:cross_entropy(ids { 2, 0, 1, 2 }):backward()
    assert.equal("bfloat16", z.grad.dtype)
    assert.close(z.grad, wide.grad, 4e-3)
  end)

  it("check every id before anything is written", function()
    local z = lt.tensor(Z)
    fails("cross_entropy: class id 3 at row 2; legal are 0 to 2, and ignore_index -100 for rows that take no part",
      lt.cross_entropy, z, ids { 0, 3, 0, 0 })
    fails("nll_loss: class id -1 at row 4; legal are 0 to 2, and ignore_index 1 for rows that take no part",
      lt.nll_loss, z, ids { 0, 1, 0, -1 }, { ignore_index = 1 })
    local deep = lt.zeros { 2, 3, 4 }
    fails("cross_entropy: class id 9 at row 2, 3; legal are 0 to 2, and ignore_index -100 for rows that take no part",
      lt.cross_entropy, deep,
      ids { { 0, 0, 0, 0 }, { 1, 1, 9, 1 } })
  end)

  it("name what is wrong", function()
    local z = lt.tensor(Z)
    fails("cross_entropy: input is [4, 3], so target must be [4], one class id for each line of dim 2; it is [4, 1]",
      lt.cross_entropy, z, lt.zeros({ 4, 1 }, "int64"))
    fails("nll_loss: input is [4, 3], so target must be [4], one class id for each line of dim 2; it is [3]",
      lt.nll_loss, z, ids { 0, 1, 2 })
    fails('cross_entropy: input 2 is float32; ids are int32 or int64: convert with x:to("int64")', lt.cross_entropy,
      z, lt.zeros { 4 })
    fails("cross_entropy: weight is [2]; it must be [3], one for each class", lt.cross_entropy, z, ids { 0, 1, 2, 0 },
      lt.zeros { 2 })
    fails("cross_entropy: label_smoothing is 1.5; it must be from 0 to 1", lt.cross_entropy, z, ids { 0, 1, 2, 0 },
      { label_smoothing = 1.5 })
    fails("cross_entropy: input is a number; it must be [classes], [n, classes] or [n, classes, d1, ...]",
      lt.cross_entropy, lt.tensor(1), ids(0))
    fails("nll_loss: class weights get no gradient; pass weight:detach()", function()
      lt.nll_loss(lt.tensor(Z):requires_grad_(), ids { 0, 1, 2, 0 }, lt.tensor({ 1, 1, 1 }):requires_grad_()):backward()
    end)
  end)
end)
