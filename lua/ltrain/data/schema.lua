--- A schema: which columns are the label, numbers and categories, and what was learnt about them from training rows.
--- The first data set encoded by it teaches it; every later one is only encoded, unseen values becoming id 1. One
--- object serves training, evaluation and export: a model's file carries it.
---   lt.data.schema { label = "clicked", numeric = { "age", { "price", missing = 0 } }, categorical = { "user" } }
--- label: a column, { "rating", at_least = 4 }, { "income", is = ">50K", strip = "." } or { "y", transform = function }
--- numeric: { "age", from = column, missing = 0 or "mean", transform = "log1p", "standard", "minmax" or a list },
---   as a category: { "age", buckets = 10 (quantiles) or "log2" } or { "age", edges = { 18, 30, 50 } }
--- categorical: { "genre", from = column, min_count = 2 }, { "device", hash = 100000 }, { "user_id", size = 1000 }: ids
---   0 .. 999 as they are. Ids of the others: 0 padding, 1 values not seen in training, 2 the most frequent value, ...
--- transform = function(text) returns a text, number, boolean or nil (missing); it sees each distinct text once.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local fields = require "ltrain.data.fields"
local frames = require "ltrain.data.frame"
local learn = require "ltrain.data.learn"
local C, check, raise, fail = bridge.C, bridge.check, bridge.raise, bridge.fail

local Schema = {}
Schema.__index = Schema

local M = {}

