--- How a tensor prints: values in columns with one format for all, long dims elided to their ends, then shape, dtype and
--- the operator that made it.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local C = bridge.C

local EDGE, THRESHOLD = 3, 1000

local function number_format(values, is_whole)
  if is_whole then return "%.0f" end -- ids keep every digit
  local whole, biggest, smallest = true, 0, math.huge
  for _, v in ipairs(values) do
    if type(v) == "number" and v == v and math.abs(v) ~= math.huge then
      local a = math.abs(v)
      if v ~= math.floor(v) then whole = false end
      if a > biggest then biggest = a end
      if a > 0 and a < smallest then smallest = a end
    end
  end
  if whole and biggest < 1e9 then return "%.0f" end
  if biggest >= 1e5 or (smallest < 1e-4 and smallest < math.huge) then return "%.4e" end
  return "%.4f"
end

local function text_of(v, format)
  if type(v) == "boolean" then return tostring(v) end
  if type(v) == "cdata" then return (tostring(v):gsub("LL$", "")) end
  if v ~= v then return "nan" end
  if v == math.huge then return "inf" elseif v == -math.huge then return "-inf" end
  return format:format(v)
end

-- Positions shown of a dim; false stands for "...".
local function shown(n, elide)
  local list = {}
  if not elide or n <= 2 * EDGE then
    for i = 1, n do list[i] = i end
  else
    for i = 1, EDGE do list[i] = i end
    list[EDGE + 1] = false
    for i = n - EDGE + 1, n do list[#list + 1] = i end
  end
  return list
end

return function(t)
  if C.lt_check(t) < 0 then return "tensor (released at the end of its step)" end
  local shape, ndim, n = t.shape, t.ndim_, t:numel()
  local elide = n > THRESHOLD
  local p, stride = nil, t:stride()
  local float = t.dtype_ <= C.LT_FLOAT16
  if n > 0 then p = t:data() end
  local positions, values = {}, {}
  for d = 1, n > 0 and ndim or 0 do positions[d] = shown(shape[d], elide) end
  local function value(offset)
    if float then return C.lt_number_at(t.dtype_, p, offset) end
    local v = p[offset]
    if t.dtype_ == C.LT_BOOL then return v ~= 0 end
    if type(v) == "cdata" and v > -9007199254740992LL and v < 9007199254740992LL then v = tonumber(v) end
    return v
  end
  local function each(d, offset)
    if d > ndim then
      values[#values + 1] = value(offset)
      return
    end
    for _, i in ipairs(positions[d]) do
      if i then each(d + 1, offset + (i - 1) * stride[d]) end
    end
  end
  if n > 0 then each(1, 0) end
  local format, width, at = number_format(values, t.dtype_ >= C.LT_INT64), 0, 0
  for i, v in ipairs(values) do
    values[i] = text_of(v, format)
    width = math.max(width, #values[i])
  end
  local out = {}
  local function lines(d, indent)
    if d > ndim then
      at = at + 1
      return (" "):rep(width - #values[at]) .. values[at]
    end
    local parts = {}
    for _, i in ipairs(positions[d]) do
      parts[#parts + 1] = i and lines(d + 1, indent + 1) or "..."
    end
    local separator = d == ndim and ", " or (",\n" .. ("\n"):rep(ndim - d - 1) .. (" "):rep(indent + 1))
    return "[" .. table.concat(parts, separator) .. "]"
  end
  if ndim == 0 then out[1] = values[1]
  elseif n == 0 then out[1] = "[]"
  else out[1] = lines(1, 0) end
  local info = ffi.new "lt_op_info"
  local maker = ""
  if t.requires_grad then
    maker = ", requires_grad"
    if not t.is_leaf and t.op_ >= 0 and C.lt_op_get(t.op_, info) == 0 then maker = ", made by " .. ffi.string(info.name) end
  end
  out[2] = ("tensor [%s] %s%s%s"):format(table.concat(shape, ", "), t.dtype, t.device == "cpu" and "" or " on " .. t.device, maker)
  return table.concat(out, "\n")
end
