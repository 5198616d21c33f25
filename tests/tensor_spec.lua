-- Tensors on the Lua side (lua/ltrain/tensor.lua, from_table.lua): conversion, indexing, assignment, operators, errors.
local lt = require "ltrain"
local fails = require "tests.ops.fails"

local function rows(n, m) return lt.arange(1, n * m):reshape(n, m) end

describe("lt.tensor", function()
  it("reads nested tables of every dtype and gives them back", function()
    for _, dtype in ipairs { "float32", "float64", "bfloat16", "float16", "int64", "int32", "uint8" } do
      local t = lt.tensor({ { 1, 2, 3 }, { 4, 5, 6 } }, dtype)
      assert.equal(dtype, t.dtype)
      assert.same({ 2, 3 }, t.shape)
      assert.same({ { 1, 2, 3 }, { 4, 5, 6 } }, t:totable())
    end
    assert.same({ true, false }, lt.tensor({ true, false }):totable())
    assert.same({ true, false, true }, lt.tensor({ 2, 0, -1 }, "bool"):totable())
    assert.same({}, lt.tensor({}).shape[2] and "no" or {})
    assert.same({ 0 }, lt.tensor({}).shape)
    assert.same({ 2, 0 }, lt.tensor({ {}, {} }).shape)
    assert.equal(7, lt.tensor(7):totable())
    assert.same({}, lt.tensor(7).shape)
    assert.same({ { { { { { { { 5 } } } } } } } }, lt.tensor({ { { { { { { { 5 } } } } } } } }):totable())
  end)

  it("keeps whole numbers beyond 2^53", function()
    local big = 9007199254740993LL
    local t = lt.tensor { big, -big, 3LL }
    assert.equal("int64", t.dtype)
    assert.is_true(t:totable()[1] == big)
    assert.is_true(t[2]:item() == -big)
    assert.equal(3, t[3]:item())
    assert.is_true((t + lt.tensor(1LL))[1]:item() == big + 1)
  end)

  it("copies a tensor, without history", function()
    local x = lt.tensor({ 1, 2 }, { requires_grad = true })
    local y = lt.tensor(x * 2, "float64")
    assert.is_false(y.requires_grad)
    assert.same({ 2, 4 }, y:totable())
    assert.is_false(lt.tensor(x):shares_storage(x))
  end)

  it("refuses tables that are no tensor", function()
    fails("tensor: row 2 has 1 elements and its neighbours have 2; all must have the same length", lt.tensor, { { 1, 2 }, { 3 } })
    fails("tensor: row 1,2 has no elements and its neighbours have 1; all must have the same length", lt.tensor, { { { 1 }, 2 } })
    fails("tensor: element 2 is a table; it must be a number like its neighbours", lt.tensor, { 1, { 2 } })
    fails("tensor: element 1,2 is a string; it must be a number", lt.tensor, { { 1, "x" } })
    fails("tensor: the value is a nil; it must be a number", lt.tensor, nil)
    fails("tensor: tables are nested more than 8 deep", lt.tensor, { { { { { { { { { 5 } } } } } } } } })
    fails("tensor: element 2 is 1.5; int32 holds whole numbers from -2147483648 to 2147483647", lt.tensor, { 1, 1.5 }, "int32")
    fails("tensor: element 1 is 256; uint8 holds whole numbers from 0 to 255", lt.tensor, { 256 }, "uint8")
    fails("tensor: element 1 is nan; int64 holds whole numbers from -9223372036854775808 to 9223372036854775807", lt.tensor,
      { math.abs(0 / 0) }, "int64")
    fails("tensor: there is no dtype 'flaot32', did you mean 'float32'?; dtypes are float32, float64, bfloat16, float16, int64, "
      .. "int32, uint8, bool", lt.tensor, { 1 }, "flaot32")
    fails("tensor: unknown option 'require_grad', did you mean 'requires_grad'?; it knows dtype, requires_grad", lt.tensor, { 1 },
      { require_grad = true })
    fails('requires_grad: the tensor is int64; only floating types have gradients', lt.tensor, { 1 }, { dtype = "int64", requires_grad = true })
  end)

  it("converts between dtypes", function()
    local x = lt.tensor { -1.5, 0, 2.75 }
    assert.same({ -1, 0, 2 }, x:int64():totable())
    assert.same({ true, false, true }, x:bool():totable())
    assert.equal("float64", x:double().dtype)
    assert.equal("int32", x:type_as(lt.tensor({ 1 }, "int32")).dtype)
    assert.is_true(x:to("float32"):shares_storage(x))
    fails("to: there is no dtype 'float46', did you mean 'float16'?; dtypes are float32, float64, bfloat16, float16, int64, int32, uint8, "
      .. "bool", function() return x:to "float46" end)
  end)
end)

