-- Layer and batch normalisation: values and statistics by plain loops in double, fused gradients against mathematics,
-- running statistics of the module, errors.
local lt = require "ltrain"
local fails = require "tests.ops.fails"

local function f64(values) return lt.tensor(values, "float64") end
local function wave(shape)
  local n = 1
  for _, s in ipairs(shape) do n = n * s end
  return (lt.arange(1, n, { dtype = "float64" }) * 0.83):sin():reshape(shape) * 2 + 0.5
end

-- (v - mean) / sqrt(var + eps) of a list; also mean and variance.
local function normal(list, eps)
  local mean, var, result = 0, 0, {}
  for _, v in ipairs(list) do mean = mean + v / #list end
  for _, v in ipairs(list) do var = var + (v - mean) * (v - mean) / #list end
  for i, v in ipairs(list) do result[i] = (v - mean) / math.sqrt(var + eps) end
  return result, mean, var
end

-- Gradients of all inputs by the fused rule and by the rule that makes a graph.
local function both_ways(name, inputs, options)
  local function run(graph)
    local leaves = {}
    for i, x in ipairs(inputs) do leaves[i] = x:detach():clone():requires_grad_() end
    local args = { unpack(leaves) }
    args[#args + 1] = options
    local y = lt[name](unpack(args))
    local weights = (lt.arange(1, y:numel(), { dtype = "float64" }) * 1.3):cos():reshape(y.shape):to(y.dtype)
    return { lt.grad((y * weights):sum(), leaves, { create_graph = graph }) }
  end
  return run(false), run(true)
end

describe("layer_norm", function()
  it("equals plain loops at every length", function()
    for _, width in ipairs { 1, 3, 17, 512, 513, 1200 } do
      local x = wave { 4, width }
      local w, b, expected = wave { width }, wave { width } * 0.1, {}
      local wt, bt = w:totable(), b:totable()
      for i, row in ipairs(x:totable()) do
        expected[i] = normal(row, 1e-5)
        for j = 1, width do expected[i][j] = expected[i][j] * wt[j] + bt[j] end
      end
      assert.close(x:layer_norm(w, b), expected, 1e-12)
      assert.close(x:t():contiguous():t():layer_norm(w, b), expected, 1e-12)
      assert.close(x:to("float32"):layer_norm(w:to "float32", b:to "float32"), expected, 1e-5)
    end
  end)

  it("normalises as many dims as the weight has, or as asked for", function()
    local x = wave { 2, 3, 4 }
    local flat = x:reshape(2, 12):layer_norm():reshape(2, 3, 4)
    assert.close(x:layer_norm { dims = 2 }, flat, 1e-14)
    assert.close(x:layer_norm(lt.full({ 3, 4 }, 1):to "float64"), flat, 1e-14)
    assert.close(x:permute(1, 3, 2):contiguous():permute(1, 3, 2):layer_norm { dims = 2 }, flat, 1e-14)
    assert.close(x:layer_norm { dims = 3 }:mean():item(), 0, 1e-14)
    assert.close(x:layer_norm { eps = 3 }[1][1], normal(x[1][1]:totable(), 3), 1e-13)
  end)

  it("has the fused gradients of its mathematics, over many rows", function()
    for _, shape in ipairs { { 700, 33 }, { 40, 1100 }, { 3, 5, 7 } } do
      local width = shape[#shape]
      local fused, graph = both_ways("layer_norm", { wave(shape), wave { width }, wave { width } })
      for i = 1, 3 do assert.close(fused[i], graph[i], 1e-11) end
      local narrow = {}
      for i, t in ipairs { wave(shape), wave { width }, wave { width } } do narrow[i] = t:to "float32" end
      local fused32 = both_ways("layer_norm", narrow)
      for i = 1, 3 do assert.close(fused32[i], graph[i], 3e-4) end
    end
  end)

  it("sums over rows to the same bits on one thread and on several", function()
    local before, seen = lt.threads(), {}
    for _, threads in ipairs { 1, 2, 3 } do
      lt.threads(threads)
      local fused = both_ways("layer_norm", { wave { 3000, 40 }, wave { 40 }, wave { 40 } })
      seen[#seen + 1] = { fused[1]:totable(), fused[2]:totable(), fused[3]:totable() }
    end
    lt.threads(before)
    assert.same(seen[1], seen[2])
    assert.same(seen[1], seen[3])
  end)

  it("keeps 16-bit floats, and takes wider weights", function()
    for dtype, tolerance in pairs { bfloat16 = 2e-2, float16 = 2e-3 } do
      local x = wave({ 5, 600 }):to(dtype):requires_grad_()
      local w = lt.full({ 600 }, 2):requires_grad_()
      local y = x:layer_norm(w)
      assert.equal(dtype, y.dtype)
      assert.close(y, x:detach():to("float64"):layer_norm() * 2, tolerance)
      y:sum():backward()
      assert.equal(dtype, x.grad.dtype)
      assert.equal("float32", w.grad.dtype)
    end
  end)

  it("takes shapes without elements", function()
    assert.same({ 0, 4 }, lt.zeros({ 0, 4 }):layer_norm().shape)
    assert.same({ 4, 0 }, lt.zeros({ 4, 0 }):layer_norm().shape)
    local x, w = lt.zeros({ 0, 4 }):requires_grad_(), lt.full({ 4 }, 1):requires_grad_()
    x:layer_norm(w):sum():backward()
    assert.close(w.grad, { 0, 0, 0, 0 }, 0)
  end)

  it("gives 0 for rows of one value", function()
    assert.close(lt.full({ 2, 5 }, 3):layer_norm(), lt.zeros { 2, 5 }, 0)
  end)

  it("names what is wrong", function()
    local x = lt.zeros { 2, 3, 4 }
    fails("layer_norm: weight is [3] and the tensor [2, 3, 4]; weight must have the shape of its last dims, [4]",
      lt.layer_norm, x, lt.zeros { 3 })
    fails("layer_norm: bias is [5] and the tensor [2, 3, 4]; bias must have the shape of its last dims, [4]",
      lt.layer_norm, x, lt.zeros { 4 }, lt.zeros { 5 })
    fails("layer_norm: dims is 2 and weight is [4]; leave dims out, or give a weight of as many dims", lt.layer_norm,
      x, lt.zeros { 4 }, { dims = 2 })
    fails("layer_norm: the last 4 dims are to be normalised and the tensor is [2, 3, 4]; 1 to 3 are possible",
      lt.layer_norm, x, { dims = 4 })
    fails("layer_norm: the last 1 dims are to be normalised and the tensor is []; 1 to 0 are possible", lt.layer_norm,
      lt.tensor(1))
    fails("layer_norm: eps is -1; it must be 0 or more", lt.layer_norm, x, { eps = -1 })
    fails('layer_norm: input 1 is int64; it must be a floating type: convert with x:to("float32")', lt.layer_norm,
      x:to "int64")
  end)
end)

describe("batch_norm", function()
  -- Values of channel c of [n, channels, inner], as a list.
  local function channel(x, c) return x:select(2, c):reshape(-1):totable() end

  it("normalises each channel by the batch, and gives its statistics", function()
    for _, shape in ipairs { { 7, 3 }, { 5000, 3 }, { 4, 3, 5 }, { 3, 2, 700 }, { 2, 3, 4, 5 } } do
      local x = wave(shape)
      local w, b = wave { shape[2] }, wave { shape[2] } * 0.1
      local y, mean, var = x:batch_norm(w, b)
      for c = 1, shape[2] do
        local expected, m, v = normal(channel(x, c), 1e-5)
        for i, h in ipairs(expected) do expected[i] = h * w[c]:item() + b[c]:item() end
        assert.close(y:select(2, c):reshape(-1), expected, 1e-11)
        assert.close(mean[c]:item(), m, 1e-12)
        assert.close(var[c]:item(), v, 1e-12)
      end
      assert.close(x:to("float32"):batch_norm(w:to "float32", b:to "float32"), y, 1e-5)
      local turned = #shape == 2 and x:t():contiguous():t() or x:transpose(1, 3):contiguous():transpose(1, 3)
      assert.close(turned:batch_norm(w, b), y, 1e-12)
    end
  end)

  it("has the fused gradients of its mathematics", function()
    for _, shape in ipairs { { 700, 33 }, { 3, 1100 }, { 4, 3, 5 }, { 3, 2, 700 } } do
      local inputs = { wave(shape), wave { shape[2] }, wave { shape[2] } }
      local fused, graph = both_ways("batch_norm", inputs)
      for i = 1, 3 do assert.close(fused[i], graph[i], 1e-10) end
      for i = 1, 3 do inputs[i] = inputs[i]:to "float32" end
      local fused32 = both_ways("batch_norm", inputs)
      for i = 1, 3 do assert.close(fused32[i], graph[i], 1e-3) end
    end
  end)

  it("passes gradients of the statistics on", function()
    local x = f64({ { 1 }, { 3 }, { 8 } }):requires_grad_()
    local _, mean, var = x:batch_norm();
    (mean * 3):sum():backward { retain_graph = true }
    assert.close(x.grad, { { 1 }, { 1 }, { 1 } }, 1e-14)
    x:set_grad(nil)
    var:sum():backward()
    assert.close(x.grad, { { 2 / 3 * -3 }, { 2 / 3 * -1 }, { 2 / 3 * 4 } }, 1e-14)
  end)

  it("sums over rows to the same bits on one thread and on several", function()
    local before = lt.threads()
    for _, shape in ipairs { { 3000, 40 }, { 30, 20, 200 } } do
      local seen = {}
      for _, threads in ipairs { 1, 2, 3 } do
        lt.threads(threads)
        local fused = both_ways("batch_norm", { wave(shape), wave { shape[2] }, wave { shape[2] } })
        seen[#seen + 1] = { fused[1]:totable(), fused[2]:totable(), fused[3]:totable() }
      end
      assert.same(seen[1], seen[2])
      assert.same(seen[1], seen[3])
    end
    lt.threads(before)
  end)

  it("names what is wrong", function()
    local remedy = " for each channel, and a spread needs 2; train with more rows, or use the running statistics (eval)"
    fails("batch_norm: [1, 4] has 1 value" .. remedy, lt.batch_norm, lt.zeros { 1, 4 })
    fails("batch_norm: [0, 4] has 0 values" .. remedy, lt.batch_norm, lt.zeros { 0, 4 })
    fails("batch_norm: the tensor is [4]; it must be [n, channels] or [n, channels, ...]", lt.batch_norm,
      lt.zeros { 4 })
    fails("batch_norm: weight is [3]; the tensor is [2, 4], so it must be [4], one for each channel", lt.batch_norm,
      lt.zeros { 2, 4 }, lt.zeros { 3 })
    fails("batch_norm_eval: var is [4, 1]; the tensor is [2, 4], so it must be [4], one for each channel",
      lt.batch_norm_eval, lt.zeros { 2, 4 }, lt.zeros { 4 }, lt.zeros { 4, 1 })
    fails("batch_norm: eps is -1; it must be 0 or more", lt.batch_norm, lt.zeros { 2, 4 }, { eps = -1 })
  end)
end)

describe("batch_norm_eval", function()
  it("normalises by given statistics", function()
    local x = f64 { { 1, 2 }, { 3, 4 } }
    local y = x:batch_norm_eval(f64 { 1, 2 }, f64 { 4, 9 }, f64 { 2, 3 }, f64 { 0.5, 0 }, { eps = 0 })
    assert.close(y, { { 0.5, 0 }, { 2.5, 2 } }, 1e-14)
    local deep = x:reshape(2, 2, 1):expand(2, 2, 3)
    assert.close(deep:batch_norm_eval(f64 { 1, 2 }, f64 { 4, 9 }, { eps = 0 }):select(3, 2),
      { { 0, 0 }, { 1, 2 / 3 } }, 1e-14)
    assert.same({ 0, 2 }, lt.zeros({ 0, 2 }):batch_norm_eval(lt.zeros { 2 }, lt.full({ 2 }, 1)).shape)
  end)
end)

describe("nn.BatchNorm1d", function()
  local nn = require "ltrain.nn"

  it("keeps running statistics in training and uses them in evaluation", function()
    local layer = nn.BatchNorm1d(2, { momentum = 0.1 })
    local x = lt.tensor { { 1, 10 }, { 2, 20 }, { 6, 60 } }
    layer(x)
    assert.close(layer.running_mean, { 0.3, 3 }, 1e-6)
    assert.close(layer.running_var, { 0.9 + 0.1 * 7, 0.9 + 0.1 * 700 }, 1e-5) -- unbiased: (4 + 1 + 9) / 2
    layer:eval()
    local y = layer(x)
    assert.close(y[1][1]:item(), (1 - 0.3) / math.sqrt(1.6 + 1e-5), 1e-5)
    assert.close(layer.running_mean, { 0.3, 3 }, 1e-6)
    layer:train()
    assert.close(layer(x):mean(1), { 0, 0 }, 1e-5)
  end)

  it("trains its weight and bias", function()
    local layer = nn.BatchNorm1d(3)
    layer(lt.tensor { { 1, 2, 4 }, { 3, 1, 0 } }):sum():backward()
    assert.close(layer.bias.grad, { 2, 2, 2 }, 1e-6)
    assert.close(layer.weight.grad, { 0, 0, 0 }, 1e-5)
  end)
end)
