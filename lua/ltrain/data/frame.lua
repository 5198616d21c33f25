--- Frames from Lua: rows of named columns in C memory. Columns are numbered from 0 here, as in C; data sets and schemas
--- speak of them by name. A frame is shared by all data sets over its rows and freed with the last of them.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local C, check = bridge.C, bridge.check

local M = {}

---Ties a frame that C handed out to the collector.
function M.own(pointer) return ffi.gc(pointer, C.lt_frame_release) end

---@return integer
function M.rows(frame) return tonumber(C.lt_frame_rows(frame)) end

---Name, kind, dtype, offset and number of texts of a column.
function M.info(frame, column)
  local info = ffi.new "lt_frame_info"
  check(C.lt_frame_describe(frame, column, info))
  return info
end

---Names of all columns, in order.
---@return string[]
function M.names(frame)
  local names = {}
  for column = 0, C.lt_frame_width(frame) - 1 do names[column + 1] = ffi.string(M.info(frame, column).name) end
  return names
end

---Number of the column, or nil.
function M.find(frame, name)
  local column = C.lt_frame_find(frame, name)
  return column >= 0 and column or nil
end

---Number of the column; an unknown name raises and suggests the nearest.
---@param what string the operation, for the message
function M.column(frame, name, what, where)
  local column = M.find(frame, name)
  if column then return column end
  local names = M.names(frame)
  local near = bridge.nearest(name, names)
  bridge.fail("%s: %s has no column \"%s\"; %s", what, where, tostring(name),
    near and ('did you mean "%s"?'):format(near) or "its columns are " .. table.concat(names, ", "))
end

---A new frame of n rows. sources: { { name =, frame =, column =, rows = nil or int64_t[n] }, ... }
function M.compose(sources, n)
  local list = ffi.new("lt_frame_source[?]", #sources)
  for i, s in ipairs(sources) do
    list[i - 1].name, list[i - 1].frame, list[i - 1].column, list[i - 1].rows = s.name, s.frame, s.column, s.rows
  end
  local out = ffi.new "lt_frame *[1]"
  bridge.try(C.lt_frame_compose, list, #sources, n, out)
  return M.own(out[0])
end

---A frame of text columns. columns: { { name, texts }, ... }; a text that is false is missing.
function M.from_texts(columns, n)
  local plan = ffi.new("lt_frame_column[?]", #columns)
  for i, c in ipairs(columns) do plan[i - 1].name, plan[i - 1].kind = c[1], C.LT_COLUMN_TEXT end
  local out = ffi.new "lt_frame *[1]"
  bridge.try(C.lt_frame_new, plan, #columns, n, out)
  local frame = M.own(out[0])
  for i, c in ipairs(columns) do M.put_texts(C.lt_frame_write_texts, frame, i - 1, c[2], n) end
  return frame
end

---Hands n texts to a C function (frame, column, texts, lengths).
function M.put_texts(call, frame, column, texts, n)
  local pointers, lengths = ffi.new("const char *[?]", n + 1), ffi.new("int64_t[?]", n + 1)
  for i = 1, n do
    if texts[i] then pointers[i - 1], lengths[i - 1] = texts[i], #texts[i] end
  end
  check(call(frame, column, pointers, lengths))
end

---The text of a code of a text column.
---@return string
function M.text(frame, column, code)
  local text, length, uses = ffi.new "const char *[1]", ffi.new "int64_t[1]", ffi.new "int64_t[1]"
  check(C.lt_frame_text(frame, column, code, text, length, uses))
  return ffi.string(text[0], length[0])
end

local POINTERS = {
  [0] = ffi.typeof "float *", [1] = ffi.typeof "double *", [4] = ffi.typeof "int64_t *", [5] = ffi.typeof "int32_t *",
}

---A column as pointer and step: row r has pointer[r * step]. Valid while the frame lives and is not written.
function M.strided(frame, column)
  local info = M.info(frame, column)
  local size = tonumber(C.lt_dtype_size(info.dtype))
  local base = ffi.cast("char *", C.lt_buffer_data(C.lt_frame_records(frame))) + info.offset
  return ffi.cast(POINTERS[info.dtype], base), tonumber(C.lt_frame_stride(frame)) / size
end

---A function from row number to value: a text (nil when it is missing), or a number.
function M.reader(frame, column)
  local p, step = M.strided(frame, column)
  if M.info(frame, column).kind == C.LT_COLUMN_NUMBER then
    return function(row) return tonumber(p[row * step]), frame end -- the second value keeps the frame alive
  end
  local known = {}
  return function(row)
    local code = p[row * step]
    local text = known[code]
    if text == nil then
      text = M.text(frame, column, code)
      known[code] = text
    end
    return text ~= "" and text or nil
  end
end

return M