-- Columns in the frame that is trained on: label, weight, numeric, categorical. `parts` is what batches are made of.
local function layout(list)
  local parts, of = {}, {}
  for column, field in ipairs(list) do
    local part = of[field.role]
    if not part then
      part = { name = field.role, scalar = field.role == "label" or field.role == "weight", columns = {}, names = {},
        dtype = tonumber(field.role == "categorical" and C.LT_INT32 or C.LT_FLOAT32) }
      of[field.role] = part
      parts[#parts + 1] = part
    end
    part.columns[#part.columns + 1], part.names[#part.names + 1] = column - 1, field.name
  end
  return parts
end

local function new(list, verbose)
  return setmetatable({ fields = list, fitted = false, verbose = verbose ~= false }, Schema)
end

local function without_label(list)
  local kept = {}
  for _, field in ipairs(list) do
    if field.role ~= "label" and field.role ~= "weight" then kept[#kept + 1] = field end
  end
  return kept
end

---@param declaration table { label =, weight =, numeric = {}, categorical = {}, verbose = true }
---@return table schema
function M.new(declaration)
  declaration = bridge.options("schema", declaration, { "label", "weight", "numeric", "categorical", "verbose" })
  local list = fields.parse(declaration)
  if #without_label(list) == 0 then raise "schema: no features; name columns in numeric or categorical" end
  return new(list, declaration.verbose)
end

-- The fields to encode; { label = false } leaves label and weight out, for rows that have none.
function Schema:selection(options)
  return options.label == false and without_label(self.fields) or self.fields
end
Schema.layout = function(_, list) return layout(list) end

-- A frame's name for the column of each field: the label may come from a column that is a feature as well.
function Schema:column_names(list)
  local names, taken = {}, {}
  for k = #list, 1, -1 do
    local name = list[k].name
    names[k] = taken[name] and ("%s (%s)"):format(name, list[k].role) or name
    taken[name] = true
  end
  return names
end

function Schema:say(text)
  if self.verbose then io.stderr:write("ltrain: ", text, "\n") end
end

-- A constant field, or one that is mostly unseen, is worth a word; sizes are what a model is built on.
local function fitted_text(self, rows, where)
  local parts = {}
  for _, feature in ipairs(self:features()) do
    if #parts == 8 then
      parts[#parts + 1] = "..."
      break
    end
    parts[#parts + 1] = feature.kind == "categorical" and ("%s %d"):format(feature.name, feature.size) or feature.name
  end
  return ("schema fitted on %d rows of %s: %s"):format(rows, where, table.concat(parts, ", "))
end

---Brings a frame, whose column k - 1 is the source of list[k], to ids and numbers; learns when it has not yet.
function Schema:apply(frame, list, rows, where)
  local learning = not self.fitted
  if learning and frames.rows(frame) == 0 then fail("schema: %s has no rows to learn from", where) end
  if learning and #list < #self.fields then
    raise "schema: it is not fitted yet and learns from rows with labels; { label = false } is for later ones"
  end
  for k, field in ipairs(list) do learn.apply(field, frame, k - 1, learning, rows) end
  if learning then
    self.fitted = true
    self:say(fitted_text(self, frames.rows(frame), where))
  end
end

---Values that the vocabularies lack, counted when the last data set was encoded: { { name =, seen =, unknown = } }.
function Schema:unknown()
  local list, info = {}, ffi.new "lt_vocabulary_info"
  for _, field in ipairs(self.fields) do
    if field.vocabulary and field.encoder ~= "whole" then
      C.lt_vocabulary_describe(field.vocabulary, info)
      list[#list + 1] = { name = field.name, seen = tonumber(info.seen), unknown = tonumber(info.unknown) }
    end
  end
  return list
end

---Learns from a data set (without batches) or from a file. Returns the schema.
---@param source table|string
---@param options table|nil of lt.data.csv, when source is a path
function Schema:fit(source, options)
  if self.fitted then raise "schema: it is fitted already; make a new schema to learn from other rows" end
  if type(source) == "string" then
    local o = {}
    for key, value in pairs(options or {}) do o[key] = value end
    o.schema = self
    require("ltrain.data").csv(source, o)
  else
    source:encode(self)
  end
  return self
end

---What a model is built on, in the order of the columns in batch.categorical, then batch.numeric:
---{ name =, kind = "categorical", size = rows of its table, reserved = 2 } and { name =, kind = "numeric", size = 1 }.
---@return table[] with the schema itself under .schema
function Schema:features()
  if not self.fitted then
    raise("schema: it is not fitted yet; make the training data set first: lt.data.csv(path, { schema = schema }), "
      .. "or call schema:fit(...)")
  end
  local list, numbers = { schema = self }, {}
  for _, field in ipairs(self.fields) do
    if field.role == "categorical" then
      local size, reserved = learn.size(field)
      list[#list + 1] = { name = field.name, kind = "categorical", size = size, reserved = reserved }
    elseif field.role == "numeric" then
      numbers[#numbers + 1] = { name = field.name, kind = "numeric", size = 1 }
    end
  end
  for _, feature in ipairs(numbers) do list[#list + 1] = feature end
  return list
end

---The text behind an id of a vocabulary; nil for padding, unseen values, and features that keep no texts.
---@param name string feature
---@param id integer
function Schema:value(name, id)
  for _, field in ipairs(self.fields) do
    if field.name == name and field.vocabulary and (field.encoder == "vocabulary" or field.encoder == "log2") then
      if id < 2 then return nil end
      local text, length, count = ffi.new "const char *[1]", ffi.new "int64_t[1]", ffi.new "int64_t[1]"
      check(C.lt_vocabulary_text(field.vocabulary, id, text, length, count))
      return ffi.string(text[0], length[0]), tonumber(count[0])
    end
  end
  return nil
end

function Schema:__tostring()
  local lines = {}
  for _, field in ipairs(self.fields) do
    local size = self.fitted and field.role == "categorical" and " " .. learn.size(field) or ""
    local from = field.from ~= field.name and " from " .. field.from or ""
    lines[#lines + 1] = ("  %-11s %s%s%s"):format(field.role, field.name, from, size)
  end
  return ("schema (%s)\n%s"):format(self.fitted and "fitted" or "not fitted", table.concat(lines, "\n"))
end

---As a plain table for JSON; equal schemas give equal bytes.
function Schema:to_table() return require("ltrain.data.schema_table").write(self) end

---A number of 16 hexadecimal digits that changes with anything that changes ids or numbers.
---@return string
function Schema:hash()
  local h = ffi.new("uint64_t[1]", 0xcbf29ce484222325ULL) -- FNV-1a; in memory, where compiled code needs no box for it
  local text = require("ltrain.json").encode(self:to_table())
  for i = 1, #text do h[0] = bit.bxor(h[0], text:byte(i)) * 0x100000001b3ULL end
  return bit.tohex(h[0], 16)
end

---Writes the schema as JSON, whole or not at all.
---@param path string
function Schema:save(path)
  local text = require("ltrain.json").encode(self:to_table(), 1) .. "\n"
  check(C.lt_file_replace(path, text, #text))
  return self
end

---The schema that to_table made.
---@param value table
---@param options table|nil { transforms = { name = function }, verbose = true }
function M.from_table(value, options)
  options = bridge.options("schema", options, { "transforms", "verbose" })
  local schema = new(require("ltrain.data.schema_table").read(value, options.transforms or {}), options.verbose)
  schema.fitted = true
  return schema
end

---Reads what schema:save wrote.
---@param path string
---@param options table|nil { transforms = { name = function } }: functions are no part of a file
function M.load(path, options)
  local file, message = io.open(path, "rb")
  if not file then fail("schema: %s", message) end
  local text = file:read "*a"
  file:close()
  local value, problem = require("ltrain.json").decode(text)
  if value == nil then fail("schema: %s: %s", path, problem) end
  return M.from_table(value, options)
end

M.is = function(value) return type(value) == "table" and getmetatable(value) == Schema end

return setmetatable(M, { __call = function(_, declaration) return M.new(declaration) end })
