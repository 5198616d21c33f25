-- How arguments reach operators (lua/ltrain/op.lua, signature.lua, arguments.lua): by position, by name, lists, dims, errors.
local lt = require "ltrain"
local op = require "ltrain.op"
local parse = require "ltrain.signature"
local fails = require "tests.ops.fails"

describe("signatures", function()
  it("tell kinds, defaults and where C expects the value", function()
    local s = parse "f(a: operand, b: operand, low: number = -inf, dim: dim = -1, how: one|two = two, x: tensor?, n: ints = nil)"
    assert.equal("f", s.name)
    assert.equal(3, s.n_in)
    assert.same({ "operand", "operand", "number", "dim", "choice", "tensor?", "ints" }, (function()
      local kinds = {}
      for i, a in ipairs(s.args) do kinds[i] = a.kind end
      return kinds
    end)())
    assert.equal(3, s.args.low.slot) -- behind the numbers that operands may be
    assert.equal(-math.huge, s.args.low.default)
    assert.equal(1, s.args.how.default_value)
    assert.equal(2, s.args.x.input)
    assert.is_true(s.args.n.list)
  end)

  it("of every operator can be read", function()
    assert.is_true(#op.specs > 150)
    for _, spec in ipairs(op.specs) do
      assert.is_truthy(spec.doc, spec.name)
      if op.is_public(spec) then assert.is_function(lt[spec.name], spec.name) end
    end
  end)
end)

describe("arguments", function()
  local x = lt.arange(1, 6):reshape(2, 3)

  it("come by position, by name, or both", function()
    assert.same({ 6, 15 }, x:sum(2):totable())
    assert.same({ 6, 15 }, x:sum({ dims = 2 }):totable())
    assert.same({ { 6 }, { 15 } }, x:sum(2, true):totable())
    assert.same({ { 6 }, { 15 } }, x:sum(2, { keepdim = true }):totable())
    assert.same({ { 6 }, { 15 } }, lt.sum(x, { dims = { -1 }, keepdim = true }):totable())
    assert.same({ 5, 7, 9 }, lt.sum { x = x, dims = 1 }:totable())
    assert.equal(21, x:sum():item())
    assert.equal(21, x:sum({}):item()) -- no dims: all
    assert.same(x:softmax():totable(), x:softmax({}):totable()) -- no options
    assert.same(x:softmax():totable(), x:softmax(nil):totable())
  end)

  it("may give a list as several numbers", function()
    assert.same({ 3, 2 }, x:reshape(3, 2).shape)
    assert.same({ 3, 2 }, x:reshape { 3, 2 }.shape)
    assert.same({ 2, 3 }, lt.zeros(2, 3).shape)
    assert.equal("int64", lt.zeros(2, 3, "int64").dtype)
    assert.same({ 3, 2 }, x:permute(2, 1).shape)
    assert.same({}, lt.zeros({}).shape)
  end)

  it("count dims from 1 or from the end", function()
    assert.same(x:softmax(2):totable(), x:softmax(-1):totable())
    assert.same({ 2, 3, 1 }, x:unsqueeze(-1).shape)
    assert.same({ 1, 2, 3 }, x:unsqueeze(1).shape)
    fails("softmax: dim 3; legal are 1 to 2, or -2 to -1 from the end", function() return x:softmax(3) end)
    fails("softmax: dim 0; legal are 1 to 2, or -2 to -1 from the end", function() return x:softmax { dim = 0 } end)
    fails("sum: dim -3; legal are 1 to 2, or -2 to -1 from the end", function() return x:sum { 1, -3 } end)
    fails("softmax: dim 1; the tensor is a number and has no dims", function() return lt.tensor(1):softmax(1) end)
  end)

  it("work in place with an underscore", function()
    local y = x:clone()
    assert.is_true(y:mul_(2) == y)
    assert.same({ { 2, 4, 6 }, { 8, 10, 12 } }, y:totable())
    assert.same({ { 4, 4, 6 }, { 8, 8, 8 } }, y:clamp_ { low = 4, high = 8 }:totable())
    fails("tensor: there is no method or property 'sum_', did you mean 'sum'?", function() return y:sum_() end)
    fails("add: shapes [2, 3] and [2] do not broadcast: sizes 3 and 2 of dim 1 from the end must be equal or 1", function()
      return y:add_(lt.zeros(2))
    end)
    fails("add: the result is [2, 3] and cannot be written into a tensor of shape [3]", function() return lt.zeros(3):add_(y) end)
  end)

  it("of a wrong kind are named with the signature", function()
    local signature = "; signature: softmax(x, dim: dim = -1)"
    fails("softmax: dim must be a whole number, got the string 'a'" .. signature, function() return x:softmax "a" end)
    fails("softmax: dim must be a whole number, got the number 1.5" .. signature, function() return x:softmax(1.5) end)
    fails("softmax: x must be a tensor, got the number 3" .. signature, function() return lt.softmax(3) end)
    fails("softmax: x must be given, got nothing" .. signature, function() return lt.softmax() end)
    fails("softmax: 3 arguments given, at most 2 are taken" .. signature, function() return lt.softmax(x, 1, 2) end)
    fails("softmax: unknown option 'dims', did you mean 'dim'?; it knows x, dim", function() return x:softmax { dims = 1 } end)
    fails("softmax: dim is given twice, by position and by name", function() return x:softmax(1, { dim = 1 }) end)
    fails("cat: tensors must be a list of tensors, got nothing; signature: " .. op.specs.cat.text, function() return lt.cat() end)
    fails("cat: element 2 of tensors must be a tensor, got the number 5", function() return lt.cat { x, 5 } end)
    fails("zeros: there is no dtype 'float33', did you mean 'float32'?; dtypes are float32, float64, bfloat16, float16, int64, int32, "
      .. "uint8, bool", function() return lt.zeros({ 2 }, "float33") end)
    fails("sum: keepdim must be true or false, got the number 1; signature: " .. op.specs.sum.text, function() return x:sum({ 1 }, 1) end)
    fails("clamp: low is 3 and high is 2; low must not be above high", function() return x:clamp(3, 2) end)
    fails("clamp: low is 3 and high is 2; low must not be above high", function() return x:clone():clamp_(3, 2) end)
  end)

  it("reach hidden operators only from the library", function()
    assert.is_false(pcall(function() return lt.relu_backward end))
    assert.same({ 0, 2 }, op.raw("relu_backward", { lt.tensor { 1, 2 }, lt.tensor { 0, 5 } }):totable())
  end)

  it("name a file and line also when given in anomaly mode", function()
    lt.detect_anomaly()
    local ok, raised = pcall(function() return lt.tensor({ -1 }):log() end)
    lt.detect_anomaly(false)
    assert.is_false(ok)
    assert.is_truthy(raised:find("tests/op_spec.lua:%d+: log: the result %[1%] has a NaN at element 1"))
  end)
end)
