--- A fitted schema as a plain table and back, for JSON beside a model. Nothing read is trusted: it comes from files.
--- Texts that are no UTF-8 are written as { hex = "..." }, because JSON holds no others.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local json = require "ltrain.json"
local utf8_length = require("ltrain.json_read").utf8_length
local fields = require "ltrain.data.fields"
local learn = require "ltrain.data.learn"
local C, check, raise, fail = bridge.C, bridge.check, bridge.raise, bridge.fail

local M = {}
local FORMAT, VERSION = "ltrain.schema", 1

local PLAIN = { "name", "from", "role", "wants", "encoder", "min_count", "hash", "seed", "size", "buckets", "edges",
  "missing", "mean", "at_least", "above", "is", "is_not", "strip" }

-- ---- writing ----

local function portable(text)
  local at = 1
  while at <= #text do
    local n = utf8_length(text, at)
    if not n then return { hex = (text:gsub(".", function(c) return ("%02x"):format(c:byte()) end)) } end
    at = at + n
  end
  return text
end

local ESCAPES = { ["\\"] = "\\\\", ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r" }

-- The vocabulary's own text: a head line, then "count TAB value" for each id. Its name is the feature's, whichever way
-- the training file was read.
local function write_vocabulary(field)
  local out = ffi.new "lt_buffer *[1]"
  check(C.lt_vocabulary_save(field.vocabulary, out))
  local text = ffi.string(C.lt_buffer_data(out[0]), C.lt_buffer_bytes(out[0]))
  C.lt_buffer_release(out[0])
  local head, rest = text:match "^([^\t]*\t)[^\n]*(\n.*)$"
  return portable(head .. field.name:gsub("[\\\n\t\r]", ESCAPES) .. rest)
end

local function write_field(field)
  local entry = {}
  for _, key in ipairs(PLAIN) do entry[key] = field[key] end
  if field.edges then
    entry.edges = json.array()
    for k, edge in ipairs(field.edges) do entry.edges[k] = edge end
  end
  if field.steps then
    entry.steps = json.array()
    for k, name in ipairs(field.steps) do
      entry.steps[k] = { step = name, shift = field.learnt[k].shift, scale = field.learnt[k].scale }
    end
  end
  if field.fn and field.scripted or field.was_scripted then entry.scripted = true end
  if field.encoder == "vocabulary" or field.encoder == "log2" then entry.vocabulary = write_vocabulary(field) end
  return entry
end

---@param schema table fitted
---@return table
function M.write(schema)
  if not schema.fitted then raise "schema: it is not fitted yet; there is nothing to save" end
  local list = json.array()
  for k, field in ipairs(schema.fields) do list[k] = write_field(field) end
  return { format = FORMAT, version = VERSION, fields = list }
end

-- ---- reading ----

local function damaged(what, ...) raise("schema: the saved schema is damaged: " .. what:format(...)) end

local TYPES = { name = "string", from = "string", role = "string", wants = "string", encoder = "string",
  strip = "string", min_count = "number", hash = "number", seed = "number", size = "number", buckets = "number",
  mean = "number",
  at_least = "number", above = "number", edges = "table" }
local ROLES = { label = true, weight = true, numeric = true, categorical = true }
local WANTS = { number = true, text = true, whole = true }
local ENCODERS = { vocabulary = "text", log2 = "text", hash = "text", whole = "whole", buckets = "number",
  edges = "number" }

local function check_field(entry, k)
  if type(entry) ~= "table" then damaged("field %d is no object", k) end
  for _, key in ipairs(PLAIN) do
    local wanted = TYPES[key]
    if wanted and entry[key] ~= nil and type(entry[key]) ~= wanted then
      damaged("%s of field %d is a %s", key, k, type(entry[key]))
    end
  end
  if not entry.name or not entry.from or not ROLES[entry.role] or not WANTS[entry.wants] then
    damaged("field %d has no name, from, role or wants", k)
  end
  if (entry.role == "categorical") ~= (entry.encoder ~= nil)
    or (entry.encoder and ENCODERS[entry.encoder] ~= entry.wants) then
    damaged('"%s" is %s with the encoder %s', entry.name, entry.role, tostring(entry.encoder))
  end
  if entry.missing ~= nil and type(entry.missing) ~= "number" and (entry.missing ~= "mean" or not entry.mean) then
    damaged('missing of "%s" is %s', entry.name, tostring(entry.missing))
  end
end

local function read_steps(entry)
  local steps, learnt = {}, {}
  if entry.steps ~= nil and type(entry.steps) ~= "table" then damaged('the steps of "%s"', entry.name) end
  for k, s in ipairs(entry.steps or {}) do
    local plain = type(s) == "table" and s.step == "log1p"
    local scaled = type(s) == "table" and (s.step == "standard" or s.step == "minmax") and type(s.shift) == "number"
      and type(s.scale) == "number" and s.scale > 0
    if not plain and not scaled then damaged('step %d of "%s"', k, entry.name) end
    steps[k], learnt[k] = s.step, { shift = s.shift, scale = s.scale }
  end
  return steps, learnt
end

local function read_text(value, entry)
  if type(value) == "string" then return value end
  local hex = type(value) == "table" and value.hex
  if type(hex) ~= "string" or #hex % 2 ~= 0 or hex:find "%X" then damaged('the vocabulary of "%s"', entry.name) end
  return (hex:gsub("..", function(h) return string.char(tonumber(h, 16)) end))
end

local function read_vocabulary(entry)
  local text, out = read_text(entry.vocabulary, entry), ffi.new "lt_vocabulary *[1]"
  if C.lt_vocabulary_load(text, #text, out) < 0 then damaged('"%s": %s', entry.name, bridge.last_error()) end
  local vocabulary, info = learn.own(out[0]), ffi.new "lt_vocabulary_info"
  C.lt_vocabulary_describe(vocabulary, info)
  if info.kind ~= C.LT_VOCABULARY_MAP then damaged('"%s" has a vocabulary of another kind', entry.name) end
  return vocabulary
end

local function read_field(entry, k, transforms)
  check_field(entry, k)
  local field = {}
  for _, key in ipairs(PLAIN) do field[key] = entry[key] end
  if field.role == "numeric" or field.role == "weight" then field.steps, field.learnt = read_steps(entry) end
  if field.encoder == "buckets" or field.encoder == "edges" then
    if not field.edges then damaged('"%s" has no edges', field.name) end
    for i, v in ipairs(field.edges) do
      if type(v) ~= "number" then damaged('edge %d of "%s"', i, field.name) end
    end
  elseif field.encoder == "vocabulary" or field.encoder == "log2" then
    field.vocabulary = read_vocabulary(entry)
  elseif field.role == "categorical" then
    if not field[field.encoder == "hash" and "hash" or "size"] then damaged('"%s" has no size', field.name) end
    field.vocabulary = learn.ready_vocabulary(field)
  end
  field.was_scripted = entry.scripted and true or nil
  return fields.bind(field, transforms[field.name])
end

---@param value table
---@param transforms table name -> function
---@return table[] fields
function M.read(value, transforms)
  if type(value) ~= "table" or value.format ~= FORMAT then
    fail("schema: this is no saved schema; its format should be \"%s\"", FORMAT)
  end
  if value.version ~= VERSION then
    fail("schema: it was saved in version %s of the format; this ltrain reads version %d", tostring(value.version),
      VERSION)
  end
  if type(value.fields) ~= "table" or #value.fields == 0 then damaged "it has no fields" end
  local list, names = {}, {}
  for k, entry in ipairs(value.fields) do
    list[k] = read_field(entry, k, transforms)
    names[k] = list[k].name
  end
  bridge.options("schema: transforms", transforms, names)
  return list
end

return M
