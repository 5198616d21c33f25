--- Saving and loading tensors as safetensors files. A file is replaced whole or not at all; a model's file also carries
--- its configuration, so that lt.load_model can build it again.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local op = require "ltrain.op"
local C, check, raise, fail = bridge.C, bridge.check, bridge.raise, bridge.fail

local M = {}

-- Rows of a padded table are written without the padding and without a copy of the table.
local function write_tensor(w, index, t)
  local stride, shape = t:stride(), t.shape
  local size = tonumber(C.lt_dtype_size(t.dtype_))
  if #shape == 2 and stride[2] == 1 and stride[1] > shape[2] then
    check(C.lt_safetensors_write_rows(w, index, t:data(), shape[1], shape[2] * size, stride[1] * size))
  else
    local c = t:detach():contiguous()
    check(C.lt_safetensors_write(w, index, c:data(), c:numel() * size))
  end
end

-- The tensors to write, in order: a list as it is, names sorted.
local function entries_of(state)
  if type(state) ~= "table" then fail("save: the state is a %s; it must be a table of tensors by name", type(state)) end
  local entries = {}
  if state[1] then
    for i, e in ipairs(state) do entries[i] = { name = e.name, tensor = e.tensor } end
  else
    local names = {}
    for name in pairs(state) do
      if type(name) ~= "string" then fail("save: a tensor has the name %s; names must be texts", tostring(name)) end
      names[#names + 1] = name
    end
    table.sort(names)
    for i, name in ipairs(names) do entries[i] = { name = name, tensor = state[name] } end
  end
  for _, e in ipairs(entries) do
    if type(e.name) ~= "string" or not ffi.istype(bridge.handle, e.tensor) then
      fail("save: '%s' is a %s; only tensors can be saved", tostring(e.name), type(e.tensor))
    end
  end
  return entries
end

local function write_all(w, entries, metadata)
  local index, shape = ffi.new "int64_t[1]", ffi.new "int64_t[8]"
  for _, e in ipairs(entries) do
    for d, n in ipairs(e.tensor.shape) do shape[d - 1] = n end
    check(C.lt_safetensors_add(w, e.name, e.tensor.dtype_, e.tensor.ndim_, shape, index))
    e.index = tonumber(index[0])
  end
  local keys = {}
  for key in pairs(metadata or {}) do keys[#keys + 1] = key end
  table.sort(keys)
  for _, key in ipairs(keys) do
    if type(key) ~= "string" or type(metadata[key]) ~= "string" then
      fail("save: metadata '%s' is a %s; keys and values must be texts", tostring(key), type(metadata[key]))
    end
    check(C.lt_safetensors_set(w, key, metadata[key]))
  end
  for _, e in ipairs(entries) do write_tensor(w, e.index, e.tensor) end
  check(C.lt_safetensors_finish(w))
end

---Writes tensors to a safetensors file, whole or not at all.
---@param path string
---@param state table name -> tensor, or an ordered list of { name =, tensor = }
---@param metadata table|nil name -> string
function M.save(path, state, metadata)
  bridge.expect("save", "the path", path, "string")
  local entries = entries_of(state)
  local out = ffi.new "lt_safetensors_writer *[1]"
  check(C.lt_safetensors_create(path, out))
  local ok, message = pcall(write_all, out[0], entries, metadata)
  C.lt_safetensors_writer_free(out[0]) -- takes an unfinished file away
  if not ok then error(message, 0) end
end

---Reads a safetensors file. The whole header is checked before anything is believed.
---@param path string
---@return table state name -> tensor
---@return table metadata name -> string
function M.load(path)
  bridge.expect("load", "the path", path, "string")
  local out = ffi.new "lt_safetensors *[1]"
  check(C.lt_safetensors_open(path, out))
  local file = ffi.gc(out[0], C.lt_safetensors_close)
  local state, metadata, entry = {}, {}, ffi.new "lt_stored_tensor"
  for i = 0, tonumber(C.lt_safetensors_count(file)) - 1 do
    check(C.lt_safetensors_entry(file, i, entry))
    local name, shape = ffi.string(entry.name), {}
    if entry.dtype < 0 or entry.ndim > 8 then
      raise(("%s: tensor '%s' is %s with %d dims; ltrain reads F64 F32 BF16 F16 I64 I32 U8 BOOL with up to 8 dims"):format(
        path, name, ffi.string(entry.dtype_name), entry.ndim))
    end
    for d = 1, entry.ndim do shape[d] = tonumber(entry.shape[d - 1]) end
    local t = op.functions.empty(shape, bridge.dtype_names[entry.dtype])
    check(C.lt_safetensors_read(file, i, t:data(), entry.bytes))
    state[name] = t
  end
  local key, value = ffi.new "const char *[1]", ffi.new "const char *[1]"
  for i = 0, tonumber(C.lt_safetensors_metadata_count(file)) - 1 do
    check(C.lt_safetensors_metadata_at(file, i, key, value))
    metadata[ffi.string(key[0])] = ffi.string(value[0])
  end
  return state, metadata
end

-- A configuration may hold what no file keeps, such as functions; the message names it.
local function encoded(what, value)
  local ok, text = pcall(require("ltrain.json").encode, value)
  if not ok then fail("save: the model's %s cannot be written: %s", what, (tostring(text):gsub("^json: ", ""))) end
  return text
end

---model:save: parameters, buffers, and the configuration the model was made from.
function M.save_model(model, path)
  local metadata = { ["ltrain.version"] = ffi.string(C.lt_version()) }
  if rawget(model, "model_name") then
    metadata["ltrain.model"] = model.model_name
    metadata["ltrain.config"] = encoded("configuration", model.config)
  end
  if rawget(model, "schema") then metadata["ltrain.schema"] = encoded("schema", model.schema:to_table()) end
  M.save(path, model:state_dict(), metadata)
  return model
end

---model:load: reads parameters and buffers; nothing is changed unless every name and shape fits.
function M.load_into(model, path, options)
  local state = M.load(path)
  model:load_state_dict(state, options)
  return model
end

local function decoded(path, metadata, what)
  local text = metadata["ltrain." .. what]
  if not text then fail("load_model: %s has no %s; build the model and call model:load", path, what) end
  local value, message = require("ltrain.json").decode(text)
  if type(value) ~= "table" then fail("load_model: %s: its %s is damaged: %s", path, what, message or "it is no object") end
  return value
end

-- The function that makes models of this name. Names come from a file, so they may not reach outside models/.
local function constructor(path, name)
  local ok, make = false, nil
  if name:find "^[%w_]+$" then ok, make = pcall(require, "ltrain.models." .. name) end
  if not ok then fail("load_model: %s holds a '%s', which is no model of ltrain; build the model and call model:load", path, name) end
  return make
end

---Builds the model that a file was saved from, with its weights and its schema.
---@param path string
---@param options table|nil { transforms = { name = function } }: functions of the schema, which no file keeps
---@return table model in evaluation mode
function M.load_model(path, options)
  options = bridge.options("load_model", options, { "transforms" })
  local state, metadata = M.load(path)
  local name = metadata["ltrain.model"]
  if not name then fail("load_model: %s does not say which model it holds; build the model and call model:load", path) end
  local make = constructor(path, name)
  local model = make(decoded(path, metadata, "config"))
  model:load_state_dict(state)
  if metadata["ltrain.schema"] then
    local schema = decoded(path, metadata, "schema")
    rawset(model, "schema", require("ltrain.data.schema").from_table(schema, { transforms = options.transforms }))
  end
  return model:eval()
end

return M
