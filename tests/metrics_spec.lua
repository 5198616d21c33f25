-- Metrics against scikit-learn's recorded values, against pairs counted one by one, and across merges.
local ffi = require "ffi"
local C = ffi.C
local scratch = dofile((debug.getinfo(1, "S").source:match("^@(.*/)") or "./") .. "data/scratch.lua")
local ok, failure = scratch.ok, scratch.failure

local F32, F64, BF16, F16, I64, I32, U8, BOOL = 0, 1, 2, 3, 4, 5, 6, 7

local function near(expected, actual, tolerance)
  local close = math.abs(expected - actual) <= (tolerance or 1e-12) -- false for nan
  if not close then
    error(("%.17g is not %.17g within %g"):format(actual, expected, tolerance or 1e-12), 2)
  end
end

local function lehmer(seed)
  return function()
    seed = seed * 16807 % 2147483647
    return seed / 2147483647
  end
end

-- The rows of tests/golden/record_formats.py.
local function rows_of(n, seed, steps)
  local draw = lehmer(seed)
  local r = { n = n, logits = ffi.new("double[?]", n), labels = ffi.new("float[?]", n) }
  r.weights = ffi.new("double[?]", n)
  for i = 0, n - 1 do
    local u, v, w = draw(), draw(), draw()
    r.logits[i] = math.floor(u * steps) / steps * 8 - 4
    r.labels[i] = v < 0.2 + 0.1 * u and 1 or 0
    r.weights[i] = math.floor(w * 9) / 8
  end
  return r
end

local function exact(scores, labels, weights, n, score_dtype, label_dtype)
  local out = ffi.new "lt_auc_value"
  ok(C.lt_auc_exact(scores, score_dtype or F64, labels, label_dtype or F32, weights, F64, n, out))
  return out
end

local function value(fn, state)
  local out = ffi.new "double[1]"
  return fn(state, out) and out[0] or nil
end

local function update(state, r, weights, first, n)
  first = first or 0
  ok(C.lt_binary_update(state, r.logits + first, F64, r.labels + first, F32, weights and weights + first or nil, F64,
    n or r.n))
end

local golden = scratch.golden("formats.json").metrics

describe("scikit-learn's value", function()
  for _, case in ipairs(golden) do
    local name = (" of %d rows on a grid of %d"):format(case.n, case.steps)
    local r = rows_of(case.n, case.seed, case.steps)

    it("is our AUC's" .. name, function()
      near(case.auc, exact(r.logits, r.labels, nil, r.n).auc)
      near(case.weighted_auc, exact(r.logits, r.labels, r.weights, r.n).auc)
      local single = ffi.new("float[?]", r.n)
      for i = 0, r.n - 1 do single[i] = r.logits[i] end
      near(case.float32_auc, exact(single, r.labels, nil, r.n, F32).auc)
    end)

    it("is our logloss's, accuracy's, calibration's and entropy's" .. name, function()
      local plain, weighted = ffi.new "lt_binary_metrics", ffi.new "lt_binary_metrics"
      update(plain, r)
      update(weighted, r, r.weights)
      near(case.logloss, value(C.lt_binary_logloss, plain))
      near(case.weighted_logloss, value(C.lt_binary_logloss, weighted))
      near(case.accuracy, value(C.lt_binary_accuracy, plain))
      near(case.weighted_accuracy, value(C.lt_binary_accuracy, weighted))
      near(case.calibration, value(C.lt_binary_calibration, plain))
      near(case.normalized_entropy, value(C.lt_binary_entropy, plain))
    end)
  end
end)

