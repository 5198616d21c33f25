--- Our matrix products beside oneDNN's, with b as it lies and with b packed beforehand (packing not counted), on all
--- threads: GFLOP/s, median, and our rate over the faster of the two. Shapes are those of a DeepFM with three layers of
--- 400 (39 fields of 10), an MLP on 28 x 28 images, attention-sized squares and thin products.
--- Usage: ltrain scripts/bench_gemm.lua [seconds a measurement = 0.3] [float32|bfloat16]
local bridge = require "ltrain.ffi"
local ffi = require "ffi"
local C = bridge.C

local seconds = tonumber(arg[1]) or 0.3
local dtype = arg[2] == "bfloat16" and C.LT_BFLOAT16 or C.LT_FLOAT32

-- name, m, n, k, is a transposed, is b transposed
local SHAPES = {
  { "forward", 1024, 400, 390, false, true }, { "forward", 1024, 400, 400, false, true },
  { "forward", 4096, 400, 390, false, true }, { "forward", 4096, 400, 400, false, true },
  { "data gradient", 1024, 390, 400, false, false }, { "data gradient", 1024, 400, 400, false, false },
  { "data gradient", 4096, 390, 400, false, false }, { "data gradient", 4096, 400, 400, false, false },
  { "weight gradient", 400, 390, 1024, true, false }, { "weight gradient", 400, 400, 1024, true, false },
  { "weight gradient", 400, 390, 4096, true, false }, { "weight gradient", 400, 400, 4096, true, false },
  { "last layer", 4096, 1, 400, false, true }, { "last, data", 4096, 400, 1, false, false },
  { "last, weight", 1, 400, 4096, true, false },
  { "image, forward", 128, 512, 784, false, true }, { "image, weight", 512, 784, 128, true, false },
  { "image, head", 128, 10, 512, false, true },
  { "square", 64, 64, 64, false, false }, { "square", 256, 768, 768, false, true },
  { "square", 1024, 1024, 1024, false, false }, { "square", 2048, 2048, 2048, false, false },
  { "one row", 1, 768, 768, false, true },
}

local rate = ffi.new "double[1]"
local function measure(how, shape)
  bridge.check(C.lt_gemm_rate(how, dtype, shape[2], shape[3], shape[4], shape[5], shape[6], seconds, rate))
  return rate[0] * 1e-9
end

print(("%-16s %5s %5s %5s %9s %9s %9s %7s"):format("product", "m", "n", "k", "ours", "oneDNN", "packed", "share"))
for _, shape in ipairs(SHAPES) do
  local ours = measure(C.LT_RATE_OURS, shape)
  local plain, packed = measure(C.LT_RATE_ONEDNN, shape), measure(C.LT_RATE_ONEDNN_PACKED, shape)
  ours = (ours + measure(C.LT_RATE_OURS, shape)) / 2 -- before and after, as other work comes and goes
  print(("%-16s %5d %5d %5d %9.1f %9.1f %9.1f %7.3f"):format(
    shape[1], shape[2], shape[3], shape[4], ours, plain, packed, ours / math.max(plain, packed)))
end
