-- The order of an epoch: a bijection for every size, another one for each seed and epoch, and without visible pattern.
local ffi = require "ffi"
local C = ffi.C
local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local scratch = dofile(here .. "scratch.lua")

local function order(n, seed, epoch)
  local out = ffi.new "lt_permutation *[1]"
  scratch.ok(C.lt_permutation_new(n, seed, epoch, out))
  local p = ffi.gc(out[0], C.lt_permutation_free)
  local values = ffi.new("int64_t[?]", n + 1)
  C.lt_permutation_fill(p, 0, n, values)
  return values, p
end

describe("permutation", function()
  it("is a bijection, by the table and beyond it", function()
    for _, n in ipairs { 0, 1, 2, 3, 10, 65535, 65536, 65537, 100000, 131073, 300000 } do
      local values, seen = order(n, 3, 1), ffi.new("uint8_t[?]", n + 1)
      for i = 0, n - 1 do
        if values[i] < 0 or values[i] >= n or seen[values[i]] == 1 then error(("n = %d, position %d"):format(n, i)) end
        seen[values[i]] = 1
      end
    end
  end)

  it("is reached at any position", function()
    for _, n in ipairs { 1000, 200000 } do
      local values, p = order(n, 5, 9)
      for _, i in ipairs { 0, 1, 17, n - 1 } do
        assert.is_true(C.lt_permutation_at(p, i) == values[i])
      end
      assert.equal(("permutation: position %d of %d"):format(n, n), scratch.failure(C.lt_permutation_at(p, n)))
    end
  end)

  it("depends on seed and epoch", function()
    for _, n in ipairs { 5000, 100000 } do
      local a = order(n, 1, 0)
      for _, other in ipairs { { 2, 0 }, { 1, 1 }, { 0, 1 }, { -1, 0 } } do
        local b, same = order(n, other[1], other[2]), 0
        for i = 0, n - 1 do if a[i] == b[i] then same = same + 1 end end
        assert.is_true(same < 12, same) -- 1 expected
      end
      local again = order(n, 1, 0)
      assert.equal(ffi.string(a, 8 * n), ffi.string(again, 8 * n))
    end
  end)

  it("spreads like chance: neighbours, places, fixed points", function()
    for _, n in ipairs { 60000, 100000 } do
      local values = order(n, 11, 4)
      local sum, cells, down = 0, ffi.new "double[256]", 0
      for i = 0, n - 1 do
        local x = tonumber(values[i])
        sum = sum + (x / n - 0.5) * (i / n - 0.5)
        local cell = math.floor(i * 16 / n) * 16 + math.floor(x * 16 / n)
        cells[cell] = cells[cell] + 1
        if i > 0 and values[i] < values[i - 1] then down = down + 1 end
      end
      local chi = 0
      for i = 0, 255 do chi = chi + (cells[i] - n / 256) ^ 2 / (n / 256) end
      assert.is_true(math.abs(sum / n * 12) < 4 / math.sqrt(n), "correlation of place and value")
      assert.is_true(chi > 140 and chi < 320, "chi square with 225 degrees: " .. chi) -- 4.5 deviations of 21
      assert.is_true(math.abs(down / n - 0.5) < 4 * math.sqrt(1 / 12 / n), "descents")
    end
  end)

  it("gives every order of three rows equally often", function()
    local count = {}
    for epoch = 1, 6000 do
      local v = order(3, 42, epoch)
      local key = ("%d%d%d"):format(tonumber(v[0]), tonumber(v[1]), tonumber(v[2]))
      count[key] = (count[key] or 0) + 1
    end
    for _, key in ipairs { "012", "021", "102", "120", "201", "210" } do
      assert.is_true(math.abs(count[key] - 1000) < 130, key .. ": " .. count[key]) -- 4.5 deviations of 29
    end
  end)
end)
