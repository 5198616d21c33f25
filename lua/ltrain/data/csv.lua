--- lt.data.csv: delimited text, packed or not, one file or several of one form. Without a schema the result is a table
--- of texts, to be split, joined and filtered; with one, rows of ids and numbers, read straight into their places.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local frames = require "ltrain.data.frame"
local learn = require "ltrain.data.learn"
local C, check, raise, fail = bridge.C, bridge.check, bridge.raise, bridge.fail

local OPTIONS = { "schema", "delimiter", "quote", "header", "skip_lines", "comment", "trim", "missing", "on_error",
  "threads", "where", "typed_header", "label", "verbose", "max_line_bytes", "dictionary_bytes" }
local TABBED = { tsv = true, tab = true, inter = true, user = true, item = true, kg = true, link = true, net = true }
local PACKED = { gz = true, xz = true, zst = true, bz2 = true, z = true }
local TYPES = { token = true, token_seq = true, float = true, float_seq = true } -- of RecBole's names: "user_id:token"

local function extension(path)
  local rest, last = path:match "^(.*)%.([%w_]+)$"
  if last and PACKED[last:lower()] then return extension(rest) end
  return last and last:lower() or ""
end

local function one_byte(name, value)
  if value == "tab" then value = "\t" end
  if type(value) ~= "string" or #value ~= 1 then
    fail("csv: %s is %s; give one character", name, type(value) == "string" and "'" .. value .. "'" or tostring(value))
  end
  return value:byte()
end

