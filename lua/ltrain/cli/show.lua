-- Values as the REPL prints them: tables with sorted keys, bounded in depth, number of entries and length of strings;
-- whatever has a __tostring by that; the rest by tostring.

local M = {}
local MAX_DEPTH, MAX_ITEMS, MAX_STRING, WIDTH = 4, 24, 400, 96

local function quoted(text)
  local cut = #text > MAX_STRING and text:sub(1, MAX_STRING) or text
  cut = cut:gsub("[%c\"\\]", function(c)
    local named = { ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r", ['"'] = '\\"', ["\\"] = "\\\\" }
    return named[c] or ("\\%d"):format(c:byte())
  end)
  return '"' .. cut .. '"' .. (#text > MAX_STRING and (" .. (%d bytes)"):format(#text) or "")
end

local function key_text(key)
  if type(key) == "string" then return key:match("^[%a_][%w_]*$") or "[" .. quoted(key) .. "]" end
  return "[" .. tostring(key) .. "]"
end

-- Numbers by value, strings by bytes, the rest by their text.
local function key_before(a, b)
  local ta, tb = type(a), type(b)
  if ta ~= tb then return ta < tb end
  if ta == "number" or ta == "string" then return a < b end
  return tostring(a) < tostring(b)
end

local render

-- The parts of a table, at most MAX_ITEMS of them.
local function parts_of(value, depth, seen)
  local parts, n = {}, 0
  for i, item in ipairs(value) do
    n = i
    if i > MAX_ITEMS then break end
    parts[i] = render(item, depth + 1, seen)
  end
  if n > MAX_ITEMS then
    parts[#parts + 1] = ("... %d entries"):format(#value)
    return parts
  end
  local keys = {}
  for key in pairs(value) do
    if not (type(key) == "number" and key >= 1 and key <= n and key % 1 == 0) then keys[#keys + 1] = key end
  end
  table.sort(keys, key_before)
  for i, key in ipairs(keys) do
    if #parts >= MAX_ITEMS then
      parts[#parts + 1] = ("... %d more"):format(#keys - i + 1)
      break
    end
    parts[#parts + 1] = key_text(key) .. " = " .. render(value[key], depth + 1, seen)
  end
  return parts
end

function render(value, depth, seen)
  if type(value) == "string" then return quoted(value) end
  if type(value) ~= "table" then return tostring(value) end
  local meta = getmetatable(value)
  if type(meta) == "table" and meta.__tostring then return tostring(value) end
  if seen[value] then return "<above>" end
  if next(value) == nil then return "{}" end
  if depth >= MAX_DEPTH then return "{...}" end
  seen[value] = true
  local parts = parts_of(value, depth, seen)
  seen[value] = nil
  local line, several = table.concat(parts, ", "), false
  for _, part in ipairs(parts) do several = several or part:find("\n") end
  if not several and #line + 2 * depth <= WIDTH then return "{ " .. line .. " }" end
  local indent = ("  "):rep(depth + 1)
  return "{\n" .. indent .. table.concat(parts, ",\n" .. indent) .. "\n" .. ("  "):rep(depth) .. "}"
end

---@param value any
---@return string
function M.text(value) return render(value, 0, {}) end

return M
