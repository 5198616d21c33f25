-- Order: sort, topk, unique and searchsorted against plain Lua, every error's text.
local lt = require "ltrain"
local fails = require "tests.ops.fails"

local DTYPES = { "float32", "float64", "bfloat16", "float16", "int64", "int32", "uint8" }

-- n repeatable whole numbers from 0 to limit - 1, less `low`.
local function numbers(n, limit, low)
  local t, seed = {}, n
  for i = 1, n do
    seed = (seed * 69069 + 12345) % 2 ^ 31
    t[i] = math.floor(seed / 256) % limit - (low or 0)
  end
  return t
end

-- Values in order and the 0-based positions they had; ties keep their order.
local function sorted(values, descending)
  local at = {}
  for i = 1, #values do at[i] = i end
  table.sort(at, function(i, j)
    local a, b = values[i], values[j]
    if a ~= b then
      if descending then return a > b end
      return a < b
    end
    return i < j
  end)
  local list = {}
  for i, k in ipairs(at) do
    list[i] = values[k]
    at[i] = k - 1
  end
  return list, at
end

describe("sort", function()
  it("is stable for every length and dtype, both ways", function()
    for _, n in ipairs { 1, 2, 16, 33, 100, 1023, 1024, 3000 } do
      local values = numbers(n, 50) -- many ties
      for _, dtype in ipairs(DTYPES) do
        for _, descending in ipairs { false, true } do
          local v, at = lt.tensor(values, dtype):sort(1, descending)
          local expected, places = sorted(values, descending)
          assert.same(expected, v:totable())
          assert.same(places, at:totable())
        end
      end
    end
  end)

  it("orders negative numbers, both zeros, infinities and NaN", function()
    local inf, nan = math.huge, 0 / 0
    for _, dtype in ipairs { "float32", "float64", "bfloat16", "float16" } do
      local x = lt.tensor({ 0, nan, -inf, -0.0, 2.5, inf, -1.5, nan }, dtype)
      local v, at = x:sort()
      assert.close({ -inf, -1.5, 0, 0, 2.5, inf, nan, nan }, (v:totable()), 0)
      assert.same({ 2, 6, 0, 3, 4, 5, 1, 7 }, at:totable())
      assert.same({ 1, 7, 5, 4, 0, 3, 6, 2 }, select(2, x:sort { descending = true }):totable())
    end
    local x = lt.tensor(numbers(5000, 2000, 1000), "int32")
    assert.same((sorted(x:totable())), x:sort():totable())
    assert.same({ false, false, true }, lt.tensor({ true, false, false }):sort():totable())
  end)

  it("keeps int64 beyond a double's whole numbers apart", function()
    local x = lt.tensor({ 9007199254740993LL, 9007199254740992LL, -9007199254740993LL }, "int64")
    local v, at = x:sort()
    assert.same({ 2, 1, 0 }, at:totable())
    assert.equal("9007199254740993LL", tostring(v:data()[2]))
  end)

  it("takes any dim and any strides", function()
    local x = lt.tensor(numbers(60, 1000)):reshape(3, 4, 5)
    local v, at = x:sort(2)
    local turned, places = x:transpose(2, 3):sort(3)
    assert.same(turned:transpose(2, 3):totable(), v:totable())
    assert.same(places:transpose(2, 3):totable(), at:totable())
    assert.same(v:totable(), x:gather(2, at):totable())
  end)

  it("says what does not fit", function()
    fails("sort: dim 3; legal are 1 to 2, or -2 to -1 from the end", lt.sort, lt.zeros(2, 2), 3)
    fails("sort: dim -1; the tensor is a number and has no dims", lt.sort, lt.tensor(1))
  end)
end)

describe("topk", function()
  it("gives the first of the order, for small and large k", function()
    for _, n in ipairs { 5, 40, 2000 } do
      local values = numbers(n, 300, 150)
      for _, k in ipairs { 0, 1, math.floor(n / 10), n } do
        for _, largest in ipairs { true, false } do
          local expected, places = sorted(values, largest)
          local v, at = lt.tensor(values):topk(k, -1, largest)
          assert.same({ unpack(expected, 1, k) }, v:totable())
          assert.same({ unpack(places, 1, k) }, at:totable())
        end
      end
    end
  end)

  it("of equal values takes the first, NaN before all", function()
    local x = lt.full({ 100 }, 7)
    assert.same({ 0, 1, 2 }, select(2, x:topk(3)):totable())
    x[50] = 0 / 0
    assert.same({ 49, 0 }, select(2, x:topk(2)):totable())
  end)

  it("says what does not fit", function()
    fails("topk: k is 4 and dim 2 of [2, 3] has 3 elements; k must be 0 to 3", lt.topk, lt.zeros(2, 3), 4)
    fails("topk: k is -1 and dim 1 of [2, 3] has 2 elements; k must be 0 to 2", lt.topk, lt.zeros(2, 3), -1, 1)
  end)
end)

describe("unique", function()
  it("gives values, places and counts", function()
    local values = numbers(3000, 97)
    local seen, list, counts = {}, {}, {}
    for _, v in ipairs(values) do
      if not seen[v] then list[#list + 1] = v end
      seen[v] = (seen[v] or 0) + 1
    end
    table.sort(list)
    for i, v in ipairs(list) do counts[i] = seen[v] end
    for _, dtype in ipairs(DTYPES) do
      local x = lt.tensor(values, dtype):reshape(30, 100)
      local u, inverse, n = x:unique()
      assert.same(list, u:totable())
      assert.same(counts, n:totable())
      assert.same({ 30, 100 }, inverse.shape)
      assert.is_true(u:index_select(1, inverse:flatten()):eq(x:flatten()):all():item())
    end
    assert.equal(2, lt.tensor({ 0 / 0, 1, 0 / 0 }):unique():numel()) -- all NaN are one value
    assert.equal(1, lt.tensor({ 0, -0.0 }):unique():numel())
  end)
end)

describe("searchsorted", function()
  it("counts what comes before, on either side of ties", function()
    local edges = numbers(200, 100)
    table.sort(edges)
    local values = numbers(300, 110, 5)
    local left, right = {}, {}
    for i, v in ipairs(values) do
      left[i], right[i] = 0, 0
      for _, e in ipairs(edges) do
        if e < v then left[i] = left[i] + 1 end
        if e <= v then right[i] = right[i] + 1 end
      end
    end
    for _, dtype in ipairs { "float32", "float64", "int64", "int32", "float16" } do
      assert.same(left, lt.searchsorted(lt.tensor(edges, dtype), lt.tensor(values, dtype)):totable())
      assert.same(right, lt.searchsorted(lt.tensor(edges, dtype), lt.tensor(values), true):totable())
    end
    local lines = lt.tensor { { 1, 2, 3 }, { 10, 20, 30 } }
    assert.same({ { 1, 3 }, { 0, 3 } }, lt.searchsorted(lines, lt.tensor { { 1.5, 9 }, { 1.5, 99 } }):totable())
    assert.equal(2, lt.searchsorted(lt.tensor({ 1, 2, 3 }, "int64"), 2.5):item())
  end)

  it("says what does not fit", function()
    fails("searchsorted: sorted is [2, 3] and values [3]; sorted must be one line, or both must agree in all dims but "
      .. "the last",
      lt.searchsorted, lt.zeros(2, 3), lt.zeros(3))
    fails("searchsorted: sorted is a number; it must have at least one dim", lt.searchsorted, lt.tensor(1), lt.zeros(3))
  end)
end)
