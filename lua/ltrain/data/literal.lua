--- lt.data.frame: a table of rows from Lua lists and tensors, as if it had been read from a file. For tests, notebooks,
--- and a few rows to predict.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local frames = require "ltrain.data.frame"
local raise, fail = bridge.raise, bridge.fail

local M = {}

local FORMATS = { float32 = "%.9g", float64 = "%.17g" }

local function text_of(v, format)
  if v == nil or type(v) == "string" then return v or false end
  if type(v) == "boolean" then return v and "1" or "0" end
  if type(v) == "cdata" then return (tostring(v):gsub("U?LL$", "")) end
  if v ~= v then return false end -- NaN is how numbers say "missing"
  if v == math.floor(v) and math.abs(v) < 2 ^ 53 then return ("%.0f"):format(v) end
  return format:format(v)
end

local function column(name, values, n)
  local format = "%.17g"
  if ffi.istype(bridge.handle, values) then
    if values.ndim_ ~= 1 then fail("frame: column %s is a tensor with %d dims; it needs one", name, values.ndim_) end
    format = FORMATS[values.dtype] or format
    n = values:size(1)
    values = values:totable()
  elseif type(values) ~= "table" then
    fail("frame: column %s is a %s; give a list of values or a tensor", name, type(values))
  end
  local texts = {}
  for i = 1, n or #values do
    local v = values[i]
    if v ~= nil and type(v) == "table" or type(v) == "function" then
      fail("frame: value %d of column %s is a %s", i, name, type(v))
    end
    texts[i] = text_of(v, format)
  end
  return texts
end

---@param columns table { user = { "a", "b" }, price = tensor, ... }; { "user", {...} } pairs keep their order
---@param options table|nil { rows = n }: needed when a list has holes (nil: missing)
---@return table dataset of texts, to be encoded by a schema
function M.frame(columns, options)
  options = bridge.options("frame", options, { "rows" })
  if type(columns) ~= "table" then fail("frame: give a table of columns, got a %s", type(columns)) end
  local names, list = {}, {}
  if columns[1] then
    for i, pair in ipairs(columns) do list[i] = { pair[1], pair[2] } end
  else
    for name in pairs(columns) do names[#names + 1] = name end
    table.sort(names)
    for i, name in ipairs(names) do list[i] = { name, columns[name] } end
  end
  if #list == 0 then raise "frame: no columns; give at least one" end
  local n
  for i, pair in ipairs(list) do
    pair[2] = column(tostring(pair[1]), pair[2], options.rows)
    n = n or #pair[2]
    if #pair[2] ~= n then
      fail("frame: column %s has %d values and %s has %d; all need the same number", list[1][1], n, pair[1],
        #list[i][2])
    end
  end
  return require("ltrain.data.dataset").from_frame(frames.from_texts(list, n), { where = "the frame" })
end

return M
