-- The reading half of ltrain.json: text to values, strict, by recursive descent over bytes. A refusal carries its place
-- and becomes line and column at the top.

local ffi = require "ffi"
local byte, sub, char, format = string.byte, string.sub, string.char, string.format
local int64 = ffi.typeof "int64_t"

local M = {}

M.max_depth = 100
M.exact = 2 ^ 53 -- integers below it are numbers, others int64 cdata
M.ArrayMark = { __name = "json.array" }
M.null = setmetatable({}, { __tostring = function() return "null" end })

-- Length of the UTF-8 character at `at`, nil if there is none.
function M.utf8_length(s, at)
  local a, b, c, d = byte(s, at, at + 3)
  if a < 0x80 then return 1 end
  local function tail(x) return x and x >= 0x80 and x < 0xC0 end
  if a >= 0xC2 and a < 0xE0 then return tail(b) and 2 or nil end
  if a >= 0xE0 and a < 0xF0 then
    if not (tail(b) and tail(c)) or (a == 0xE0 and b < 0xA0) or (a == 0xED and b > 0x9F) then return nil end
    return 3
  end
  if a >= 0xF0 and a < 0xF5 then
    if not (tail(b) and tail(c) and tail(d)) or (a == 0xF0 and b < 0x90) or (a == 0xF4 and b > 0x8F) then return nil end
    return 4
  end
end

local utf8_length = M.utf8_length

-- Raised inside a decode and caught at its top; the position becomes line and column there.
local Refusal = {}

local function refuse(at, fact) error(setmetatable({ at = at, fact = fact }, Refusal), 0) end

local function skip_space(s, at)
  while true do
    local c = byte(s, at)
    if c ~= 32 and c ~= 10 and c ~= 13 and c ~= 9 then return at, c end
    at = at + 1
  end
end

local function utf8_char(code)
  if code < 0x80 then return char(code) end
  local low = char(0x80 + code % 64)
  if code < 0x800 then return char(0xC0 + math.floor(code / 64)) .. low end
  local middle = char(0x80 + math.floor(code / 64) % 64)
  if code < 0x10000 then return char(0xE0 + math.floor(code / 4096)) .. middle .. low end
  return char(0xF0 + math.floor(code / 262144), 0x80 + math.floor(code / 4096) % 64) .. middle .. low
end