local function strings(list, what)
  local array = ffi.new("const char *[?]", #list + 1)
  for i, text in ipairs(list) do
    if type(text) ~= "string" then fail("csv: %s must be a list of texts; entry %d is a %s", what, i, type(text)) end
    array[i - 1] = text
  end
  return array
end

-- The C struct, and what must live as long as it does.
local function c_options(paths, o)
  local c, keep = ffi.new "lt_csv_options", { o, paths }
  C.lt_csv_defaults(c)
  c.delimiter = o.delimiter and one_byte("delimiter", o.delimiter) or TABBED[extension(paths[1])] and 9 or 44
  if o.quote == false then c.quote = 0 elseif o.quote then c.quote = one_byte("quote", o.quote) end
  if type(o.header) == "table" then
    c.header = 0
    keep.names = strings(o.header, "header")
    c.names, c.name_count = keep.names, #o.header
  else
    c.header = o.header == false and 0 or 1
  end
  local missing = o.missing == nil and {} or type(o.missing) == "table" and o.missing or { o.missing }
  keep.missing, keep.list = strings(missing, "missing"), missing
  c.missing, c.missing_count = keep.missing, #missing
  c.skip_lines, c.trim = o.skip_lines or 0, o.trim and 1 or 0
  if o.comment then c.comment = o.comment end
  if o.on_error ~= nil and o.on_error ~= "error" and o.on_error ~= "skip" then
    fail("csv: on_error is '%s'; it can be 'error' or 'skip'", tostring(o.on_error))
  end
  c.skip_bad = o.on_error == "skip" and 1 or 0
  c.threads = o.threads or C.lt_threads()
  for _, name in ipairs { "max_line_bytes", "dictionary_bytes" } do
    if o[name] then c[name] = o[name] end
  end
  return c, keep
end

local function open(paths, o, columns, count)
  local c, keep = c_options(paths, o)
  local out = ffi.new "lt_csv *[1]"
  check(C.lt_csv_open(strings(paths, "path"), #paths, c, columns, count, out))
  keep.list = nil
  return ffi.gc(out[0], C.lt_csv_close)
end

-- Names in the file, and what each is called here: without its type when all of them carry one.
local function header(paths, o)
  local csv = open(paths, o, nil, 0)
  local names, plain, typed = {}, {}, o.typed_header ~= false
  for i = 1, C.lt_csv_name_count(csv) do
    names[i] = ffi.string(C.lt_csv_name(csv, i - 1))
    local name, kind = names[i]:match "^(.+):([%a_]+)$"
    typed = typed and TYPES[kind] ~= nil
    plain[i] = name
  end
  C.lt_csv_close(ffi.gc(csv, nil))
  if o.typed_header and not typed then
    fail("csv: %s: typed_header = true, but not every name ends in a type such as :token", paths[1])
  end
  return names, typed and plain or names
end

local function tell(csv, o, where, stats)
  stats.rows, stats.bad, stats.lines = tonumber(stats.c.rows), tonumber(stats.c.bad), tonumber(stats.c.lines)
  stats.bytes, stats.c = tonumber(stats.c.bytes), nil
  local text, reports = ffi.new "char[1024]", {}
  while C.lt_csv_report(csv, #reports, text, 1024) == 1 do reports[#reports + 1] = ffi.string(text) end
  stats.reports = reports
  if stats.bad > 0 and o.verbose ~= false then
    io.stderr:write(("ltrain: left out %d bad rows of %s; the first: %s\n"):format(stats.bad, where, reports[1] or "?"))
  end
  return stats
end

-- A missing number is an error unless the schema says what stands for it; the message should say so too.
local function read_failed(list)
  local message = bridge.last_error()
  local name = message:match '%("([^"]*)"%): no value, and every row needs one'
  for _, field in ipairs(list or {}) do
    if field.from == name and field.role == "numeric" then
      fail('%s; or let the schema fill it: { "%s", missing = 0 }', message, field.name)
    end
  end
  raise(message)
end

local function read(csv, o, where, list)
  local out, c = ffi.new "lt_frame *[1]", ffi.new "lt_csv_stats"
  if C.lt_csv_read(csv, out) < 0 then read_failed(list) end
  local frame = frames.own(out[0])
  C.lt_csv_status(csv, c)
  local stats = tell(csv, o, where, { c = c })
  C.lt_csv_close(ffi.gc(csv, nil))
  return frame, stats
end

-- All columns as texts.
local function read_table(paths, o, where)
  local names, plain = header(paths, o)
  local columns = ffi.new("lt_csv_column[?]", #names + 1)
  for i, name in ipairs(names) do
    columns[i - 1].name, columns[i - 1].kind, columns[i - 1].on_missing = name, C.LT_COLUMN_TEXT, C.LT_MISSING_FILL
  end
  local frame, stats = read(open(paths, o, columns, #names), o, where)
  if plain ~= names then
    local sources = {}
    for i, name in ipairs(plain) do sources[i] = { name = name, frame = frame, column = i - 1 } end
    frame = frames.compose(sources, frames.rows(frame))
  end
  return frame, stats
end

-- How a field's source is read when no other field wants it.
local function plan_alone(field, to)
  to.on_missing = learn.on_missing(field)
  if field.wants == "number" and not field.fn then
    to.kind, to.dtype, to.fill = C.LT_COLUMN_NUMBER, C.LT_FLOAT32, 0 / 0
    return
  end
  to.kind = C.LT_COLUMN_TEXT
  if field.wants == "number" or (field.fn and field.scripted) or field.was_scripted then return end
  field.vocabulary = field.vocabulary or learn.ready_vocabulary(field)
  if field.vocabulary and not field.fn then
    C.lt_vocabulary_reset_counters(field.vocabulary)
    to.encoder = field.vocabulary
  end
end

-- Straight into the places that the schema wants: label, weight, numbers, ids. Sources used twice are read once.
local function read_fields(paths, o, list, where)
  local names, plain = header(paths, o)
  local in_file, uses, at = {}, {}, {}
  for i, name in ipairs(plain) do in_file[name] = names[i] end
  for _, field in ipairs(list) do uses[field.from] = (uses[field.from] or 0) + 1 end
  local columns, count, alone = ffi.new("lt_csv_column[?]", #list), 0, true
  for _, field in ipairs(list) do
    if not at[field.from] then
      local to = columns[count]
      to.name = in_file[field.from] or field.from
      if uses[field.from] == 1 then
        plan_alone(field, to)
      else
        to.kind, to.on_missing, alone = C.LT_COLUMN_TEXT, C.LT_MISSING_FILL, false
      end
      at[field.from] = count
      count = count + 1
    end
  end
  local frame, stats = read(open(paths, o, columns, count), o, where, list)
  return frame, stats, at, alone, names -- C read the names where Lua keeps them
end

local function arrange(frame, schema, list, at, rows, n)
  local sources, names = {}, schema:column_names(list)
  for k, field in ipairs(list) do
    sources[k] = { name = names[k], frame = frame, column = at[field.from], rows = rows }
  end
  return frames.compose(sources, n)
end

---Reads delimited text. Options:
---  schema: what the columns mean; an unfitted one learns from these rows. label = false: the rows have no label
---  delimiter: "," unless the file's name ends in .tsv, .inter, .user, ... (then a tab); quote: '"', or false
---  header: true, false (columns are named "1", "2", ...) or the list of names; typed_header: strip ":token" from names
---  skip_lines, comment, trim (blanks around fields), missing (texts that mean "no value"), on_error = "error" | "skip"
---  where: rows to keep, a rule { every = 10, is = 9 } or function(i, row); threads; verbose
---@param path string|string[] files of one form are read one after the other
---@param options table|nil
---@return table dataset
return function(path, options)
  local o = bridge.options("csv", options, OPTIONS)
  local paths = type(path) == "table" and path or { path }
  if type(paths[1]) ~= "string" then
    fail("csv: the path is a %s; give a file name or a list of them", type(paths[1]))
  end
  local Dataset, rows = require "ltrain.data.dataset", require "ltrain.data.rows"
  local schema, where = o.schema, paths[1] .. (#paths > 1 and (" and %d more"):format(#paths - 1) or "")
  if schema and not require("ltrain.data.schema").is(schema) then
    raise "csv: schema must be made by lt.data.schema { ... }"
  end
  if o.label ~= nil and not schema then raise "csv: label = false has a meaning with a schema only" end
  if not schema or type(o.where) == "function" then
    local frame, stats = read_table(paths, o, where)
    local dataset = Dataset.from_frame(frame, { where = where, read = stats })
    if o.where then dataset = dataset:filter(o.where) end
    return schema and dataset:encode(schema, { label = o.label }) or dataset
  end
  local test = o.where and rows.test(o.where, "csv where")
  local list = schema:selection { label = o.label }
  local frame, stats, at, alone = read_fields(paths, o, list, where)
  local picked, n
  if test then
    picked, n = rows.pick(nil, frames.rows(frame), test, nil)
    frame = arrange(frame, schema, list, at, picked, n)
  elseif not alone then
    frame = arrange(frame, schema, list, at, nil, frames.rows(frame))
  end
  schema:apply(frame, list, picked, where)
  return Dataset.from_frame(frame, { where = where, read = stats, schema = schema, parts = schema:layout(list),
    unknown = schema:unknown() })
end
