-- Every operator against results recorded by NumPy formulas: tests/golden/ops.json, described in golden/README.md.
-- An operator without a recorded case fails, unless it is listed below with the reason.
local ffi = require "ffi"
local lt = require "ltrain"
local op = require "ltrain.op"
local json = require "ltrain.json"

local HERE = debug.getinfo(1, "S").source:match "^@(.*/)" or "./"
local TOLERANCE = { float64 = 1e-12, float32 = 2e-6, float16 = 2e-3, bfloat16 = 1.6e-2 }
local WORDS = { nan = 0 / 0, inf = math.huge, ["-inf"] = -math.huge }

-- No fixed result to record: values not set, or drawn at random (their specs check distributions and repeatability).
local ELSEWHERE = {}
for name in ("empty rand uniform randn normal truncated_normal randint randperm bernoulli multinomial"):gmatch "%S+" do
  ELSEWHERE[name] = true
end

local function read_cases()
  local file = assert(io.open(HERE .. "golden/ops.json", "rb"))
  local text = file:read "*a"
  file:close()
  local by_op, names = {}, {}
  for _, case in ipairs(json.decode(text).cases) do
    if not by_op[case.op] then
      by_op[case.op] = {}
      names[#names + 1] = case.op
    end
    table.insert(by_op[case.op], case)
  end
  table.sort(names)
  return by_op, names
end

local function number(v) return WORDS[v] or v end

-- A recorded value as the call takes it: {dtype, shape, data} is a tensor, a list holds tensors.
local function value_of(v)
  if type(v) ~= "table" then return number(v) end
  if not v.dtype then
    local list = {}
    for i = 1, #v do list[i] = value_of(v[i]) end
    return list
  end
  if #v.data == 0 then return lt.zeros(v.shape, v.dtype) end
  local flat = {}
  for i = 1, #v.data do flat[i] = number(v.data[i]) end
  return lt.tensor(flat, v.dtype):reshape(v.shape)
end

local function takes_tensors(argument)
  local kind = argument.kind
  return kind == "tensor" or kind == "tensor?" or kind == "operand" or kind == "tensors"
end

-- Registered operators are called with named arguments, functions composed in Lua by position.
local function call(case)
  local run, spec, inputs = lt[case.op], op.specs[case.op], {}
  for i = 1, #case.inputs do inputs[i] = value_of(case.inputs[i]) end
  if not spec then
    if case.attributes then inputs[#inputs + 1] = case.attributes end
    return { run(unpack(inputs)) }
  end
  local named, at = {}, 0
  for _, argument in ipairs(spec.args) do
    if takes_tensors(argument) and at < #inputs then
      at = at + 1
      named[argument.name] = inputs[at]
    end
  end
  assert(at == #inputs, ("%d inputs recorded, the signature takes %d: %s"):format(#inputs, at, spec.text))
  for name, v in pairs(case.attributes or {}) do named[name] = number(v) end
  return { run(named) }
end

local function same(actual, expected, tolerance)
  if type(actual) ~= "number" or type(expected) ~= "number" or not tolerance then return actual == expected end
  if expected ~= expected then return actual ~= actual end
  if actual == expected then return true end
  return math.abs(actual - expected) <= tolerance * (1 + math.abs(expected)) and math.abs(expected) ~= math.huge
end

-- What is wrong with one result, or nil.
local function fault(actual, expected, exact)
  if actual.dtype ~= expected.dtype then return ("dtype %s, not %s"):format(actual.dtype, expected.dtype) end
  local shape, wanted = table.concat(actual.shape, ", "), table.concat(expected.shape, ", ")
  if shape ~= wanted then return ("shape [%s], not [%s]"):format(shape, wanted) end
  local flat = actual:reshape { actual:numel() }:totable()
  for i = 1, #expected.data do
    local e = number(expected.data[i])
    if not same(flat[i], e, exact and TOLERANCE[expected.dtype] and 0 or TOLERANCE[expected.dtype]) then
      return ("element %d of [%s] is %s, not %s"):format(i, shape, tostring(flat[i]), tostring(e))
    end
  end
end

local function label(case)
  local parts = {}
  for i, input in ipairs(case.inputs) do
    if type(input) ~= "table" then parts[i] = tostring(input)
    elseif not input.dtype then parts[i] = "{...}"
    else parts[i] = input.dtype .. "[" .. table.concat(input.shape, ",") .. "]" end
  end
  local text = table.concat(parts, " ") .. " " .. json.encode(case.attributes or json.array())
  return case.note and text .. " (" .. case.note .. ")" or text
end

-- Runs the cases of one operator; all faults in one message.
local function check(cases)
  local faults = {}
  for _, case in ipairs(cases) do
    local ok, results = pcall(call, case)
    local found = not ok and tostring(results):match "[^\n]*" or nil
    if ok and #results ~= #case.outputs then found = ("%d results, not %d"):format(#results, #case.outputs) end
    for k, expected in ipairs(found and {} or case.outputs) do
      local problem = fault(results[k], expected, case.exact)
      if problem then found = (#case.outputs > 1 and ("result %d: "):format(k) or "") .. problem break end
    end
    if found then faults[#faults + 1] = ("  %s: %s"):format(label(case), found) end
  end
  if #faults > 0 then
    local shown = table.concat(faults, "\n", 1, math.min(#faults, 12))
    error(("%d of %d recorded cases fail\n%s"):format(#faults, #cases, shown), 0)
  end
end

local by_op, names = read_cases()

describe("recorded results", function()
  for _, name in ipairs(names) do
    it("of " .. name, function() check(by_op[name]) end)
  end

  it("exist for every operator that scripts can call", function()
    local missing = {}
    for _, spec in ipairs(op.specs) do
      local offered = bit.band(spec.flags, tonumber(ffi.C.LT_OP_HIDDEN)) == 0
      if offered and not by_op[spec.name] and not ELSEWHERE[spec.name] then missing[#missing + 1] = spec.name end
    end
    assert(#missing == 0, "no recorded case of " .. table.concat(missing, ", ")
      .. "; add them to tests/golden/ops_*.py and run record_ops.py")
  end)
end)
