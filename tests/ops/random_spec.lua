-- The generator and what is drawn from it: published vectors of Philox, repeatability, moments under fixed seeds.
local ffi = require "ffi"
local lt = require "ltrain"
local bit = require "bit"
local fails = require "tests.ops.fails"

local function words(...)
  local t = { ... }
  return ffi.new(("uint32_t[%d]"):format(#t), t)
end
local function hex(p)
  local t = {}
  for i = 0, 3 do t[i + 1] = bit.tohex(p[i]) end
  return table.concat(t, " ")
end

describe("Philox4x32-10", function()
  it("gives the published words", function() -- kat_vectors of Random123 (Salmon et al. 2011)
    local out = words(0, 0, 0, 0)
    ffi.C.lt_philox(words(0, 0, 0, 0), words(0, 0), out)
    assert.equal("6627e8d5 e169c58d bc57ac4c 9b00dbd8", hex(out))
    local f = 0xffffffff
    ffi.C.lt_philox(words(f, f, f, f), words(f, f), out)
    assert.equal("408f276d 41c83b0e a20bc7c6 6d5451fd", hex(out))
    ffi.C.lt_philox(words(0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344), words(0xa4093822, 0x299f31d0), out)
    assert.equal("d16cfe09 94fdcceb 5001e420 24126ea1", hex(out))
  end)

  it("is what rand() draws from: word i makes element i", function()
    local seed, call = 123456789012345, 3
    lt.set_random_state(seed, call)
    local x = lt.rand { 1000 }:totable()
    lt.set_random_state(seed, call)
    local y = lt.rand({ 500 }, "float64"):totable()
    local key = words(seed % 2 ^ 32, math.floor(seed / 2 ^ 32))
    local out = words(0, 0, 0, 0)
    for i = 0, 999 do
      ffi.C.lt_philox(words(math.floor(i / 4), 0, call, 0), key, out)
      assert.equal(math.floor(out[i % 4] / 256) / 2 ^ 24, x[i + 1])
      if i % 2 == 0 then
        assert.equal((math.floor(out[i % 4] / 2 ^ 11) + out[i % 4 + 1] * 2 ^ 21) / 2 ^ 53, y[i / 2 + 1])
      end
    end
  end)
end)

describe("the generator's state", function()
  it("repeats from a seed, and every call draws anew", function()
    lt.manual_seed(7)
    local a, b = lt.rand { 5 }:totable(), lt.rand { 5 }:totable()
    lt.manual_seed(7)
    assert.same(a, lt.rand { 5 }:totable())
    assert.same({ 7, 1 }, { lt.random_state() })
    assert.same(b, lt.rand { 5 }:totable())
    assert.not_same(a, b)
    lt.set_random_state(7, 1)
    assert.same(b, lt.rand { 5 }:totable())
    lt.manual_seed(8)
    assert.not_same(a, lt.rand { 5 }:totable())
  end)

  it("is not moved by a call that fails", function()
    lt.manual_seed(7)
    assert.is_false(pcall(lt.rand, { -1 }))
    assert.is_false(pcall(lt.dropout, lt.zeros(2), 2))
    assert.same({ 7, 0 }, { lt.random_state() })
  end)

  it("gives the same numbers for any number of threads, and prefixes of longer draws", function()
    local before = lt.threads()
    local function draws()
      lt.manual_seed(11)
      return { lt.rand { 100003 }, lt.randn { 100003 }, lt.randn({ 50001 }, "float64"), lt.randint(-5, 5, { 100003 }),
        lt.dropout(lt.ones { 100003 }, 0.3), lt.bernoulli(0.2, { 100003 }), lt.randperm(20000) }
    end
    local many = draws()
    lt.threads(1)
    for i, x in ipairs(draws()) do assert.is_true(x:eq(many[i]):all():item()) end
    lt.threads(before)
    lt.manual_seed(11)
    assert.same(many[1]:slice(1, 1, 77):totable(), lt.rand { 77 }:totable())
  end)
end)

-- Mean and variance within `k` standard errors.
local function moments(x, mean, variance, k)
  local n, v = x:numel(), x:to "float64"
  local m = v:sum():item() / n
  local centered = v - mean
  local second = (centered * centered):sum():item() / n
  assert.close(mean, m, (k or 4) * math.sqrt(variance / n))
  assert.close(second, variance, 0.02)
  return m, second
end

describe("rand, uniform", function()
  it("fill [0, 1) evenly", function()
    lt.manual_seed(1)
    for _, dtype in ipairs { "float32", "float64", "bfloat16", "float16" } do
      local x = lt.rand({ 200000 }, dtype)
      assert.equal(dtype, x.dtype)
      assert.is_true(x:ge(0):all():item() and x:lt(1):all():item())
      local counts = lt.bincount((x:to "float32" * 10):floor():to "int64"):totable()
      assert.equal(10, #counts)
      local chi = 0
      for _, n in ipairs(counts) do chi = chi + (n - 20000) * (n - 20000) / 20000 end
      if dtype:find "32" or dtype:find "64" then -- 256 or 2048 steps do not fall evenly into ten parts
        assert.is_true(chi < 27.9, dtype .. ": chi squared " .. chi) -- 9 degrees, p = 0.001
      end
    end
    local x = lt.zeros { 300, 300 }
    assert.equal(x, x:uniform_(-2, 3))
    moments(x, 0.5, 25 / 12)
    assert.is_true(x:ge(-2):all():item() and x:le(3):all():item())
    local wide = lt.zeros(10, 20)
    wide:slice(2, 1, 10):uniform_(1, 2)
    assert.equal(0, wide:slice(2, 11, 20):sum():item())
    assert.is_true(wide:slice(2, 1, 10):ge(1):all():item())
  end)

  it("say what does not fit", function()
    fails("rand: int64 cannot hold the fractions drawn; ask for a floating type (randint draws whole numbers)",
      lt.rand, { 2 }, "int64")
    fails("rand: size -1 of dim 2 is negative", lt.rand, { 2, -1 })
    fails("uniform: from 2 to 1; low must not be above high, and both be finite", lt.uniform, lt.zeros(2), 2, 1)
    fails('uniform: input 1 is int64; it must be a floating type: convert with x:to("float32")',
      lt.uniform, lt.zeros({ 2 }, "int64"))
    fails("manual_seed: the seed must be a whole number, got 1.5", lt.manual_seed, 1.5)
  end)
end)

describe("randn, normal, truncated_normal", function()
  it("have the normal distribution", function()
    lt.manual_seed(2)
    for _, dtype in ipairs { "float32", "float64" } do
      local x = lt.randn({ 400000 }, dtype)
      moments(x, 0, 1)
      -- shares below z, from the table of the normal distribution
      local below = { [-2] = 0.0227501, [-1] = 0.1586553, [0.5] = 0.6914625, [1.5] = 0.9331928, [3] = 0.9986501 }
      for z, share in pairs(below) do
        assert.close(share, x:lt(z):to("float64"):sum():item() / 400000, 4 * math.sqrt(share * (1 - share) / 400000))
      end
    end
    moments(lt.zeros({ 200000 }):normal_(3, 2), 3, 4)
  end)

  it("turn a uniform number into the quantile of it", function()
    -- Element i of float64 is the quantile of (k + 1/2) / 2^52, k the upper bits of two words; its distribution
    -- function must give that number back.
    lt.set_random_state(5, 0)
    local z = lt.randn({ 2000 }, "float64")
    lt.set_random_state(5, 0)
    local u = lt.rand({ 2000 }, "float64")
    local back = (z * -math.sqrt(0.5)):erfc() * 0.5
    assert.is_true((back - u):abs():lt(1e-15):all():item())
  end)

  it("truncated: stays between the bounds, also far out", function()
    lt.manual_seed(3)
    local x = lt.zeros({ 100000 }):truncated_normal_(0, 1, -1, 1)
    assert.is_true(x:ge(-1):all():item() and x:le(1):all():item())
    moments(x, 0, 0.2911254) -- 1 - 2 phi(1) / (2 Phi(1) - 1)
    local far = lt.zeros({ 100000 }, "float64"):truncated_normal_(0, 1, 8, 9)
    assert.is_true(far:ge(8):all():item() and far:le(9):all():item())
    assert.close(8.12119, far:sum():item() / 100000, 0.002)
    assert.close(-8.12119, lt.zeros({ 100000 }, "float64"):truncated_normal_(0, 1, -9, -8):sum():item() / 100000, 0.002)
    local scaled = lt.zeros({ 100000 }):truncated_normal_(5, 0.02, 4.96, 5.04)
    assert.close(5, scaled:sum():item() / 100000, 1e-3)
  end)

  it("say what does not fit", function()
    fails("normal: std is -1; a deviation must not be negative", lt.normal, lt.zeros(2), 0, -1)
    fails("truncated_normal: std is 1 and the bounds 2 and 1; std must be positive and low below high",
      lt.truncated_normal, lt.zeros(2), 0, 1, 2, 1)
    fails("truncated_normal: 50 to 60 is more than 37 deviations from the mean 0; there is nothing to draw from",
      lt.truncated_normal, lt.zeros(2), 0, 1, 50, 60)
  end)
end)

describe("randint, randperm, bernoulli, multinomial", function()
  it("randint leaves out its upper end", function()
    lt.manual_seed(4)
    local x = lt.randint(-2, 4, { 60000 })
    assert.equal("int64", x.dtype)
    local counts = lt.bincount(x + 2):totable()
    assert.equal(6, #counts)
    local chi = 0
    for _, n in ipairs(counts) do chi = chi + (n - 10000) * (n - 10000) / 10000 end
    assert.is_true(chi < 20.5) -- 5 degrees, p = 0.001
    assert.same({ 9, 9 }, lt.randint(9, 10, { 2 }):totable())
    fails("randint: from 3 up to 3; high is not drawn itself and must be above low", lt.randint, 3, 3, { 1 })
  end)

  it("randperm is a permutation, every place as likely", function()
    lt.manual_seed(5)
    for _, n in ipairs { 0, 1, 10, 5000 } do
      local p = lt.randperm(n):totable()
      table.sort(p)
      assert.equal(n, #p)
      for i, v in ipairs(p) do assert.equal(i - 1, v) end
    end
    local first = { 0, 0, 0, 0 }
    for _ = 1, 4000 do
      local v = lt.randperm(4)[1]:item()
      first[v + 1] = first[v + 1] + 1
    end
    for _, n in ipairs(first) do assert.is_true(math.abs(n - 1000) < 4 * math.sqrt(750)) end
    fails("randperm: -1 numbers; the count must not be negative", lt.randperm, -1)
  end)

  it("bernoulli keeps its probabilities", function()
    lt.manual_seed(6)
    local p = lt.tensor { 0, 0.25, 0.9, 1 }
    local x = lt.bernoulli(p, { 20000, 4 }):sum(1):totable()
    assert.equal(0, x[1])
    assert.equal(20000, x[4])
    assert.close(5000, x[2], 4 * math.sqrt(3750) / 5000)
    assert.close(18000, x[3], 4 * math.sqrt(1800) / 18000)
    assert.same({ 4 }, lt.bernoulli(p).shape)
    assert.same({ 2, 3 }, lt.bernoulli(0.5, { 2, 3 }).shape)
    fails("bernoulli: p is 1.5 at element 2; probabilities are 0 to 1", lt.bernoulli, lt.tensor { 0, 1.5 })
    fails("bernoulli: p is [2] and does not broadcast to [3]", lt.bernoulli, lt.tensor { 0, 1 }, { 3 })
  end)

  it("multinomial draws in proportion", function()
    lt.manual_seed(7)
    local weights = lt.tensor { 1, 0, 3, 6 }
    local counts = lt.bincount(lt.multinomial(weights, 40000, true), { bins = 4 }):totable()
    assert.equal(0, counts[2])
    for i, share in pairs { 0.1, 0, 0.3, 0.6 } do
      assert.is_true(math.abs(counts[i] - 40000 * share) <= 4 * math.sqrt(40000 * share * (1 - share)))
    end
    -- without replacement: the first is drawn in proportion, the second from what is left
    local rows = weights:reshape(1, 4):expand(20000, 4)
    local pairs_of = lt.multinomial(rows, 2)
    local first, second = lt.bincount(pairs_of:select(2, 1)):totable(), pairs_of:select(2, 2)
    assert.close(12000, first[4], 4 * math.sqrt(4800) / 12000)
    assert.is_false(pairs_of:select(2, 1):eq(second):any():item())
    -- P(second = 0) = sum over first f of p_f * p_0 / (1 - p_f)
    local expected = 20000 * (0.3 * 0.1 / 0.7 + 0.6 * 0.1 / 0.4)
    assert.close(expected, second:eq(0):to("float64"):sum():item(), 4 * math.sqrt(expected) / expected)
    local all = lt.multinomial(lt.ones(6), 6):totable()
    table.sort(all)
    assert.same({ 0, 1, 2, 3, 4, 5 }, all)
  end)

  it("multinomial says what does not fit", function()
    fails("multinomial: 3 samples from row 2, which has 2 positive probabilities; draw fewer, or with "
      .. "{ replacement = true }",
      lt.multinomial, lt.tensor { { 1, 1, 1 }, { 1, 0, 2 } }, 3)
    fails("multinomial: probability 2 of row 1 is -1; it must be a finite number, 0 or more",
      lt.multinomial, lt.tensor { 1, -1 }, 1)
    fails("multinomial: the probabilities of row 1 sum to 0; at least one must be positive",
      lt.multinomial, lt.zeros(2), 1, true)
    fails("multinomial: the probabilities are [2, 2, 2]; they must be one row or a matrix of rows",
      lt.multinomial, lt.zeros(2, 2, 2), 1)
  end)
end)

describe("dropout", function()
  it("keeps a share of 1 - p and scales it", function()
    lt.manual_seed(8)
    for _, dtype in ipairs { "float32", "float64", "bfloat16", "float16" } do
      local y = lt.dropout(lt.ones({ 100000 }, dtype), 0.25)
      local kept = y:ne(0):to("float64"):sum():item()
      assert.close(75000, kept, 4 * math.sqrt(18750) / 75000)
      assert.close(4 / 3, y:to("float64"):amax():item(), dtype:find "16" and 5e-3 or 1e-6)
    end
    local x = lt.rand { 10 }
    assert.same(x:totable(), lt.dropout(x, 0):totable())
    assert.equal(0, lt.dropout(x, 1):sum():item())
  end)

  it("sends the gradient through the same elements, twice over", function()
    lt.manual_seed(9)
    local x = lt.rand({ 3, 50000 }, "float64"):requires_grad_()
    local y = lt.dropout(x, 0.4)
    local grad = lt.rand({ 3, 50000 }, "float64")
    local mask = y:ne(0):to "float64" / 0.6
    lt.rand { 5 } -- other calls in between change nothing
    local g = lt.grad((y * grad):sum(), { x }, { create_graph = true })
    assert.close((mask * grad):totable(), (g:totable()), 1e-12)
    local v = lt.rand({ 2, 4 }, "float64"):requires_grad_()
    local w = lt.dropout(v * v, 0.5)
    local m = w:ne(0):to "float64" / 0.5
    local first = lt.grad(w:sum(), { v }, { create_graph = true })
    assert.close((m * 2):totable(), (lt.grad(first:sum(), { v }):totable()), 1e-12)
  end)

  it("draws by position, whatever the strides", function()
    local x = lt.rand { 40, 30 }
    lt.manual_seed(10)
    local a = lt.dropout(x:t():contiguous(), 0.5)
    lt.manual_seed(10)
    assert.same(a:totable(), lt.dropout(x:t(), 0.5):totable())
  end)

  it("says what does not fit", function()
    fails("dropout: p is 1.5; the share of elements to drop is 0 to 1", lt.dropout, lt.zeros(2), 1.5)
    fails('dropout: input 1 is int64; it must be a floating type: convert with x:to("float32")',
      lt.dropout, lt.zeros({ 2 }, "int64"))
  end)
end)
