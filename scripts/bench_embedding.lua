--- Times the embedding side of a click model's step, phase by phase: look-up with linear sum and FM term, distinct rows
--- with sums of their gradients, lazy and exact Adam on the table, dense Adam on an MLP's weights.
---   ltrain scripts/bench_embedding.lua [batch = 4096] [steps = 60]
--- The work is that of bench_deepfm: 39 features (13 of 100 values, 26 of 76,871), dim 10 + 1, ids floor(size^u) - 1.
local ffi = require "ffi"
local lt = require "ltrain"
local bridge = require "ltrain.ffi"
local C, check = bridge.C, bridge.check

local batch, steps = tonumber(arg and arg[1]) or 4096, tonumber(arg and arg[2]) or 60
local FIELDS, DIM, BATCHES, DENSE = 39, 10, 20, 390 * 400 + 2 * 400 * 400 + 4 * 400 + 1

local sizes, offsets, rows = {}, {}, 0
for f = 1, FIELDS do
  sizes[f], offsets[f] = f <= 13 and 100 or 76871, rows
  rows = rows + sizes[f]
end

math.randomseed(1)
local batches = {}
for b = 1, BATCHES do
  local ids = lt.zeros({ batch, FIELDS }, "int32"):keep()
  local p = ids:data()
  for i = 0, batch * FIELDS - 1 do
    local size = sizes[i % FIELDS + 1]
    p[i] = math.min(size - 1, math.floor(math.exp(math.random() * math.log(size + 1))) - 1)
  end
  batches[b] = ids
end

local options = ffi.new "lt_step_options"
C.lt_step_defaults(C.LT_STEP_ADAM, options)
local weight = bridge.handle()
check(C.lt_table_new(bridge.dtypes.float32, rows, DIM + 1, weight))
weight:normal_(0, 0.01)
local moments = ffi.new "lt_handle[2]"
check(C.lt_table_adopt(weight, 2, moments))
local function list(...)
  local array = ffi.new("const lt_handle *[?]", select("#", ...))
  for i = 1, select("#", ...) do array[i - 1] = (select(i, ...)) end
  return array
end
local table_states = list(moments[0], moments[1])
local dense = { lt.randn { DENSE }, lt.randn { DENSE }, lt.zeros { DENSE }, lt.zeros { DENSE } }
local offset_tensor, size_tensor = lt.tensor(offsets, "int64"), lt.tensor(sizes, "int64")
local gx, gs = lt.randn { batch, FIELDS * DIM }, lt.randn { batch }

-- the gradient of a look-up is an operator that scripts do not see: called by number
local attr, out = ffi.new("lt_attr", { i = { 1, 1, -1, rows } }), ffi.new "lt_handle[2]"
local backward = C.lt_op_find "field_embedding_backward"

local phases = { "look-up, linear, FM", "distinct rows, sums", "lazy Adam", "exact Adam", "dense Adam" }
local times, distinct = { {}, {}, {}, {}, {} }, 0
local function timed(phase, fn, ...)
  local start = C.lt_clock()
  fn(...)
  table.insert(times[phase], C.lt_clock() - start)
end

for step = 1, steps do
  lt.scope(function()
    local ids = batches[step % BATCHES + 1]
    local x, sums, _
    options.step = step
    timed(1, function()
      x, _, _, sums = lt.field_embedding(ids, weight, offset_tensor, size_tensor, true, true)
    end)
    local inputs = list(gx, gs, gs, x, sums, ids, offset_tensor, size_tensor)
    timed(2, function() check(C.lt_call(backward, inputs, 8, attr, out, 2)) end)
    local count = ffi.new "double[1]"
    check(C.lt_numel(out[0], count))
    distinct = distinct + count[0]
    timed(3, function() check(C.lt_step_lazy(options, weight, table_states, out[0], out[1])) end)
    if step <= 5 then
      timed(4, function() check(C.lt_step_exact(options, weight, table_states, out[0], out[1])) end)
    end
    C.lt_release(out[0])
    C.lt_release(out[1])
    local params, grads, states = list(dense[1]), list(dense[2]), list(dense[3], dense[4])
    timed(5, function() check(C.lt_step(options, params, grads, states, nil, 1)) end)
  end)
end

print(("batch %d, %d rows of %d values, %.0f distinct rows a batch, %d threads"):format(batch, rows, DIM + 1,
  distinct / steps, C.lt_threads()))
for phase, name in ipairs(phases) do
  local t = times[phase]
  table.sort(t)
  print(("%-22s best %8.3f ms, median %8.3f ms"):format(name, t[1] * 1e3, t[math.ceil(#t / 2)] * 1e3))
end
