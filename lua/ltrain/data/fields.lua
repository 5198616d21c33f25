--- The columns a schema declares, checked and in one form: { name, from, role, wants, ... }.
---   role: label, weight, numeric or categorical
---   wants: how the source column must come: "number", "text", or "whole" (ids as they are)
---   fn: applied to every distinct text of the source before anything else; kept by the script, not by files
local bridge = require "ltrain.ffi"
local raise, fail = bridge.raise, bridge.fail

local M = {}

local NUMERIC = { "from", "missing", "transform", "buckets", "edges", "min_count" }
local CATEGORICAL = { "from", "transform", "min_count", "hash", "seed", "size" }
local LABEL = { "column", "at_least", "above", "is", "is_not", "strip", "transform" }
M.STEPS = { "log1p", "standard", "minmax" }

local KNOWN = { numeric = NUMERIC, categorical = CATEGORICAL, label = LABEL }

local function number_text(v)
  if v == math.floor(v) and math.abs(v) < 2 ^ 53 then return ("%.0f"):format(v) end
  return ("%.17g"):format(v)
end

-- What a function gave back, as text; nil: missing.
local function result_text(name, text, value)
  if value == nil or type(value) == "string" then return value end
  if type(value) == "boolean" then return value and "1" or "0" end
  if type(value) == "number" and value == value and math.abs(value) ~= math.huge then return number_text(value) end
  fail('schema: the transform of "%s" gave %s for "%s"; it must give a text, a finite number, true, false or nil',
    name, type(value) == "number" and tostring(value) or "a " .. type(value), text)
end

local function guarded(name, fn)
  return function(text)
    local ok, value = pcall(fn, text)
    if not ok then fail('schema: the transform of "%s" failed on "%s": %s', name, text, tostring(value)) end
    return result_text(name, text, value)
  end
end

-- Whole numbers up to 2 stay, larger ones become floor(ln(v)^2): the rule that won Criteo's contest.
local function log2(name)
  return function(text)
    local v = text:find "^[+-]?[%d.]" and tonumber(text)
    if not v then fail('schema: column "%s" is "%s", no number; buckets = "log2" needs numbers', name, text) end
    if v <= 2 then return number_text(v) end
    local l = math.log(v)
    return number_text(math.floor(l * l))
  end
end

local function set_of(list)
  if list == nil then return nil end
  local set = {}
  for _, text in ipairs(type(list) == "table" and list or { list }) do set[tostring(text)] = true end
  return set
end

