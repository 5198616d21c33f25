--- What a schema does to the rows of a frame, column by column and in place: texts through functions and vocabularies
--- to ids, numbers through their steps or into buckets. From the first frame it learns, later ones it only applies to.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local frames = require "ltrain.data.frame"
local C, check, fail = bridge.C, bridge.check, bridge.fail

local M = {}

function M.own(pointer) return ffi.gc(pointer, C.lt_vocabulary_release) end

---A vocabulary that needs no data: hash buckets or ids as they are. Nil: it must be fitted.
function M.ready_vocabulary(field)
  local out = ffi.new "lt_vocabulary *[1]"
  if field.encoder == "hash" then check(C.lt_vocabulary_hash(field.name, field.hash, field.seed or 0, out))
  elseif field.encoder == "whole" then check(C.lt_vocabulary_whole(field.name, field.size, out))
  else return nil end
  return M.own(out[0])
end

---Ids are 0 .. size - 1: the rows of the feature's table.
function M.size(field)
  if field.vocabulary then
    local info = ffi.new "lt_vocabulary_info"
    C.lt_vocabulary_describe(field.vocabulary, info)
    return tonumber(info.size), tonumber(info.first)
  end
  return #field.edges + 3, 2
end

-- The field's function, called once for each distinct text. Missing texts stay missing.
local function transform(field, frame, column)
  local n = tonumber(frames.info(frame, column).values)
  local texts = {}
  for code = 0, n - 1 do
    local text = frames.text(frame, column, code)
    texts[code + 1] = text ~= "" and field.fn(text) or false
  end
  frames.put_texts(C.lt_frame_recode, frame, column, texts, n)
end

local function fill(p, step, n, value)
  for i = 0, n - 1 do
    local v = p[i * step]
    if v ~= v then p[i * step] = value end
  end
end

local function mean_of(p, step, n)
  local sum, count = 0, 0
  for i = 0, n - 1 do
    local v = p[i * step]
    if v == v then sum, count = sum + v, count + 1 end
  end
  return count > 0 and sum / count or 0
end

-- log1p keeps the sign: log(1 + |v|), so that negative values need no rule of their own.
local function log1p(p, step, n)
  for i = 0, n - 1 do
    local v = p[i * step]
    p[i * step] = v >= 0 and math.log(1 + v) or -math.log(1 - v)
  end
end

local function affine(p, step, n, shift, scale)
  for i = 0, n - 1 do p[i * step] = (p[i * step] - shift) / scale end
end

local function deviation(p, step, n, mean)
  local sum = 0
  for i = 0, n - 1 do
    local d = p[i * step] - mean
    sum = sum + d * d
  end
  return math.sqrt(sum / math.max(n, 1))
end

local function bounds(p, step, n)
  local low, high = math.huge, -math.huge
  for i = 0, n - 1 do
    local v = p[i * step]
    if v < low then low = v end
    if v > high then high = v end
  end
  return low, high
end

-- Shift and scale of a step, learnt from these rows. A constant column becomes 0.
local function learn_step(name, p, step, n)
  local shift, scale
  if name == "standard" then
    shift = mean_of(p, step, n)
    scale = deviation(p, step, n, shift)
  else
    local low, high = bounds(p, step, n)
    shift, scale = low, high - low
  end
  if not (scale > 0 and scale < math.huge) then scale = 1 end
  return { shift = shift, scale = scale }
end

local function numeric(field, frame, column, learning)
  local p, step = frames.strided(frame, column)
  local n = frames.rows(frame)
  if field.missing == "mean" and learning then field.mean = mean_of(p, step, n) end
  if field.missing ~= nil then fill(p, step, n, field.missing == "mean" and field.mean or field.missing) end
  if learning then field.learnt = {} end
  for k, name in ipairs(field.steps) do
    if name == "log1p" then
      log1p(p, step, n)
      if learning then field.learnt[k] = {} end
    else
      if learning then field.learnt[k] = learn_step(name, p, step, n) end
      affine(p, step, n, field.learnt[k].shift, field.learnt[k].scale)
    end
  end
end

local function float_list(list)
  local array = ffi.new("float[?]", #list + 1)
  for i, v in ipairs(list) do array[i - 1] = v end
  return array, #list
end

local function buckets(field, frame, column, learning)
  if learning and field.encoder == "buckets" then
    local edges, count = ffi.new("float[?]", field.buckets), ffi.new "int64_t[1]"
    check(C.lt_frame_quantiles(frame, column, nil, 0, field.buckets, edges, count))
    field.edges = {}
    for i = 1, tonumber(count[0]) do field.edges[i] = edges[i - 1] end
  end
  local edges, count = float_list(field.edges)
  check(C.lt_frame_bucketize(frame, column, edges, count))
end

local function label(field, frame, column)
  local limit = field.at_least or field.above
  if not limit then return end
  local p, step = frames.strided(frame, column)
  local above = field.above ~= nil
  for i = 0, frames.rows(frame) - 1 do
    local v = p[i * step]
    p[i * step] = (v > limit or (v == limit and not above)) and 1 or 0
  end
end

local function vocabulary(field, frame, column, learning)
  if learning or not field.vocabulary then -- learning anew also after a try that failed half-way
    field.vocabulary = M.ready_vocabulary(field)
    if not field.vocabulary then
      local out = ffi.new "lt_vocabulary *[1]"
      check(C.lt_vocabulary_fit(frame, column, nil, 0, field.min_count, out))
      field.vocabulary = M.own(out[0])
    end
  end
  C.lt_vocabulary_reset_counters(field.vocabulary)
  check(C.lt_frame_encode(frame, column, field.vocabulary))
end

---How missing values of a field are read: an error, or NaN for later.
function M.on_missing(field)
  if field.role == "label" or field.role == "weight" then return C.LT_MISSING_ERROR end
  if field.role == "numeric" and field.missing == nil then return C.LT_MISSING_ERROR end
  return field.wants == "whole" and C.LT_MISSING_ERROR or C.LT_MISSING_FILL
end

---Brings a column to what its field says. rows: what the frame's rows are called in messages, or nil.
---@param learning boolean
function M.apply(field, frame, column, learning, rows)
  local info = frames.info(frame, column)
  if info.kind == C.LT_COLUMN_NUMBER and info.dtype == C.LT_INT32 then return end -- ids since it was read
  if field.was_scripted and not field.fn then
    fail('schema: "%s" is made by a function of the script, which no file keeps; pass it again: { transforms = { '
      .. '["%s"] = function(text) ... end } }', field.name, field.name)
  end
  if info.kind == C.LT_COLUMN_TEXT then
    if field.fn then transform(field, frame, column) end
    if field.wants == "number" then
      check(C.lt_frame_parse(frame, column, C.LT_FLOAT32, M.on_missing(field), 0 / 0, rows))
    elseif field.wants == "whole" then
      check(C.lt_frame_parse(frame, column, C.LT_INT32, C.LT_MISSING_ERROR, 0, rows))
    end
  end
  if field.role == "numeric" then numeric(field, frame, column, learning)
  elseif field.role == "label" then label(field, frame, column)
  elseif field.encoder == "buckets" or field.encoder == "edges" then buckets(field, frame, column, learning)
  elseif field.role == "categorical" then vocabulary(field, frame, column, learning) end
end

return M
