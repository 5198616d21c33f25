-- What the specs of data reading share: the C API with tables in and out. Loaded with dofile, like scratch.lua.
local ffi = require "ffi"
local scratch = dofile((debug.getinfo(1, "S").source:match("^@(.*/)") or "./") .. "scratch.lua")
local C, ok = ffi.C, scratch.ok

local M = {}

local DTYPE = { float32 = 0, float64 = 1, int64 = 4, int32 = 5, text = 5 }
local POINTER = { [0] = "float *", [1] = "double *", [4] = "int64_t *", [5] = "int32_t *" }

-- An array of C strings that lives as long as the table it comes with.
local function strings(list)
  local array = ffi.new("const char *[?]", #list + 1)
  for i, text in ipairs(list) do array[i - 1] = text end
  return array
end

function M.options(given)
  local options, keep = ffi.new "lt_csv_options", { given }
  C.lt_csv_defaults(options)
  for name, value in pairs(given or {}) do
    if name == "missing" or name == "names" then
      keep[#keep + 1] = strings(value)
      options[name] = keep[#keep]
      options[name == "missing" and "missing_count" or "name_count"] = #value
    elseif type(value) == "string" and name ~= "comment" then
      options[name] = value:byte()
    else
      options[name] = value
    end
  end
  return options, keep
end

-- columns: { { "age", "float32", required = true, fill = 0, encoder = v }, ... }
function M.columns(list)
  local columns = ffi.new("lt_csv_column[?]", #list + 1)
  for i, from in ipairs(list) do
    local to = columns[i - 1]
    to.name, to.kind, to.dtype = from[1], from[2] == "text" and 1 or 0, DTYPE[from[2]]
    to.on_missing = from.required and C.LT_MISSING_ERROR or C.LT_MISSING_FILL
    to.fill, to.fill_whole, to.encoder = from.fill or 0 / 0, from.fill or 0, from.encoder
  end
  return columns
end

-- Status and reader.
function M.try_open(paths, options, columns)
  if type(paths) == "string" then paths = { paths } end
  local c_options, keep = M.options(options)
  local out = ffi.new "lt_csv *[1]"
  local status = C.lt_csv_open(strings(paths), #paths, c_options, M.columns(columns), #columns, out)
  keep[1] = nil
  return status, status >= 0 and ffi.gc(out[0], C.lt_csv_close) or nil
end

function M.open(paths, options, columns)
  local status, csv = M.try_open(paths, options, columns)
  ok(status)
  return csv
end

function M.read(paths, options, columns)
  local csv = M.open(paths, options, columns)
  local out = ffi.new "lt_frame *[1]"
  ok(C.lt_csv_read(csv, out))
  return ffi.gc(out[0], C.lt_frame_release), csv
end

-- The message of opening and reading, one of which must fail.
function M.refusal(paths, options, columns)
  local status, csv = M.try_open(paths, options, columns)
  if status >= 0 then status = C.lt_csv_read(csv, ffi.new "lt_frame *[1]") end
  return scratch.failure(status)
end

function M.info(frame, column)
  local info = ffi.new "lt_frame_info"
  ok(C.lt_frame_describe(frame, column, info))
  return info
end

function M.text(frame, column, code)
  local text, length, uses = ffi.new "const char *[1]", ffi.new "int64_t[1]", ffi.new "int64_t[1]"
  ok(C.lt_frame_text(frame, column, code, text, length, uses))
  return ffi.string(text[0], length[0]), tonumber(uses[0])
end

-- The address of a column's first value, typed, and the stride in elements of that type.
function M.pointer(frame, column)
  local info = M.info(frame, column)
  local bytes = ffi.cast("char *", C.lt_buffer_data(C.lt_frame_records(frame))) + info.offset
  local width = ({ [0] = 4, [1] = 8, [4] = 8, [5] = 4 })[info.dtype]
  return ffi.cast(POINTER[info.dtype], bytes), tonumber(C.lt_frame_stride(frame)) / width, info
end

-- A column as a list: texts of a text column, int64 as boxed numbers, other numbers as Lua's.
function M.list(frame, column)
  if type(column) == "string" then column = C.lt_frame_find(frame, column) end
  local data, stride, info = M.pointer(frame, column)
  local list = {}
  for row = 0, tonumber(C.lt_frame_rows(frame)) - 1 do
    local value = data[row * stride]
    if info.kind == 1 then
      value = M.text(frame, column, value)
    elseif info.dtype ~= 4 then
      value = tonumber(value)
    end
    list[#list + 1] = value
  end
  return list
end

function M.rows(frame)
  local rows = {}
  for column = 0, C.lt_frame_width(frame) - 1 do
    for row, value in ipairs(M.list(frame, column)) do
      rows[row] = rows[row] or {}
      rows[row][column + 1] = value
    end
  end
  return rows
end

function M.status(csv)
  local stats = ffi.new "lt_csv_stats"
  C.lt_csv_status(csv, stats)
  return stats
end

function M.reports(csv)
  local list, text = {}, ffi.new "char[1024]"
  while C.lt_csv_report(csv, #list, text, 1024) == 1 do list[#list + 1] = ffi.string(text) end
  return list
end

-- A frame of given columns: { { "x", "float32", { values } }, ... }
function M.frame(list)
  local columns = ffi.new("lt_frame_column[?]", #list)
  for i, from in ipairs(list) do
    columns[i - 1].name, columns[i - 1].kind, columns[i - 1].dtype = from[1], 0, DTYPE[from[2]]
  end
  local out = ffi.new "lt_frame *[1]"
  ok(C.lt_frame_new(columns, #list, #list[1][3], out))
  local frame = ffi.gc(out[0], C.lt_frame_release)
  for i, from in ipairs(list) do
    local data, stride = M.pointer(frame, i - 1)
    for row, value in ipairs(from[3]) do data[(row - 1) * stride] = value end
  end
  return frame
end

function M.fit(frame, column, min_count, rows)
  local out, numbers = ffi.new "lt_vocabulary *[1]", nil
  if rows then numbers = ffi.new("int64_t[?]", #rows, rows) end
  ok(C.lt_vocabulary_fit(frame, C.lt_frame_find(frame, column), numbers, rows and #rows or 0, min_count or 1, out))
  return ffi.gc(out[0], C.lt_vocabulary_release)
end

function M.describe(vocabulary)
  local info = ffi.new "lt_vocabulary_info"
  C.lt_vocabulary_describe(vocabulary, info)
  return info
end

return M
