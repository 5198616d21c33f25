-- Joining, picking, triangles, views by composition: values against plain loops or worked examples, every error's text.
local ffi = require "ffi"
local lt = require "ltrain"
local fails = require "tests.ops.fails"

local DTYPES = { "float32", "float64", "bfloat16", "float16", "int64", "int32", "uint8", "bool" }

-- 1 .. n in a shape; small numbers that every dtype but bool holds.
local function counted(shape, dtype)
  local n = 1
  for _, s in ipairs(shape) do n = n * s end
  return lt.arange(1, n):reshape(shape):to(dtype or "float32")
end

describe("cat", function()
  it("joins along any dim, in every dtype", function()
    for _, dtype in ipairs(DTYPES) do
      local a, b = counted({ 2, 2 }, dtype), counted({ 2, 1 }, dtype)
      local one, two = dtype == "bool" and true or 1, dtype == "bool" and true or 2
      local three, four = dtype == "bool" and true or 3, dtype == "bool" and true or 4
      assert.same({ { one, two, one }, { three, four, two } }, lt.cat({ a, b }, 2):totable())
      assert.same({ { one, two }, { three, four }, { one, two } }, lt.cat({ a, a:slice(1, 1, 1) }):totable())
      assert.equal(dtype, lt.cat({ a, b }, -1).dtype)
    end
  end)

  it("promotes dtypes and takes strided parts", function()
    local x = lt.cat({ lt.tensor({ 1, 2 }, "int64"), lt.tensor { 0.5 } })
    assert.equal("float32", x.dtype)
    assert.same({ 1, 2, 0.5 }, x:totable())
    local m = counted { 2, 3 }
    assert.same({ { 1, 4, 1, 4 }, { 2, 5, 2, 5 }, { 3, 6, 3, 6 } }, lt.cat({ m:t(), m:t() }, 2):totable())
  end)

  it("joins many and empty parts", function()
    local parts, expected = {}, {}
    for i = 1, 100 do parts[i], expected[i] = lt.tensor { i }, i end
    parts[101] = lt.zeros { 0 }
    assert.same(expected, lt.cat(parts):totable())
    local sum = lt.cat(parts):requires_grad_()
    assert.equal(5050, sum:sum():item())
  end)

  it("gives each of many parts its own gradient", function()
    local parts = {}
    for i = 1, 80 do parts[i] = lt.tensor({ i, -i }, { requires_grad = true }) end
    local weighted = lt.cat(parts) * lt.arange(1, 160)
    weighted:sum():backward()
    for i = 1, 80 do assert.same({ 2 * i - 1, 2 * i }, parts[i].grad:totable()) end
  end)

  it("joins large rows as it does small ones", function()
    local a, b = counted { 300, 200 }, counted { 300, 70 } * -1
    local joined = lt.cat({ a, b }, 2)
    assert.same({ 300, 270 }, joined.shape)
    assert.same(a:totable(), joined:slice(2, 1, 200):totable())
    assert.same(b:totable(), joined:slice(2, 201, 270):totable())
  end)

  it("says what does not fit", function()
    local a = lt.zeros { 2, 3 }
    fails("cat: tensor 2 is [3, 4] and tensor 1 is [2, 3]; all sizes but that of dim 1 must agree",
      lt.cat, { a, lt.zeros { 3, 4 } })
    fails("cat: tensor 2 is [6] and tensor 1 is [2, 3]; all sizes but that of dim 2 must agree",
      lt.cat, { a, lt.zeros { 6 } }, 2)
    fails("cat: tensor 1 is a number and has no dim to join along; stack() makes one",
      function() return require("ltrain.op").raw("cat", { lt.tensor(1) }, { i = { 0 } }) end)
    fails("cat: dim 3; legal are 1 to 2, or -2 to -1 from the end", lt.cat, { a, a }, 3)
  end)
end)