describe("grouped AUC", function()
  local function run(r, groups, dtype)
    local out = ffi.new "lt_auc_group_value"
    return C.lt_auc_grouped(r.logits, F64, r.labels, F32, groups, dtype, r.n, out), out
  end

  it("is scikit-learn's mean over groups, weighted by rows", function()
    for _, case in ipairs(golden) do
      local r = rows_of(case.n, case.seed, case.steps)
      local groups = ffi.new("int64_t[?]", r.n)
      for i = 0, r.n - 1 do groups[i] = i * 7919 % 37 - 18 end
      local status, out = run(r, groups, I64)
      ok(status)
      near(case.grouped_auc, out.auc)
      assert.equal(37, tonumber(out.groups + out.skipped))
    end
  end)

  it("leaves out groups of one class, and is undefined without any other", function()
    local r = { n = 5, logits = ffi.new("double[5]", { 1, 2, 9, 3, 0 }) }
    r.labels = ffi.new("float[5]", { 0, 1, 1, 0, 1 })
    local status, out = run(r, ffi.new("int32_t[5]", { 7, 7, -1, 7, 2147483647 }), I32)
    ok(status)
    assert.equal(0.5, out.auc)
    assert.same({ 1, 2, 3 }, { tonumber(out.groups), tonumber(out.skipped), tonumber(out.rows) })
    status, out = run(r, ffi.new("int32_t[5]", { 1, 2, 3, 4, 5 }), I32)
    ok(status)
    assert.is_false(out.defined)
    assert.is_true(out.auc ~= out.auc)
    assert.equal("grouped auc: groups are float32; they must be int64 or int32 ids",
      failure(run(r, ffi.new "float[5]", F32)))
    r.logits[3] = 0 / 0
    assert.equal("grouped auc: score of row 4 is nan; the model has diverged or was fed nan",
      failure(run(r, ffi.new "int32_t[5]", I32)))
  end)
end)

describe("exact AUC", function()
  -- Every pair of a positive and a negative, one by one.
  local function by_pairs(s, y, n)
    local won, pairs_seen = 0, 0
    for i = 0, n - 1 do
      for j = 0, n - 1 do
        if y[i] == 1 and y[j] == 0 then
          pairs_seen = pairs_seen + 1
          won = won + (s[i] > s[j] and 1 or s[i] == s[j] and 0.5 or 0)
        end
      end
    end
    return won / pairs_seen
  end

  it("is the share of pairs in the right order, ties counting half", function()
    for seed = 1, 40 do
      local r = rows_of(3 + seed * 4, seed, seed % 7 + 1)
      r.labels[0], r.labels[1] = 0, 1
      assert.equal(by_pairs(r.logits, r.labels, r.n), exact(r.logits, r.labels, nil, r.n).auc)
    end
  end)

  it("orders negative, zero, tiny and infinite scores", function()
    local s = ffi.new("double[9]", { -1 / 0, -1e300, -1, -5e-324, -0.0, 0, 5e-324, 1, 1 / 0 })
    for split = 1, 8 do
      local y = ffi.new "float[9]"
      for i = split, 8 do y[i] = 1 end
      assert.equal(by_pairs(s, y, 9), exact(s, y, nil, 9).auc) -- -0 and 0 tie
    end
    assert.equal(19.5 / 20, exact(s, ffi.new("float[9]", { 0, 0, 0, 0, 0, 1, 1, 1, 1 }), nil, 9).auc)
  end)

  it("reads every type of scores and labels", function()
    local halves = { [BF16] = { 0xC000, 0x0000, 0x3F80 }, [F16] = { 0xC000, 0x0000, 0x3C00 } } -- -2 0 1
    for dtype, bits in pairs(halves) do
      local out = exact(ffi.new("uint16_t[3]", bits), ffi.new("float[3]", { 0, 1, 1 }), nil, 3, dtype)
      assert.equal(1, out.auc)
    end
    local s = ffi.new("float[3]", { 3, 1, 2 })
    for dtype, labels in pairs { [I64] = ffi.new("int64_t[3]", { 1, 0, 1 }), [I32] = ffi.new("int32_t[3]", { 1, 0, 1 }),
      [U8] = ffi.new("uint8_t[3]", { 1, 0, 1 }), [BOOL] = ffi.new("bool[3]", { true, false, true }) } do
      assert.equal(1, exact(s, labels, nil, 3, F32, dtype).auc)
    end
  end)

  it("is undefined, not a number, when a class is absent", function()
    local s, y = ffi.new("double[2]", { 1, 2 }), ffi.new("float[2]", { 1, 1 })
    for n = 0, 2 do
      local out = exact(s, y, nil, n)
      assert.is_false(out.defined)
      assert.is_true(out.auc ~= out.auc)
      assert.equal(n, tonumber(out.rows))
    end
  end)

  it("takes a weight of 2 as a row given twice, and a weight of 0 as none", function()
    local s, y, w = ffi.new "double[60]", ffi.new "float[60]", ffi.new "double[60]"
    local s2, y2, n2 = ffi.new "double[180]", ffi.new "float[180]", 0
    local draw = lehmer(5)
    for i = 0, 59 do
      s[i], y[i], w[i] = math.floor(draw() * 12), draw() < 0.4 and 1 or 0, math.floor(draw() * 4)
      for _ = 1, w[i] do
        s2[n2], y2[n2] = s[i], y[i]
        n2 = n2 + 1
      end
      if w[i] == 0 then s[i] = 0 / 0 end -- padding may be anything
    end
    assert.equal(exact(s2, y2, nil, n2).auc, exact(s, y, w, 60).auc)
  end)

  it("names the row of what it cannot take, and keeps its state", function()
    local a, out = ffi.new "lt_auc *[1]", ffi.new "lt_auc_value"
    ok(C.lt_auc_new(1e6, a))
    local s, y = ffi.new("double[3]", { 0, 1, 2 }), ffi.new("float[3]", { 0, 1, 1 })
    ok(C.lt_auc_update(a[0], s, F64, y, F32, nil, 0, 3))
    local function refused(scores, labels, weights)
      return failure(C.lt_auc_update(a[0], scores, F64, labels, F32, weights, F64, 3))
    end
    assert.equal("auc: score of row 2 is nan; the model has diverged or was fed nan",
      refused(ffi.new("double[3]", { 0, 0 / 0, 1 }), y))
    assert.equal("auc: label of row 3 is 2; labels must be 0 or 1", refused(s, ffi.new("float[3]", { 0, 1, 2 })))
    assert.equal("auc: weight of row 1 is -1; weights must be finite and not negative",
      refused(s, y, ffi.new("double[3]", { -1, 1, 1 })))
    assert.equal("auc: weight of row 2 is inf; weights must be finite and not negative",
      refused(s, y, ffi.new("double[3]", { 1, 1 / 0, 1 })))
    assert.equal("auc: scores are int64; they must be floats",
      failure(C.lt_auc_update(a[0], s, I64, y, F32, nil, 0, 3)))
    ok(C.lt_auc_result(a[0], out))
    assert.equal(3, tonumber(out.rows))
    assert.equal(1, out.auc)
    C.lt_auc_free(a[0])
  end)
end)

