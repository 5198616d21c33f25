--- What the specs of look-ups share: numbers from a small generator, a tensor's rows of gradient, bytes for bitwise
--- checks.
local ffi = require "ffi"
local lt = require "ltrain"
local bridge = require "ltrain.ffi"
local C = bridge.C

local M = {}

---A generator of numbers in [0, 1): the minimal standard one, the same in every run.
function M.numbers(seed)
  local state = seed
  return function()
    state = state * 16807 % 2147483647
    return state / 2147483647
  end
end

---Rows and values of a table's gradient, as Lua lists; nil when there is none.
function M.grad_rows(t)
  local rows, values = bridge.handle(), bridge.handle()
  bridge.check(C.lt_grad_rows(t, rows, values))
  if rows.t_ == nil then return nil end
  return rows:totable(), values:totable(), values
end

---The bytes of a tensor in row-major order.
function M.bytes(t)
  local whole = t:contiguous()
  local size = { float32 = 4, float64 = 8, int64 = 8, int32 = 4 }
  return ffi.string(whole:data(), whole:numel() * size[t.dtype])
end

---[rows][width] of numbers between -1 and 1
function M.matrix(next_number, rows, width)
  local m = {}
  for r = 1, rows do
    m[r] = {}
    for k = 1, width do m[r][k] = next_number() * 2 - 1 end
  end
  return m
end

---A table (rows padded to cache lines) with these values.
function M.table(values, dtype)
  local out = bridge.handle()
  bridge.check(C.lt_table_new(bridge.dtypes[dtype], #values, #values[1], out))
  out:copy_(lt.tensor(values, dtype))
  return out
end

---The first result of an operator's fallback, which is made of plain operators.
---@param ints integer[] its attributes
function M.fallback(name, inputs, ints)
  local attr, out = ffi.new "lt_attr", ffi.new "lt_handle[1]"
  for i, v in ipairs(ints) do attr.i[i - 1] = v end
  attr.flags = C.LT_CALL_FALLBACK
  local array = ffi.new("const lt_handle *[?]", #inputs)
  for i, t in ipairs(inputs) do array[i - 1] = t end
  bridge.check(C.lt_call(C.lt_op_find(name), array, #inputs, attr, out, 1))
  local result = bridge.handle()
  ffi.copy(result, out, 16)
  return result
end

---Runs fn with 1, 2 and 3 threads; its results must be the same strings.
function M.same_for_threads(fn)
  local threads, first = C.lt_threads(), nil
  for n = 1, 3 do
    C.lt_set_threads(n)
    local got = fn()
    first = first or got
    if got ~= first then
      C.lt_set_threads(threads)
      error(("%d threads give other bits than one"):format(n), 2)
    end
  end
  C.lt_set_threads(threads)
end

return M