-- 1 for the positive value, 0 for the others: those named, or any.
local function is_value(field)
  local yes, no, strip = set_of(field.is), set_of(field.is_not), field.strip
  return function(text)
    if strip and text:sub(-#strip) == strip then text = text:sub(1, -1 - #strip) end
    if yes[text] then return "1" end
    if no == nil or no[text] then return "0" end
    fail('schema: label "%s" is "%s", which is neither is nor is_not', field.from, text)
  end
end

local function check_name(field, what)
  if type(field.name) ~= "string" or field.name == "" then
    fail("schema: %s has no name; write { \"age\", ... }", what)
  end
  if type(field.from) ~= "string" then fail('schema: from of "%s" must name a column', field.name) end
end

local function whole(field, key, least)
  local v = field[key]
  if v ~= nil and (type(v) ~= "number" or v < least or v ~= math.floor(v)) then
    fail('schema: %s of "%s" is %s; it must be a whole number of at least %d', key, field.name, tostring(v), least)
  end
end

local function start(entry, role, what)
  if type(entry) == "string" then entry = { entry } end
  if type(entry) ~= "table" then
    fail('schema: a %s is a name or { "name", option = ... }, got a %s', what, type(entry))
  end
  local options = {}
  for key, value in pairs(entry) do
    if key ~= 1 then options[key] = value end
  end
  bridge.options(('schema: %s "%s"'):format(what, tostring(entry[1] or entry.column)), options, KNOWN[role])
  return { name = entry[1], from = entry.from or entry[1], role = role }, options
end

---Puts field.fn in place: the script's function, or one of ours made from the field's settings.
function M.bind(field, script)
  if script then
    if type(script) ~= "function" then fail('schema: the transform of "%s" must be a function', field.name) end
    field.fn, field.scripted = guarded(field.name, script), true
  elseif field.encoder == "log2" then
    field.fn = log2(field.name)
  elseif field.is then
    field.fn = is_value(field)
  end
  return field
end

local function edges(field)
  if field.edges == nil then return end
  if type(field.edges) ~= "table" then fail('schema: edges of "%s" must be a list of numbers', field.name) end
  for i, v in ipairs(field.edges) do
    if type(v) ~= "number" or v ~= v or math.abs(v) == math.huge or (i > 1 and v <= field.edges[i - 1]) then
      fail('schema: edge %d of "%s" is %s; edges must be finite and rise', i, field.name, tostring(v))
    end
  end
end

local function steps_of(field, transform)
  local steps, script = {}, nil
  if transform ~= nil and type(transform) ~= "table" then transform = { transform } end
  for i, step in ipairs(transform or {}) do
    local known = false
    for _, name in ipairs(M.STEPS) do known = known or name == step end
    if type(step) == "function" and i == 1 then
      script = step
    elseif known then
      steps[#steps + 1] = step
    elseif step ~= "none" then
      local near = type(step) == "string" and bridge.nearest(step, M.STEPS)
      fail('schema: there is no transform %s of "%s"%s; a function comes first, then any of %s',
        type(step) == "string" and "'" .. step .. "'" or "like a " .. type(step), field.name,
        near and (", did you mean '%s'?"):format(near) or "", table.concat(M.STEPS, ", "))
    end
  end
  return steps, script
end

local function numeric(entry)
  local field, o = start(entry, "numeric", "numeric column")
  check_name(field, "a numeric column")
  local steps, script = steps_of(field, o.transform)
  field.missing = o.missing
  if o.missing ~= nil and type(o.missing) ~= "number" and o.missing ~= "mean" then
    fail('schema: missing of "%s" is %s; give a number or "mean"', field.name, tostring(o.missing))
  end
  if o.buckets == nil and o.edges == nil then
    if o.min_count ~= nil then
      fail('schema: min_count of "%s" has no meaning; it is a number, not a category', field.name)
    end
    field.wants, field.steps = "number", steps
    return M.bind(field, script)
  end
  if o.buckets ~= nil and o.edges ~= nil then fail('schema: "%s" has both buckets and edges; give one', field.name) end
  if steps[1] then
    fail('schema: "%s" is cut into buckets; transform = "%s" would not change them', field.name, steps[1])
  end
  if o.missing ~= nil then
    fail('schema: "%s" is cut into buckets, where missing values have one of their own', field.name)
  end
  field.role = "categorical"
  if o.buckets == "log2" then
    if script then
      fail('schema: "%s" has a function and buckets = "log2"; compute the bucket in the function', field.name)
    end
    field.wants, field.encoder, field.min_count = "text", "log2", o.min_count or 1
    whole(field, "min_count", 1)
    return M.bind(field)
  end
  field.wants, field.encoder = "number", o.edges and "edges" or "buckets"
  field.buckets, field.edges = o.buckets, o.edges
  if o.buckets ~= nil and type(o.buckets) ~= "number" then
    fail('schema: buckets of "%s" is %s; give a number of quantiles or "log2"', field.name, tostring(o.buckets))
  end
  whole(field, "buckets", 2)
  edges(field)
  return M.bind(field, script)
end

local function categorical(entry)
  local field, o = start(entry, "categorical", "categorical column")
  check_name(field, "a categorical column")
  field.min_count, field.hash, field.seed, field.size = o.min_count, o.hash, o.seed, o.size
  whole(field, "min_count", 1)
  whole(field, "hash", 1)
  whole(field, "size", 1)
  whole(field, "seed", 0)
  if (o.hash and 1 or 0) + (o.size and 1 or 0) + (o.min_count and 1 or 0) > 1 then
    fail('schema: "%s" has more than one of min_count, hash and size; a vocabulary, hash buckets and given ids '
      .. 'exclude each other', field.name)
  end
  field.encoder = o.hash and "hash" or o.size and "whole" or "vocabulary"
  field.wants = o.size and "whole" or "text"
  if field.encoder == "vocabulary" then field.min_count = o.min_count or 1 end
  return M.bind(field, o.transform)
end

local function label(entry)
  local field, o = start(entry, "label", "label")
  field.from = o.column or field.name
  field.name, field.wants = field.from, "number"
  check_name(field, "the label")
  field.at_least, field.above, field.is, field.is_not, field.strip = o.at_least, o.above, o.is, o.is_not, o.strip
  local rules = (o.at_least and 1 or 0) + (o.above and 1 or 0) + (o.is ~= nil and 1 or 0) + (o.transform and 1 or 0)
  if rules > 1 then fail('schema: label "%s" has more than one of at_least, above, is and transform', field.name) end
  if o.is == nil and (o.is_not ~= nil or o.strip ~= nil) then
    fail('schema: label "%s" has is_not or strip without is; is = names the positive value', field.name)
  end
  for _, key in ipairs { "at_least", "above" } do
    if field[key] ~= nil and type(field[key]) ~= "number" then
      fail('schema: %s of label "%s" must be a number, got %s', key, field.name, tostring(field[key]))
    end
  end
  return M.bind(field, o.transform)
end

---All fields of a declaration, in the order of their columns: label, weight, numeric, categorical, bucketed numbers.
---@param declaration table
---@return table[]
function M.parse(declaration)
  local list, late, seen = {}, {}, {}
  if declaration.label ~= nil then list[1] = label(declaration.label) end
  if declaration.weight ~= nil then
    if type(declaration.weight) ~= "string" then raise "schema: weight must name a column" end
    local name = declaration.weight
    list[#list + 1] = { name = name, from = name, role = "weight", wants = "number", steps = {} }
  end
  local function add(field)
    if seen[field.name] then
      fail('schema: two features are named "%s"; give one another name: { "%s_2", from = "%s" }', field.name,
        field.name, field.from)
    end
    seen[field.name] = true
    if field.role == "categorical" then late[#late + 1] = field else list[#list + 1] = field end
  end
  for _, key in ipairs { "numeric", "categorical" } do
    local entries = declaration[key]
    if entries ~= nil and type(entries) ~= "table" then
      local got = type(entries) == "string" and "'" .. entries .. "'" or "a " .. type(entries)
      fail("schema: %s must be a list of columns, got %s", key, got)
    end
  end
  for _, entry in ipairs(declaration.categorical or {}) do add(categorical(entry)) end
  for _, entry in ipairs(declaration.numeric or {}) do add(numeric(entry)) end
  for _, field in ipairs(late) do list[#list + 1] = field end
  return list
end

return M