describe("the AUC state", function()
  local function new(budget)
    local a = ffi.new "lt_auc *[1]"
    ok(C.lt_auc_new(budget, a))
    return ffi.gc(a[0], C.lt_auc_free)
  end
  local function add(a, r, first, n, weights)
    ok(C.lt_auc_update(a, r.logits + first, F64, r.labels + first, F32, weights and weights + first or nil, F64, n))
  end
  local function result(a)
    local out = ffi.new "lt_auc_value"
    ok(C.lt_auc_result(a, out))
    return out
  end
  local r = rows_of(20000, 12, 100)

  it("is the same in pieces, merged and packed, bit for bit, with weights too", function()
    for _, weights in ipairs { false, r.weights } do
      local whole = new(1e9)
      add(whole, r, 0, r.n, weights)
      local expected = result(whole)
      local parts = {}
      for k = 1, 4 do
        parts[k] = new(1e9)
        for piece = 0, 4 do add(parts[k], r, (k - 1) * 5000 + piece * 1000, 1000, weights) end
      end
      result(parts[2]) -- a value in between does no harm
      ok(C.lt_auc_merge(parts[3], parts[1]))
      ok(C.lt_auc_merge(parts[3], parts[4]))
      local bytes = C.lt_auc_packed_bytes(parts[2])
      local packed = ffi.new("char[?]", bytes)
      C.lt_auc_pack(parts[2], packed)
      ok(C.lt_auc_merge_packed(parts[3], packed, bytes))
      local out = result(parts[3])
      assert.equal(expected.auc, out.auc)
      assert.equal(tonumber(expected.rows), tonumber(out.rows))
      assert.is_true(out.exact)
      assert.equal(0, out.bound)
    end
  end)

  it("turns into a histogram beyond its budget and says so", function()
    local small, whole = new(16 * 10000), new(1e9)
    for k = 0, 3 do add(small, r, k * 5000, 5000) end
    add(whole, r, 0, r.n)
    local out, expected = result(small), result(whole)
    assert.is_false(out.exact)
    assert.is_true(out.bound > 0)
    near(expected.auc, out.auc, out.bound)
    assert.equal(20000, tonumber(out.rows))
    -- and stays mergeable with exact states, either way round, also packed
    local bytes = C.lt_auc_packed_bytes(small)
    local packed = ffi.new("char[?]", bytes)
    C.lt_auc_pack(small, packed)
    local other = new(1e9)
    add(other, r, 0, 5000)
    ok(C.lt_auc_merge_packed(other, packed, bytes))
    assert.equal(25000, tonumber(result(other).rows))
    assert.is_false(result(other).exact)
    ok(C.lt_auc_merge(small, whole))
    assert.equal(40000, tonumber(result(small).rows))
    C.lt_auc_reset(small)
    assert.equal(0, tonumber(result(small).rows))
    assert.is_true(result(small).exact)
  end)

  it("refuses packed bytes that are none", function()
    local a, b = new(1e6), new(1e6)
    add(a, r, 0, 10)
    local bytes = C.lt_auc_packed_bytes(a)
    local packed = ffi.new("char[?]", bytes + 8)
    C.lt_auc_pack(a, packed)
    assert.equal("auc: the packed state of 128 bytes is cut short or too long",
      failure(C.lt_auc_merge_packed(b, packed, bytes + 8)))
    assert.equal("auc: the packed state of 112 bytes is cut short or too long",
      failure(C.lt_auc_merge_packed(b, packed, bytes - 8)))
    assert.equal("auc: 3 bytes that are no packed state", failure(C.lt_auc_merge_packed(b, packed, 3)))
    ffi.fill(packed + 40, 8, 255)
    assert.equal("auc: the packed state is damaged: row 1 is no score and weight",
      failure(C.lt_auc_merge_packed(b, packed, bytes)))
    assert.equal(0, tonumber(result(b).rows))
  end)
end)

