--- Training speed of DeepFM on synthetic clicks: 39 fields, 2,000,000 values, dim 10, MLP 3 x 400, float32, lazy Adam, data
--- through the real pipeline from memory. Prints rows/s, the time by operator, and gemm_share: rows/s times 2.86 MFLOP over
--- the rate of the fastest oneDNN product (plain or packed) of each shape, measured before and after each of five rounds.
--- With --csv a row follows that is fed from a gzipped CSV file (scripts/bench_csv.lua), judged by CPU-seconds.
--- Usage: ltrain scripts/bench_deepfm.lua [--batch 4096] [--seconds 15] [--update lazy|exact] [--rows 400000] [--profile] [--csv]
local ffi = require "ffi"
local lt = require "ltrain"
local C = ffi.C

local options = { batch = 4096, seconds = 15, update = "lazy", rows = 400000, profile = false, csv = false }
do
  local i = 1
  while arg[i] do
    local name = arg[i]:match "^%-%-(%w+)$"
    if name == "profile" or name == "csv" then options[name] = true
    elseif name and options[name] ~= nil then
      i = i + 1
      options[name] = tonumber(arg[i]) or arg[i]
    else
      error("usage: ltrain scripts/bench_deepfm.lua [--batch N] [--seconds S] [--update lazy|exact] [--rows N] [--profile] [--csv]", 0)
    end
    i = i + 1
  end
end

local FIELDS, DIM, HIDDEN = 39, 10, { 400, 400, 400 }

-- The products of one step as m, n, k and which operand lies transposed: forward, backward data, backward weights of each layer (the last, of one column, is
-- left out, as in the 2.86 MFLOP a row).
local function products(batch)
  local list, size, flop = {}, FIELDS * DIM, 0
  for _, n in ipairs(HIDDEN) do
    list[#list + 1] = { batch, n, size, false, true } -- x W^T
    list[#list + 1] = { batch, size, n, false, false } -- g W
    list[#list + 1] = { n, size, batch, true, false } -- g^T x
    flop = flop + 3 * 2 * size * n
    size = n
  end
  return list, flop
end

-- Seconds that the products of one step take at the best rate of each shape.
local function product_seconds(batch)
  local best, seconds = {}, 0
  local rate = ffi.new "double[1]"
  for _, p in ipairs(products(batch)) do
    local key = ("%dx%dx%d %s %s"):format(p[1], p[2], p[3], tostring(p[4]), tostring(p[5]))
    if not best[key] then
      best[key] = 0
      for _, how in ipairs { C.LT_RATE_ONEDNN, C.LT_RATE_ONEDNN_PACKED } do
        assert(C.lt_gemm_rate(how, C.LT_FLOAT32, p[1], p[2], p[3], p[4], p[5], 0.08, rate) >= 0, ffi.string(C.lt_last_error()))
        best[key] = math.max(best[key], rate[0])
      end
    end
    seconds = seconds + 2 * p[1] * p[2] * p[3] / best[key]
  end
  return seconds
end

local batch = options.batch
local data = lt.data.synthetic_clicks { rows = options.rows, fields = FIELDS, values = 2000000, seed = 1 }
lt.manual_seed(1)
local model = require "ltrain.models.deepfm" { features = data:features(), dim = DIM, hidden = HIDDEN, update = options.update }
local optimizer = lt.optim.Adam(model, { lr = 1e-3 })
local train = data:shuffle(true, { seed = 1 }):batch(batch, { drop_last = true }):prefetch()

local spent = { forward = 0, backward = 0, optimizer = 0, input = 0 }
local epoch, last_loss, steady_from = 0, 0, nil
local function run(seconds)
  local rows, start, steps = 0, lt.clock(), 0
  while true do
    epoch = epoch + 1
    train:set_epoch(epoch)
    local before = lt.clock()
    for part in train:iter() do
      local t0 = lt.clock()
      local loss = lt.bce_with_logits(model(part), part.label)
      local t1 = lt.clock()
      optimizer:zero_grad()
      loss:backward()
      local t2 = lt.clock()
      optimizer:step()
      local t3 = lt.clock()
      last_loss = loss:item()
      spent.input, spent.forward = spent.input + t0 - before, spent.forward + t1 - t0
      spent.backward, spent.optimizer = spent.backward + t2 - t1, spent.optimizer + t3 - t2
      rows, steps = rows + part.size, steps + 1
      if steps == 5 then steady_from = lt.memory().system_allocations end -- a loop left early keeps its last step for a while
      before = lt.clock()
      if before - start > seconds then return rows / (before - start) end
    end
  end
end

print(("batch %d, %d threads, %s update, %s"):format(batch, lt.threads(), options.update, ffi.string(C.lt_version())))
-- Training and the products' rate are measured in turns: a machine that others share changes its speed within seconds.
local ROUNDS = 5
run(math.min(2, options.seconds / 3)) -- warm-up: allocator, traces
for name in pairs(spent) do spent[name] = 0 end
if options.profile then C.lt_profile(true) end
local _, flop = products(batch)
local rates, gflops, shares, allocations = {}, {}, {}, 0
local before = product_seconds(batch)
for round = 1, ROUNDS do
  rates[round] = run(options.seconds / ROUNDS)
  allocations = allocations + lt.memory().system_allocations - steady_from
  local after = product_seconds(batch)
  gflops[round] = batch * flop / ((before + after) / 2) / 1e9
  shares[round] = rates[round] * (before + after) / 2 / batch
  before = after
end
C.lt_profile(false)

local function median(list)
  table.sort(list)
  return list[math.floor(#list / 2) + 1], list[1], list[#list]
end
print(("median of %d rounds (lowest to highest); loss %.4f after %d epochs of %d rows"):format(ROUNDS, last_loss, epoch, options.rows))
print(("rows/s      %.0f (%.0f to %.0f)"):format(median(rates)))
print(("products    %.0f GFLOP/s (%.0f to %.0f) by the faster of plain and packed oneDNN; %.2f MFLOP a row"):format(median(gflops), gflops[1],
  gflops[ROUNDS], flop / 1e6))
print(("gemm_share  %.3f (%.3f to %.3f)"):format(median(shares)))
local total = spent.input + spent.forward + spent.backward + spent.optimizer
print(("time        forward %.0f %%, backward %.0f %%, optimizer %.0f %%, waiting for input %.1f %%"):format(spent.forward / total * 100,
  spent.backward / total * 100, spent.optimizer / total * 100, spent.input / total * 100))
print(("system allocations in steady steps: %.0f"):format(allocations))
if options.profile then
  local rows, s, n = {}, ffi.new "double[1]", ffi.new "double[1]"
  local info, id = ffi.new "lt_op_info", 0
  while C.lt_profile_get(id, s, n) == 1 do
    C.lt_op_get(id, info)
    if n[0] > 0 then rows[#rows + 1] = { name = ffi.string(info.name), seconds = s[0], calls = n[0] } end
    id = id + 1
  end
  rows[#rows + 1] = { name = "optimizer step", seconds = spent.optimizer, calls = 0 }
  table.sort(rows, function(a, b) return a.seconds > b.seconds end)
  for i = 1, math.min(#rows, 24) do
    print(("  %-32s %5.1f %%  %8.3f ms a call"):format(rows[i].name, rows[i].seconds / total * 100, rows[i].seconds / math.max(rows[i].calls, 1) * 1e3))
  end
end
if options.csv then
  require "bench_csv"(options.rows, nil, batch)
end
