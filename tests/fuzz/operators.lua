--- Random calls of every operator with fitting, odd and absurd arguments: none may crash or hang, and each error is a text
--- that names the operator and this file's line. Meant for the sanitizer build; the seed makes a run repeatable.
--- Usage: ltrain tests/fuzz/operators.lua [seed = 1] [calls = 20000]
local lt = require "ltrain"
local op = require "ltrain.op"

local seed, calls = tonumber(arg[1] or 1), tonumber(arg[2] or 20000)
math.randomseed(seed)
lt.manual_seed(seed)
lt.memory_limit(64 * 2 ^ 20) -- absurd sizes are refused, not filled
local random = math.random
local function pick(list) return list[random(#list)] end
local function chance(n) return random(n) == 1 end

local DTYPES = { "float32", "float64", "bfloat16", "float16", "int64", "int32", "uint8", "bool" }
local SIZES = { 0, 1, 1, 2, 2, 3, 4, 5, 17 }
local NUMBERS = { 0, 1, -1, 2, 0.5, 1e-5, 0 / 0, 1 / 0, -1 / 0, 2 ^ 31, 2 ^ 53, -2 ^ 53, 1e300, 9223372036854775807LL }
local WHOLE = { 0, 1, 2, 3, -1, -2, 8, 9, -100, 2 ^ 31, 2 ^ 53, -2 ^ 53, 1.5, 0 / 0, 1 / 0, 2LL }
local JUNK = { "x", {}, true, print, { 1, 2 }, { a = 1 }, { "s" }, { { 1 } }, io.stdout, 3LL, { nil, 2 }, { 0 / 0 }, { -1 } }

local function shape()
  local s = {}
  for d = 1, pick { 0, 1, 1, 2, 2, 3, 4, 8 } do s[d] = d > 4 and pick { 1, 1, 2 } or pick(SIZES) end
  return s
end

local function fresh(dtype, s)
  s = s or shape()
  if dtype == "bool" then return lt.randn(s):gt(0) end
  if dtype:find "float" then return chance(4) and lt.full(s, pick { 0, -1, 0 / 0, 1 / 0, 1e30, 255 }, dtype) or lt.randn(s):to(dtype) end
  return lt.randint(dtype == "uint8" and 0 or -3, 6, s):to(dtype)
end

-- A random view, where one is possible.
local function viewed(t)
  local n = t:dim()
  local kind = random(5)
  if kind == 1 and n >= 2 then return t:transpose(random(n), random(n)) end
  if kind == 2 and n >= 1 and t:size(1) > 1 then return t:slice(1, random(t:size(1)), -1, random(2)) end
  if kind == 3 and n < 8 then return t:unsqueeze(random(n + 1)):expand_as(lt.zeros(t:unsqueeze(1).shape):reshape(t:unsqueeze(random(n + 1)).shape)) end
  return t
end

local function tensor(like)
  local dtype = pick(DTYPES)
  if like and not chance(3) then return fresh(chance(2) and like.dtype or dtype, like.shape) end
  local t = fresh(dtype)
  local ok, view = pcall(viewed, t)
  return ok and view or t
end

local function argument(a, first)
  if chance(25) then return pick(JUNK) end
  local kind = a.kind
  if a.has_default and chance(2) then return nil end
  if kind == "tensor" or kind == "tensor?" then
    if a.name == "ids" or a.name == "rows" then return fresh(pick { "int64", "int32" }, first and chance(2) and first.shape or nil) end
    return tensor(first)
  elseif kind == "operand" then return chance(3) and pick(NUMBERS) or tensor(first)
  elseif kind == "tensors" then return { tensor(first), tensor(first) }
  elseif kind == "number" then return pick(NUMBERS)
  elseif kind == "bool" then return chance(2)
  elseif kind == "dtype" then return pick(DTYPES)
  elseif kind == "dims" or kind == "ints" then
    local list = {}
    for i = 1, random(4) - 1 do list[i] = chance(8) and pick(WHOLE) or random(4) end
    return list
  elseif a.names then return pick(a.names) end
  return chance(5) and pick(WHOLE) or random(3)
end

local public, wrong, raised = {}, 0, 0
for _, spec in ipairs(op.specs) do
  if op.is_public(spec) then public[#public + 1] = spec end
end
for call = 1, calls do
  local spec = pick(public)
  local args, first = {}, nil
  for i, a in ipairs(spec.args) do
    args[i] = argument(a, first)
    if lt.is_tensor(args[i]) then first = first or args[i] end
  end
  local ok, message = pcall(function()
    local result = lt[spec.name](unpack(args, 1, #spec.args))
    if lt.is_tensor(result) and result:numel() < 1000 then tostring(result) end
  end)
  if not ok then
    raised = raised + 1
    local text = type(message) == "string" and message or ""
    if not text:find(spec.name, 1, true) or not text:find("operators.lua:%d+: ") then
      wrong = wrong + 1
      print(("call %d, %s: the error is %s"):format(call, spec.name, tostring(message)))
    end
  end
  if call % 500 == 0 then collectgarbage() end
end
print(("%d calls of %d operators, seed %d: %d refused, %d of them wrongly"):format(calls, #public, seed, raised, wrong))
os.exit(wrong == 0 and 0 or 1)