describe("the AUC histogram", function()
  it("is within its bound of the exact value", function()
    for _, case in ipairs(golden) do
      local r = rows_of(case.n, case.seed, case.steps)
      for _, weights in ipairs { false, r.weights } do
        local h, out = ffi.new "lt_auc_histogram", ffi.new "lt_auc_value"
        ok(C.lt_auc_histogram_update(h, r.logits, F64, r.labels, F32, weights or nil, F64, r.n))
        C.lt_auc_histogram_value(h, out)
        near(weights and case.weighted_auc or case.auc, out.auc, out.bound + 1e-12)
        -- no finer than the grid of the scores, it sees no tie that is not one
        if case.steps <= 100 then near(weights and case.weighted_auc or case.auc, out.auc) end
      end
    end
  end)

  it("saturates at its ends and bins between them", function()
    local h, out = ffi.new "lt_auc_histogram", ffi.new "lt_auc_value"
    local s = ffi.new("double[6]", { -1 / 0, -16.5, -16, 15.9999, 16, 1 / 0 })
    ok(C.lt_auc_histogram_update(h, s, F64, ffi.new("float[6]", { 0, 1, 0, 1, 0, 1 }), F32, nil, 0, 6))
    assert.equal(2, h.side[0][0])
    assert.equal(1, h.side[1][0])
    assert.equal(2, h.side[1][65535])
    assert.equal(1, h.side[0][65535])
    C.lt_auc_histogram_value(h, out)
    near((2 / 2 + 2 * 2 + 2 / 2) / 9, out.auc)
    near((2 / 2 + 2 / 2) / 9, out.bound)
  end)

  it("merges by addition", function()
    local r = rows_of(1000, 3, 50)
    local a, b, whole = ffi.new "lt_auc_histogram", ffi.new "lt_auc_histogram", ffi.new "lt_auc_histogram"
    ok(C.lt_auc_histogram_update(a, r.logits, F64, r.labels, F32, nil, 0, 300))
    ok(C.lt_auc_histogram_update(b, r.logits + 300, F64, r.labels + 300, F32, nil, 0, 700))
    ok(C.lt_auc_histogram_update(whole, r.logits, F64, r.labels, F32, nil, 0, 1000))
    C.lt_auc_histogram_merge(a, b)
    assert.equal(ffi.string(whole, ffi.sizeof(whole)), ffi.string(a, ffi.sizeof(a)))
  end)

  it("is undefined for one class and keeps its state when a row is refused", function()
    local h, out = ffi.new "lt_auc_histogram", ffi.new "lt_auc_value"
    local s = ffi.new("double[2]", { 1, 0 / 0 })
    assert.equal("auc: logit of row 2 is nan; the model has diverged or was fed nan",
      failure(C.lt_auc_histogram_update(h, s, F64, ffi.new "float[2]", F32, nil, 0, 2)))
    C.lt_auc_histogram_value(h, out)
    assert.equal(0, out.negative)
    assert.is_false(out.defined)
    assert.is_true(out.auc ~= out.auc)
  end)
end)