local ESCAPES = { ['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }

-- The escape at `at` (its backslash): the text it stands for, and the place behind it.
local function read_escape(s, at)
  local kind = sub(s, at + 1, at + 1)
  if ESCAPES[kind] then return ESCAPES[kind], at + 2 end
  local digits = kind == "u" and s:match("^%x%x%x%x", at + 2)
  if not digits then refuse(at, "not an escape that JSON knows") end
  local code = tonumber(digits, 16)
  if code < 0xD800 or code > 0xDFFF then return utf8_char(code), at + 6 end
  local low = code < 0xDC00 and s:match("^\\u(%x%x%x%x)", at + 6)
  low = low and tonumber(low, 16)
  if not low or low < 0xDC00 or low > 0xDFFF then refuse(at, "half of a surrogate pair") end
  return utf8_char(0x10000 + (code - 0xD800) * 1024 + low - 0xDC00), at + 12
end

local function read_string(s, start) -- at the opening quote
  local at, from, parts = start + 1, start + 1, nil
  while true do
    local c = byte(s, at)
    if c == 34 then break end
    if not c then refuse(start, "string without an end") end
    if c < 32 then refuse(at, "control character in a string; it has to be escaped") end
    if c == 92 then
      parts = parts or {}
      parts[#parts + 1] = sub(s, from, at - 1)
      parts[#parts + 1], at = read_escape(s, at)
      from = at
    elseif c < 0x80 then
      at = at + 1
    else
      at = at + (utf8_length(s, at) or refuse(at, "not UTF-8"))
    end
  end
  local last = sub(s, from, at - 1)
  if not parts then return last, at + 1 end
  parts[#parts + 1] = last
  return table.concat(parts), at + 1
end

-- An integer of more than 15 digits: exact, or refused.
local function long_integer(token, at)
  local negative = byte(token) == 45
  local digits = negative and sub(token, 2) or token
  local limit = negative and "9223372036854775808" or "9223372036854775807"
  if #digits > 19 or (#digits == 19 and digits > limit) then
    refuse(at, "integer " .. sub(token, 1, 40) .. " does not fit into 64 bits")
  end
  local high, low = tonumber(sub(digits, 1, -10)), tonumber(sub(digits, -9))
  local value = int64(high) * 1000000000LL
  value = negative and -value - low or value + low
  local double = tonumber(value)
  if double > -M.exact and double < M.exact then return double end
  return value
end

local function read_number(s, at)
  local token = s:match("^-?%d+", at)
  if not token or token:find("^-?0%d") then refuse(at, token and "not a number of JSON" or "not a value of JSON") end
  local rest = s:match("^%.%d+", at + #token) or ""
  rest = rest .. (s:match("^[eE][+-]?%d+", at + #token + #rest) or "")
  local behind = at + #token + #rest
  if s:find("^[%.eE%w]", behind) then refuse(at, "not a number of JSON") end
  if rest == "" then return #token <= 15 and tonumber(token) or long_integer(token, at), behind end
  local value = tonumber(token .. rest)
  if value == math.huge or value == -math.huge then refuse(at, "number too large for a double") end
  return value, behind
end

local WORDS = { { "true", true }, { "false", false }, { "null", M.null } }

local read_value

local function read_array(s, at, depth)
  local list, n = {}, 0
  local place, c = skip_space(s, at + 1)
  if c == 93 then return setmetatable(list, M.ArrayMark), place + 1 end
  while true do
    n = n + 1
    list[n], place = read_value(s, place, depth)
    place, c = skip_space(s, place)
    if c == 93 then return list, place + 1 end
    if c ~= 44 then refuse(place, "expected ',' or ']'") end
    place = place + 1
  end
end

local function read_object(s, at, depth)
  local object, key = {}
  local place, c = skip_space(s, at + 1)
  if c == 125 then return object, place + 1 end
  while true do
    place, c = skip_space(s, place)
    if c ~= 34 then refuse(place, "expected a key in double quotes") end
    local start = place
    key, place = read_string(s, place)
    if object[key] ~= nil then refuse(start, "key '" .. sub(key, 1, 100) .. "' is given twice") end
    place, c = skip_space(s, place)
    if c ~= 58 then refuse(place, "expected ':' after the key") end
    object[key], place = read_value(s, place + 1, depth)
    place, c = skip_space(s, place)
    if c == 125 then return object, place + 1 end
    if c ~= 44 then refuse(place, "expected ',' or '}'") end
    place = place + 1
  end
end

function read_value(s, at, depth)
  local place, c = skip_space(s, at)
  if not c then refuse(place, "the text ends in the middle of a value") end
  if c == 34 then return read_string(s, place) end
  if c == 123 or c == 91 then
    if depth >= M.max_depth then refuse(place, "nested more than " .. M.max_depth .. " levels deep") end
    return (c == 123 and read_object or read_array)(s, place, depth + 1)
  end
  for _, word in ipairs(WORDS) do
    if sub(s, place, place + #word[1] - 1) == word[1] then return word[2], place + #word[1] end
  end
  return read_number(s, place)
end

-- The value of a JSON text: tables, strings, numbers, booleans, json.null; integers beyond 2^53 as int64 cdata.
-- Bad text: nil and "json: line 3, column 14: what is wrong".
---@param text string
---@return any value nil on failure
---@return string? message
function M.decode(text)
  local ok, value = pcall(function()
    local result, at = read_value(text, 1, 0)
    local place, c = skip_space(text, at)
    if c then refuse(place, "more text after the end of the value") end
    return result
  end)
  if ok then return value end
  if getmetatable(value) ~= Refusal then error(value, 0) end
  local before = sub(text, 1, value.at - 1)
  local _, lines = before:gsub("\n", "")
  return nil, format("json: line %d, column %d: %s", lines + 1, #before:match("[^\n]*$") + 1, value.fact)
end

return M