describe("stack", function()
  it("makes a dim at any place", function()
    local a, b = counted { 2, 2 }, counted { 2, 2 } * 10
    assert.same({ { { 1, 2 }, { 3, 4 } }, { { 10, 20 }, { 30, 40 } } }, lt.stack({ a, b }):totable())
    assert.same({ { { 1, 2 }, { 10, 20 } }, { { 3, 4 }, { 30, 40 } } }, lt.stack({ a, b }, 2):totable())
    assert.same({ { { 1, 10 }, { 2, 20 } }, { { 3, 30 }, { 4, 40 } } }, lt.stack({ a, b }, -1):totable())
    assert.same({ 5, 6 }, lt.stack({ lt.tensor(5), lt.tensor(6) }):totable())
  end)

  it("says what does not fit", function()
    fails("stack: tensor 2 is [3] and tensor 1 is [2]; all must have one shape", lt.stack, { lt.zeros(2), lt.zeros(3) })
    local full = lt.zeros { 1, 1, 1, 1, 1, 1, 1, 1 }
    fails("stack: the tensors are [1, 1, 1, 1, 1, 1, 1, 1], and one dim more is over the limit of 8",
      lt.stack, { full })
  end)
end)

describe("pad", function()
  it("puts positions before and after, from the last dim on", function()
    assert.same({ { 9, 9, 9, 9 }, { 9, 1, 2, 9 }, { 9, 3, 4, 9 }, { 9, 9, 9, 9 }, { 9, 9, 9, 9 } },
      lt.pad(counted { 2, 2 }, { 1, 1, 1, 2 }, { value = 9 }):totable())
    assert.same({ 3, 2, 1, 2, 3, 2 }, lt.pad(counted { 3 }, { 2, 1 }, "reflect"):totable())
    assert.same({ 1, 1, 1, 2, 3, 3 }, lt.pad(counted { 3 }, { 2, 1 }, "replicate"):totable())
    assert.same({ 2, 3, 0 }, lt.pad(counted { 3 }, { -1, 1 }):totable())
    for _, dtype in ipairs(DTYPES) do
      assert.equal(dtype, lt.pad(counted({ 3 }, dtype), { 1, 0 }).dtype)
      assert.equal(4, #lt.pad(counted({ 3 }, dtype), { 1, 0 }, "replicate"):totable())
    end
  end)

  it("sends what was copied back to one place", function()
    local x = lt.tensor({ 1, 2, 3 }, { requires_grad = true })
    local y = lt.pad(x, { 2, 1 }, "reflect") * lt.tensor { 1, 10, 100, 1000, 10000, 100000 } -- of 3 2 1 2 3 2
    y:sum():backward()
    assert.same({ 100, 101010, 10001 }, x.grad:totable())
  end)

  it("says what does not fit", function()
    local x = counted { 2, 3 }
    fails("pad: 3 numbers for [2, 3]; give two (before, after) for each dim from the last one on",
      lt.pad, x, { 1, 2, 3 })
    fails("pad: 6 numbers for [2, 3]; give two (before, after) for each dim from the last one on",
      lt.pad, x, { 0, 0, 0, 0, 1, 1 })
    fails("pad: -2 and -2 crop more than the 3 positions of dim 2", lt.pad, x, { -2, -2 })
    fails("pad: 3 and 0 around the 3 positions of dim 2; 'reflect' can add one less than the size on each side",
      lt.pad, x, { 3, 0 }, "reflect")
    fails("pad: 1 and 0 around the 0 positions of dim 1; 'replicate' needs at least one position",
      lt.pad, lt.zeros { 0 }, { 1, 0 }, "replicate")
  end)
end)

describe("flip and tile", function()
  it("turn and repeat, whatever the strides", function()
    local x = counted { 2, 3 }
    assert.same({ { 3, 2, 1 }, { 6, 5, 4 } }, x:flip(-1):totable())
    assert.same({ { 6, 5, 4 }, { 3, 2, 1 } }, x:flip():totable())
    assert.same({ { 3, 6 }, { 2, 5 }, { 1, 4 } }, x:t():flip(1):totable())
    assert.same({ { 1, 4, 1, 4 }, { 2, 5, 2, 5 }, { 3, 6, 3, 6 } }, x:t():tile(1, 2):totable())
    assert.same({ { 7, 7 }, { 7, 7 } }, lt.tensor(7):tile(2, 2):totable())
    for _, dtype in ipairs(DTYPES) do assert.equal(dtype, counted({ 2 }, dtype):flip(1):tile(2).dtype) end
  end)

  it("say what does not fit", function()
    local x = counted { 2, 3 }
    fails("flip: dim 2 is given twice", lt.flip, x, { 2, -1 })
    fails("tile: 1 repeats for [2, 3]; give one for each dim (more add dims in front, up to 8)", lt.tile, x, { 2 })
    fails("tile: -1 repeats of dim 2; the count must not be negative", lt.tile, x, { 2, -1 })
  end)
end)

describe("triangles and diagonals", function()
  it("follow the diagonal's number", function()
    local x = counted { 3, 4 }
    local rows = x:totable()
    for k = -4, 5 do
      local low, up = x:tril(k):totable(), x:triu(k):totable()
      for i = 1, 3 do
        for j = 1, 4 do
          assert.equal(j - i <= k and rows[i][j] or 0, low[i][j])
          assert.equal(j - i >= k and rows[i][j] or 0, up[i][j])
        end
      end
    end
  end)

  it("work in place and on views", function()
    local x = counted { 3, 3 }
    x:tril_()
    assert.same({ { 1, 0, 0 }, { 4, 5, 0 }, { 7, 8, 9 } }, x:totable())
    x:t():tril_()
    assert.same({ { 1, 0, 0 }, { 0, 5, 0 }, { 0, 0, 9 } }, x:totable())
  end)

  it("diagonals are views", function()
    local x = counted { 3, 3 }
    x:diagonal():copy_(0)
    assert.same({ { 0, 2, 3 }, { 4, 0, 6 }, { 7, 8, 0 } }, x:totable())
    assert.same({ 2, 6 }, x:diagonal(1):totable())
    assert.same({ 7 }, x:diag(-2):totable())
    assert.same({}, x:diagonal(3):totable())
    assert.same({ { 0, 5, 0 }, { 0, 0, 6 }, { 0, 0, 0 } }, lt.diag(lt.tensor { 5, 6 }, 1):totable())
    local batch = counted { 2, 2, 2 }
    assert.same({ { 1, 4 }, { 5, 8 } }, batch:diagonal():totable())
    assert.same({ { 1, 7 }, { 2, 8 } }, batch:diagonal(0, 1, 2):totable())
  end)

  it("say what does not fit", function()
    fails("tril: the tensor is [3]; it must have rows and columns (two dims or more)", lt.tril, lt.zeros(3))
    fails("diagonal: both dims are 2; they must differ", lt.diagonal, lt.zeros(3, 3), 0, 2, -1)
    fails("diagonal: the tensor is [3]; it must have two dims or more", lt.diagonal, lt.zeros(3), 0, 1, 1)
    fails("diag_embed: the tensor is []; it must have 1 to 7 dims", lt.diag_embed, lt.tensor(1))
  end)
end)

describe("composed views", function()
  local x = counted({ 3, 4 }):keep()

  it("split and chunk cut all of a dim", function()
    local a, b = x:split(3, 2)
    assert.same({ { 1, 2, 3 }, { 5, 6, 7 }, { 9, 10, 11 } }, a:totable())
    assert.same({ { 4 }, { 8 }, { 12 } }, b:totable())
    local c, d = x:split({ 1, 3 }, -1)
    assert.same({ { 1 }, { 5 }, { 9 } }, c:totable())
    assert.same({ 3, 3 }, d.shape)
    assert.equal(2, select("#", x:chunk(2)))
    assert.equal(2, select("#", x:chunk(3, 2))) -- in twos, and nothing is left for a third
    assert.same({ 0, 4 }, x:slice(1, 1, 0):split(2).shape)
  end)

  it("unbind, flatten, movedim, roll, repeat_interleave, argsort", function()
    local p, q, r = x:unbind()
    assert.same({ { 1, 2, 3, 4 }, { 5, 6, 7, 8 }, { 9, 10, 11, 12 } }, { p:totable(), q:totable(), (r:totable()) })
    assert.same({ 2, 12 }, counted({ 2, 3, 4 }):flatten(2).shape)
    assert.same({ 6, 4 }, counted({ 2, 3, 4 }):flatten(1, 2).shape)
    assert.same({ 1 }, lt.tensor(3):flatten().shape)
    assert.same({ 3, 4, 2 }, counted({ 2, 3, 4 }):movedim(1, -1).shape)
    assert.same({ 4, 2, 3 }, counted({ 2, 3, 4 }):movedim({ 3, 1 }, { 1, 2 }).shape)
    assert.same({ { 4, 1, 2, 3 }, { 8, 5, 6, 7 }, { 12, 9, 10, 11 } }, x:roll(1, 2):totable())
    assert.same({ { 6, 7, 8, 5 }, { 10, 11, 12, 9 }, { 2, 3, 4, 1 } }, x:roll({ -1, -1 }, { 1, 2 }):totable())
    assert.same({ 1, 1, 2, 2 }, lt.tensor({ 1, 2 }):repeat_interleave(2):totable())
    assert.same({ 1, 2, 0 }, lt.tensor({ 5, 1, 3 }):argsort():totable())
    assert.same({ 0, 2, 1 }, lt.tensor({ 5, 1, 3 }):argsort({ descending = true }):totable())
  end)

  it("tensors like another one", function()
    assert.same({ { 1, 1 }, { 1, 1 } }, lt.ones(2, 2):totable())
    assert.equal("int64", lt.ones({ 2 }, "int64").dtype)
    assert.same({ 3, 4 }, x:zeros_like().shape)
    assert.equal("int32", lt.ones_like(x, "int32").dtype)
    assert.equal(48, x:full_like(4):sum():item())
    assert.same({ 3, 4 }, x:rand_like().shape)
  end)

  it("say what does not fit", function()
    fails("split: dim 3; legal are 1 to 2, or -2 to -1 from the end", lt.split, x, 2, 3)
    fails("split: sizes 1, 2 sum to 3; they must sum to the 4 positions of dim 2", lt.split, x, { 1, 2 }, 2)
    fails("split: size 0; a piece has at least 1 position", lt.split, x, 0)
    fails("split: size -1; a size must not be negative", lt.split, x, { 4, -1 })
    fails("split: size must be a whole number, got nil", lt.split, x)
    fails("split: unknown option 'dims', did you mean 'dim'?; it knows x, size, dim",
      lt.split, x, { size = 2, dims = 1 })
    fails("split: size is given twice, by position and by name", lt.split, x, 2, { size = 1 })
    fails("split: x must be a tensor, got a number", lt.split, 3, 2)
    fails("split: 5000 pieces; at most 4000 are returned at a time: take x:slice(dim, first, last) in a loop",
      lt.split, lt.zeros(5000), 1)
    fails("chunk: 0 chunks; there must be at least 1", lt.chunk, x, 0)
    fails("unbind: 5000 positions; at most 4000 are returned at a time: take x:select(dim, i) in a loop",
      lt.unbind, lt.zeros(5000))
    fails("flatten: dims 2 to 1; the first must not be behind the last", lt.flatten, x, 2, 1)
    fails("movedim: 2 dims to 1 places; give as many places as dims", lt.movedim, x, { 1, 2 }, 1)
    fails("movedim: dim 1 is given twice", lt.movedim, x, { 1, 1 }, { 1, 2 })
    fails("roll: 2 shifts for 1 dims; give one for each", lt.roll, x, { 1, 2 }, 1)
    fails("repeat_interleave: -1 repeats; the count must not be negative", lt.repeat_interleave, x, -1)
    fails("zeros_like: x must be a tensor, got a table", lt.zeros_like, { 1 })
  end)
end)

describe("gradients of views", function()
  it("are not changed by what is added to the tensor they show", function()
    local x = lt.tensor({ { 1, 2 }, { 3, 4 } }, { requires_grad = true })
    local w = lt.tensor({ 1, 2, 3, 4 }, { requires_grad = true })
    local h = x * 2 -- served last: its gradient is a view of the one that k gets, to which more is added before
    local k = w * 3
    local more = k * 5
    local y = (h:reshape(4) + k) * lt.tensor { 10, 20, 30, 40 }
    local total = y:sum() + more:sum()
    total:backward()
    assert.same({ { 20, 40 }, { 60, 80 } }, x.grad:totable())
    assert.same({ 45, 75, 105, 135 }, w.grad:totable())
  end)

  it("reach a gradient that has its place already", function()
    local x, arena = lt.tensor({ { 1, 2 }, { 3, 4 } }, { requires_grad = true }), lt.zeros(6)
    assert.equal(0, ffi.C.lt_bind_grad(x, arena:slice(1, 2, 5):reshape(2, 2))) -- as an optimizer's arena does
    for _ = 1, 2 do
      for _, y in ipairs { x:t(), x:permute(2, 1), x:reshape(2, 2):t(), lt.stack({ x, x })[1]:t() } do
        local weighted = y * lt.tensor { { 1, 2 }, { 3, 4 } }
        weighted:sum():backward()
      end
    end
    assert.same({ { 8, 24 }, { 16, 32 } }, x.grad:totable())
    assert.same({ 0, 8, 24, 16, 32, 0 }, arena:totable())
  end)
end)