describe("binary metrics", function()
  it("stay finite and exact where the sigmoid saturates", function()
    local m = ffi.new "lt_binary_metrics"
    local logits = ffi.new("float[4]", { 1000, -1000, 40, -40 })
    ok(C.lt_binary_update(m, logits, F32, ffi.new("float[4]", { 0, 1, 1, 0 }), F32, nil, 0, 4))
    near((1000 + 1000 + 2 * 4.248354255291589e-18) / 4, value(C.lt_binary_logloss, m))
    local one = ffi.new "lt_binary_metrics"
    ok(C.lt_binary_update(one, logits + 2, F32, ffi.new("float[1]", 1), F32, nil, 0, 1))
    near(4.248354255291589e-18, value(C.lt_binary_logloss, one), 1e-30)
  end)

  it("take infinite logits: certain and right costs nothing, certain and wrong everything", function()
    local m = ffi.new "lt_binary_metrics"
    local logits = ffi.new("double[2]", { 1 / 0, -1 / 0 })
    ok(C.lt_binary_update(m, logits, F64, ffi.new("float[2]", { 1, 0 }), F32, nil, 0, 2))
    assert.equal(0, value(C.lt_binary_logloss, m))
    assert.equal(1, value(C.lt_binary_calibration, m))
    ok(C.lt_binary_update(m, logits, F64, ffi.new("float[2]", { 0, 0 }), F32, nil, 0, 2))
    assert.equal(math.huge, value(C.lt_binary_logloss, m))
  end)

  it("take soft labels", function()
    local m = ffi.new "lt_binary_metrics"
    ok(C.lt_binary_update(m, ffi.new("double[1]", 2), F64, ffi.new("float[1]", 0.25), F32, nil, 0, 1))
    near(0.25 * math.log(1 + math.exp(-2)) + 0.75 * math.log(1 + math.exp(2)), value(C.lt_binary_logloss, m))
  end)

  it("hardly depend on the order of rows and of merges", function()
    local r = rows_of(20000, 13, 1000000)
    local whole, merged = ffi.new "lt_binary_metrics", ffi.new "lt_binary_metrics"
    update(whole, r)
    for k = 7, 0, -1 do
      local part = ffi.new "lt_binary_metrics"
      update(part, r, nil, k * 2500, 2500)
      C.lt_binary_merge(merged, part)
    end
    assert.equal(value(C.lt_binary_logloss, whole), value(C.lt_binary_logloss, merged))
    assert.equal(value(C.lt_binary_calibration, whole), value(C.lt_binary_calibration, merged))
    assert.equal(20000, tonumber(merged.rows))
  end)

  it("are undefined where there is nothing to divide by", function()
    local m = ffi.new "lt_binary_metrics"
    assert.is_nil(value(C.lt_binary_logloss, m))
    assert.is_nil(value(C.lt_binary_accuracy, m))
    ok(C.lt_binary_update(m, ffi.new("double[1]", 2), F64, ffi.new("float[1]", 0), F32, nil, 0, 1))
    assert.is_nil(value(C.lt_binary_calibration, m))
    assert.is_nil(value(C.lt_binary_entropy, m))
  end)

  it("name the row of what they cannot take, and keep their state", function()
    local m = ffi.new "lt_binary_metrics"
    local function refused(x, y, w)
      return failure(C.lt_binary_update(m, ffi.new("double[2]", { 1, x }), F64, ffi.new("double[2]", { 1, y }), F64,
        ffi.new("double[2]", { 1, w }), F64, 2))
    end
    assert.equal("metrics: logit of row 2 is nan; the model has diverged or was fed nan", refused(0 / 0, 1, 1))
    assert.equal("metrics: label of row 2 is 1.5; labels must be from 0 to 1", refused(1, 1.5, 1))
    assert.equal("metrics: weight of row 2 is nan; weights must be finite and not negative",
      refused(1, 1, 0 / 0))
    assert.equal(0, tonumber(m.rows))
    assert.equal(0, m.weight)
  end)
end)

