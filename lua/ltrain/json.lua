-- JSON for what we write ourselves and read back: vocabularies, schemas, model metadata, TF_CONFIG. Strict both ways:
-- UTF-8, no repeated keys, bounded depth, and integers that never pass through a double: beyond 2^53 they are int64
-- cdata. Keys are written sorted and numbers in the fewest digits that read back the same, so equal values give equal
-- bytes, in every locale. Reading is in json_read.lua.

local ffi = require "ffi"
local reader = require "ltrain.json_read"
local byte, sub, format = string.byte, string.sub, string.format
local utf8_length, ArrayMark, EXACT, MAX_DEPTH = reader.utf8_length, reader.ArrayMark, reader.exact, reader.max_depth

local M = {}

-- null in a document, where Lua's nil could not be kept.
M.null = reader.null
M.decode = reader.decode

-- Marks a table as an array, so that it is written as [] when it is empty. Decoded empty arrays carry the mark.
---@param t table?
---@return table
function M.array(t) return setmetatable(t or {}, ArrayMark) end

---@param t any
---@return boolean
function M.is_array(t) return getmetatable(t) == ArrayMark or (type(t) == "table" and t[1] ~= nil) end

local SHORT = { ['"'] = '\\"', ["\\"] = "\\\\", ["\b"] = "\\b", ["\f"] = "\\f", ["\n"] = "\\n", ["\r"] = "\\r",
  ["\t"] = "\\t" }

-- A writing in progress: out (pieces), n, path (keys from the root), depth, indent.

local function refuse(w, fact, ...)
  local place = w.depth == 0 and "the value" or "'" .. sub(table.concat(w.path, ".", 1, w.depth), 1, 80) .. "'"
  error("json: " .. place .. " " .. format(fact, ...), 0)
end

local function put(w, piece)
  local n = w.n + 1
  w.n, w.out[n] = n, piece
end

local function quote(w, s)
  local at, n, plain = 1, #s, true
  while at <= n do
    local c = byte(s, at)
    if c < 0x80 then
      plain = plain and c >= 32 and c ~= 34 and c ~= 92
      at = at + 1
    else
      at = at + (utf8_length(s, at) or refuse(w, "is not UTF-8, at its byte %d; JSON holds no other text", at))
    end
  end
  if plain then return '"' .. s .. '"' end
  return '"' .. s:gsub('[%z\1-\31\\"]', function(c) return SHORT[c] or format("\\u%04x", byte(c)) end) .. '"'
end

local function number_text(w, x)
  if x ~= x or x == math.huge or x == -math.huge then refuse(w, "is %s; JSON has no such number", tostring(x)) end
  if x == math.floor(x) and x < EXACT and x > -EXACT then return format("%.0f", x) end
  for digits = 15, 17 do
    local text = format("%." .. digits .. "g", x)
    if tonumber(text) == x then
      -- without a point or exponent it would come back as an int64
      return text:find("[.e]") and text or text .. ".0"
    end
  end
end

local function cdata_text(w, x)
  if ffi.istype("int64_t", x) then return (tostring(x):gsub("LL$", "")) end
  if not ffi.istype("uint64_t", x) then refuse(w, "is %s, which JSON has no form for", tostring(x)) end
  local digits = tostring(x):gsub("ULL$", "")
  if x > 0x7fffffffffffffffULL then refuse(w, "is %s, which does not fit into 64 bits with a sign", digits) end
  return digits
end

-- Keys of an object in byte order; nil: it is an array.
local function sorted_keys(w, t)
  local keys, n = {}, 0
  for key in pairs(t) do
    n = n + 1
    keys[n] = key
  end
  if n == #t and (n > 0 or getmetatable(t) == ArrayMark) then return nil end
  local other -- of the keys that are no texts, the first by its text: the message must not depend on table order
  for _, key in ipairs(keys) do
    local text = type(key) ~= "string" and tostring(key)
    if text and (not other or text < other) then other = text end
  end
  if other then refuse(w, "has the key %s; a table is an object (all keys texts) or an array (keys 1 to n)", other) end
  table.sort(keys)
  return keys
end

local write_value

local function write_table(w, t)
  if w.depth >= MAX_DEPTH then refuse(w, "is nested more than %d levels deep, or contains itself", MAX_DEPTH) end
  local keys = sorted_keys(w, t)
  local n = keys and #keys or #t
  if n == 0 then return put(w, keys and "{}" or "[]") end
  w.depth = w.depth + 1
  local line = w.indent and "\n" .. (" "):rep(w.indent * w.depth) or ""
  for i = 1, n do
    local key = keys and keys[i] or i
    w.path[w.depth] = key
    put(w, i > 1 and "," or keys and "{" or "[")
    put(w, line)
    if keys then put(w, quote(w, key) .. (w.indent and ": " or ":")) end
    write_value(w, t[key])
  end
  w.depth = w.depth - 1
  if w.indent then put(w, "\n" .. (" "):rep(w.indent * w.depth)) end
  put(w, keys and "}" or "]")
end

function write_value(w, value)
  local kind = type(value)
  if rawequal(value, M.null) then
    put(w, "null")
  elseif kind == "string" then
    put(w, quote(w, value))
  elseif kind == "number" then
    put(w, number_text(w, value))
  elseif kind == "boolean" then
    put(w, tostring(value))
  elseif kind == "cdata" then
    put(w, cdata_text(w, value))
  elseif kind == "table" then
    write_table(w, value)
  else
    refuse(w, "is a %s, which JSON has no form for", kind)
  end
end

-- The JSON text of a value. Objects are tables whose keys are all texts (an empty table is one), arrays have the keys
-- 1 to n or the mark of json.array. What JSON cannot hold (nan, functions, tensors, mixed keys) is an error naming it.
---@param value any
---@param indent integer? spaces a level; without it, all in one line
---@return string
function M.encode(value, indent)
  local w = { out = {}, n = 0, path = {}, depth = 0, indent = indent }
  local ok, message = pcall(write_value, w, value)
  if not ok then error(message, type(message) == "string" and message:find("^json: ") and 2 or 0) end
  return table.concat(w.out)
end

return M