describe("indexing", function()
  it("counts positions from 1, and from the end", function()
    local x = rows(3, 4)
    assert.same({ 5, 6, 7, 8 }, x[2]:totable())
    assert.same({ 9, 10, 11, 12 }, x[-1]:totable())
    assert.equal(7, x[2][3]:item())
    assert.equal(7, x[{ 2, 3 }]:item())
    assert.equal(3, #x)
    assert.same({ 3, 4 }, x:size())
    assert.equal(4, x:size(-1))
  end)

  it("takes ranges, steps and whole dims as views", function()
    local x = rows(3, 4)
    assert.same({ { 1, 2 }, { 5, 6 } }, x[{ { 1, 2 }, { 1, 2 } }]:totable())
    assert.same({ { 2 }, { 6 }, { 10 } }, x[{ {}, { 2 } }]:totable())
    assert.same({ 2, 6, 10 }, x[{ {}, 2 }]:totable())
    assert.same({ { 1, 3 }, { 9, 11 } }, x[{ { 1, 3, 2 }, { 1, 4, 2 } }]:totable())
    assert.same({ { 11, 12 } }, x[{ { -1, -1 }, { -2, -1 } }]:totable())
    assert.is_true(x[{ {}, 2 }]:shares_storage(x))
    assert.same(x:totable(), x[{}]:totable())
  end)

  it("takes masks and ids", function()
    local x = rows(3, 4)
    assert.same({ 11, 12 }, x[x:gt(10)]:totable())
    assert.same({ { 1, 2, 3, 4 }, { 9, 10, 11, 12 } }, x[lt.tensor { true, false, true }]:totable())
    assert.same({ { 9, 10, 11, 12 }, { 9, 10, 11, 12 } }, x[lt.tensor({ 2, 2 }, "int64")]:totable())
    local cube = lt.arange(1, 8):reshape(2, 2, 2)
    assert.same({ { 1, 2 }, { 7, 8 } }, cube[lt.tensor { { true, false }, { false, true } }]:totable())
    fails("index: the mask is [4] and the tensor [3, 4]; the mask's sizes must be the tensor's first ones", function()
      return x[lt.tensor { true, true, true, true }]
    end)
  end)

  it("assigns through views, masks and ids", function()
    local x = rows(3, 4)
    x[1] = 0
    x[{ {}, 4 }] = lt.tensor { -1, -2, -3 }
    assert.same({ { 0, 0, 0, -1 }, { 5, 6, 7, -2 }, { 9, 10, 11, -3 } }, x:totable())
    x[x:gt(6)] = 100
    assert.same({ { 0, 0, 0, -1 }, { 5, 6, 100, -2 }, { 100, 100, 100, -3 } }, x:totable())
    x[lt.tensor { false, false, true }] = 1
    assert.same({ 1, 1, 1, 1 }, x[3]:totable())
    x[lt.tensor({ 0, 2 }, "int64")] = lt.tensor { { 1, 2, 3, 4 }, { 5, 6, 7, 8 } }
    assert.same({ { 1, 2, 3, 4 }, { 5, 6, 100, -2 }, { 5, 6, 7, 8 } }, x:totable())
    x[lt.tensor({ 1 }, "int32")] = 9
    assert.same({ 9, 9, 9, 9 }, x[2]:totable())
  end)

  it("copies safely where source and target overlap", function()
    local x = lt.arange(1, 5)
    x[{ { 2, 5 } }]:copy_(x[{ { 1, 4 } }])
    assert.same({ 1, 1, 2, 3, 4 }, x:totable())
    x = lt.arange(1, 5)
    x[{ { 1, 4 } }]:copy_(x[{ { 2, 5 } }])
    assert.same({ 2, 3, 4, 5, 5 }, x:totable())
    local m = rows(2, 2)
    m:copy_(m:t())
    assert.same({ { 1, 3 }, { 2, 4 } }, m:totable())
    m:add_(m:t())
    assert.same({ { 2, 5 }, { 5, 8 } }, m:totable())
  end)

  it("names the legal range", function()
    local x = rows(3, 4)
    fails("select: position 4 of dim 1; legal are 1 to 3, or -3 to -1 from the end", function() return x[4] end)
    fails("select: position 0 of dim 1; legal are 1 to 3, or -3 to -1 from the end", function() return x[0] end)
    fails("select: position 5 of dim 1; legal are 1 to 4, or -4 to -1 from the end", function() return x[{ 1, 5 }] end)
    fails("index: 3 entries; the tensor is [3, 4]", function() return x[{ 1, 2, 3 }] end)
    fails("index: entry 1 has 4 numbers; a range is {}, {first, last} or {first, last, step}", function() return x[{ { 1, 2, 3, 4 } }] end)
    fails("index: entry 1 is a string; it must be a position, {first, last} or {}", function() return x[{ "a" }] end)
    fails("index: the key is a boolean; it must be a position, { {first, last}, ... }, a mask or a tensor of ids", function() return x[true] end)
    fails("size: dim 3; the tensor is [3, 4]", function() return x:size(3) end)
    fails("size: dim 0; the tensor is [3, 4]", function() return x:size(0) end)
    fails("item: the tensor is [3, 4]; only a tensor of one element is a number", function() return x:item() end)
  end)
end)

describe("operators of the language", function()
  it("take numbers on either side", function()
    local x = lt.tensor { 1, 2, 4 }
    assert.same({ 3, 4, 6 }, (x + 2):totable())
    assert.same({ 3, 4, 6 }, (2 + x):totable())
    assert.same({ 1, 0, -2 }, (2 - x):totable())
    assert.same({ 2, 1, 0.5 }, (2 / x):totable())
    assert.same({ 2, 4, 16 }, (2 ^ x):totable())
    assert.same({ 1, 4, 16 }, (x ^ 2):totable())
    assert.same({ -1, -2, -4 }, (-x):totable())
    assert.same({ 0, 1, 3 }, (7 % x):totable())
    assert.same({ 5, 10, 20 }, (x * 5LL):totable())
    assert.equal("int64", (lt.tensor({ 1 }, "int64") + 2).dtype)
    assert.equal("float32", (lt.tensor({ 1 }, "int64") + 0.5).dtype)
    assert.equal("float64", (lt.tensor({ 1 }, "float64") * 2).dtype)
  end)

  it("compare identity, not elements", function()
    local x = lt.tensor { 1 }
    assert.is_true(x == x)
    assert.is_false(x == lt.tensor { 1 })
    assert.is_false(x == 1)
    assert.is_false(x == nil)
    fails("tensor: < compares Lua values; use a:lt(b) for elements", function() return x < x end)
    fails("tensor: <= compares Lua values; use a:le(b) for elements", function() return x <= x end)
  end)

  it("refuse what is no number", function()
    local x = lt.tensor { 1, 2 }
    fails("add: b must be a tensor or a number, got the string '2'; signature: add(a: operand, b: operand)", function() return x + "2" end)
    fails("mul: a must be a tensor or a number, got a table; signature: mul(a: operand, b: operand)", function() return {} * x end)
    fails("add: b is 9007199254740993; a number beyond 2^53 must come as a tensor: lt.tensor(9007199254740993LL)", function()
      return x + 9007199254740993LL
    end)
    fails("add: shapes [2] and [3] do not broadcast: sizes 2 and 3 of dim 1 from the end must be equal or 1", function()
      return x + lt.tensor { 1, 2, 3 }
    end)
  end)
end)

describe("methods and properties", function()
  it("suggest the nearest name", function()
    local x = lt.tensor { 1 }
    fails("tensor: there is no method or property 'softmex', did you mean 'softmax'?", function() return x:softmex() end)
    fails("tensor: there is no method or property 'shap', did you mean 'shape'?", function() return x.shap end)
    fails("tensor: property 'name' cannot be set", function() x.name = "x" end)
    fails("ltrain: there is no lt.tnsor, did you mean lt.tensor?", function() return lt.tnsor end)
    fails("nn: there is no nn.Liner, did you mean nn.Linear?", function() return lt.nn.Liner end)
    fails("nn: there is no nn.CrossEntropyLoss; losses and other functions are in lt itself: lt.cross_entropy(logits, ids), lt.relu(x)",
      function() return lt.nn.CrossEntropyLoss end)
    fails("tensor: 'requires_grad' stands among the values; options are a table of their own: lt.tensor({ 1, 2 }, { requires_grad = ... })",
      lt.tensor, { 1, 2, requires_grad = true })
    fails("no_grad: give the function to run, no_grad(function() ... end), got nothing", lt.no_grad)
    fails("enable_grad: give the function to run, enable_grad(function() ... end), got number", lt.enable_grad, 3)
    assert.equal("[2, 3] [] [2, 3]", ("%s %s %s"):format(tostring(lt.zeros(2, 3).shape), tostring(lt.tensor(1).shape),
      tostring(lt.zeros(2, 3):size())))
    fails("set_grad: the gradient is a number; it must be a tensor or nil", function() x.grad = 3 end)
  end)

  it("refuse arguments that are none", function()
    local x = lt.tensor { 1 }
    fails("narrow: first is nil and length nil; both must be whole numbers", x.narrow, x, 1)
    fails("expand_as: the argument is a number; it must be a tensor", x.expand_as, x, 5)
    fails("view_as: the argument is a table; it must be a tensor", x.view_as, x, {})
    fails("type_as: the argument is a nil; it must be a tensor", x.type_as, x)
    fails("sum: x must be given, got nothing; signature: sum(x, dims: dims = nil, keepdim: bool = false)", function() x.sum() end)
  end)

  it("know memory", function()
    local x = rows(2, 3)
    assert.same({ 3, 1 }, x:stride())
    assert.is_false(x:t():is_contiguous())
    assert.is_true(x:t():contiguous():is_contiguous())
    assert.is_true(x[2]:shares_storage(x))
    assert.is_false(x:clone():shares_storage(x))
    x:data()[5] = 60
    x:touch()
    assert.equal(60, x[{ 2, 3 }]:item())
    assert.equal(6, x:numel())
    assert.equal(2, x:dim())
  end)
end)

-- The line that function f begins on.
local function line_of(f) return debug.getinfo(f, "S").linedefined end

describe("the place of an error", function()
  local x = lt.tensor { 1, 2 }
  local y = lt.tensor { 1, 2, 3 }
  -- A call in `return f()` leaves no frame of its own behind, so that Lua cannot tell its line.
  for _, case in ipairs { -- each error is on the line after its function's first
    { "operator", function()
      return x + y
    end },
    { "method", function()
      local _ = x:add(y)
    end },
    { "function", function()
      local _ = lt.add(x, y)
    end },
    { "index", function()
      return x[9]
    end },
    { "assignment", function()
      x[9] = 1
    end },
    { "a name", function()
      return x:softmex()
    end },
    { "comparison", function()
      return x < y
    end },
    { "composed", function()
      local _ = lt.split(x, -1)
    end },
    { "options", function()
      local _ = x:sum { dims = 1, keepdimm = true }
    end },
    { "no_grad", function()
      local _ = lt.no_grad(lt.add, x, y)
    end },
  } do
    local name, f = case[1], case[2]
    it("is the user's line: " .. name, function()
      local ok, raised = pcall(f)
      assert.is_false(ok)
      assert.is_truthy(tostring(raised):find(("tests/tensor_spec.lua:%d: "):format(line_of(f) + 1), 1, true), raised)
    end)
  end
end)