describe("class accuracy", function()
  local logits = ffi.new("float[12]", { 1, 2, 0, -9, 5, 5, 1, -9, 0, 0, 3, -9 }) -- [3, 3], rows 4 apart
  local function run(m, labels, ignore, weights)
    return C.lt_class_accuracy_update(m, logits, F32, 3, 3, 4, ffi.new("int64_t[3]", labels), I64, ignore or -100,
      weights, F64)
  end

  it("counts rows whose first largest logit is their label's", function()
    local m, n = ffi.new "lt_class_accuracy", ffi.new "lt_class_accuracy"
    ok(run(m, { 1, 0, 0 }))
    near(2 / 3, value(C.lt_class_accuracy_value, m))
    ok(run(n, { 1, 1, -100 })) -- a tie goes to the first class
    near(1 / 2, value(C.lt_class_accuracy_value, n))
    C.lt_class_accuracy_merge(m, n)
    near(3 / 5, value(C.lt_class_accuracy_value, m))
    local weighted = ffi.new "lt_class_accuracy"
    ok(run(weighted, { 1, 1, 2 }, nil, ffi.new("double[3]", { 1, 2, 3 })))
    near(4 / 6, value(C.lt_class_accuracy_value, weighted))
    assert.is_nil(value(C.lt_class_accuracy_value, ffi.new "lt_class_accuracy"))
  end)

  it("names the row of what it cannot take, and keeps its state", function()
    local m = ffi.new "lt_class_accuracy"
    assert.equal("accuracy: label of row 2 is 3; classes are 0 to 2", failure(run(m, { 1, 3, 0 })))
    assert.equal("accuracy: label of row 1 is -1; classes are 0 to 2", failure(run(m, { -1, 3, 0 })))
    local bad = ffi.new("float[2]", { 1, 0 / 0 })
    assert.equal("accuracy: a logit of row 1 is nan; the model has diverged or was fed nan",
      failure(C.lt_class_accuracy_update(m, bad, F32, 1, 2, 2, ffi.new("int32_t[1]", 0), I32, -1, nil, 0)))
    assert.equal("accuracy: labels are float32; class numbers must be int64 or int32",
      failure(C.lt_class_accuracy_update(m, bad, F32, 1, 2, 2, bad, F32, -1, nil, 0)))
    assert.equal(0, tonumber(m.rows))
  end)

  it("looks through more classes than a block", function()
    local many = ffi.new("double[?]", 5000)
    many[4999], many[1024] = 2, 2
    local m = ffi.new "lt_class_accuracy"
    ok(C.lt_class_accuracy_update(m, many, F64, 1, 5000, 5000, ffi.new("int32_t[1]", 1024), I32, -1, nil, 0))
    assert.equal(1, value(C.lt_class_accuracy_value, m))
  end)
end)
