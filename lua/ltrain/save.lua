--- Saving and loading tensors as safetensors files. A file is replaced whole or not at all; a model's file also carries
--- its configuration, so that lt.load_model can build it again.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local op = require "ltrain.op"
local C, check, raise = bridge.C, bridge.check, bridge.raise

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

---Writes tensors to a safetensors file.
---@param path string
---@param state table name -> tensor, or an ordered list of { name =, tensor = }
---@param metadata table|nil name -> string
function M.save(path, state, metadata)
  local entries = {}
  if state[1] then
    for i, e in ipairs(state) do entries[i] = e end
  else
    local names = {}
    for name in pairs(state) do names[#names + 1] = name end
    table.sort(names)
    for i, name in ipairs(names) do entries[i] = { name = name, tensor = state[name] } end
  end
  for _, e in ipairs(entries) do
    if not ffi.istype(bridge.handle, e.tensor) then raise(("save: '%s' is a %s; only tensors can be saved"):format(tostring(e.name), type(e.tensor))) end
  end
  local out = ffi.new "lt_safetensors_writer *[1]"
  check(C.lt_safetensors_create(path, out))
  local w = ffi.gc(out[0], C.lt_safetensors_writer_free)
  local index, shape = ffi.new "int64_t[1]", ffi.new "int64_t[8]"
  for _, e in ipairs(entries) do
    for d, n in ipairs(e.tensor.shape) do shape[d - 1] = n end
    check(C.lt_safetensors_add(w, e.name, e.tensor.dtype_, e.tensor.ndim_, shape, index))
    e.index = tonumber(index[0])
  end
  local keys = {}
  for key in pairs(metadata or {}) do keys[#keys + 1] = key end
  table.sort(keys)
  for _, key in ipairs(keys) do check(C.lt_safetensors_set(w, key, metadata[key])) end
  for _, e in ipairs(entries) do write_tensor(w, e.index, e.tensor) end
  check(C.lt_safetensors_finish(w))
end

---Reads a safetensors file. The whole header is checked before anything is believed.
---@param path string
---@return table state name -> tensor
---@return table metadata name -> string
function M.load(path)
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

---model:save: parameters, buffers, and the configuration the model was made from.
function M.save_model(model, path)
  local metadata = { ["ltrain.version"] = ffi.string(C.lt_version()) }
  if rawget(model, "model_name") then
    metadata["ltrain.model"] = model.model_name
    metadata["ltrain.config"] = require("ltrain.json").encode(model.config)
  end
  if rawget(model, "schema") then metadata["ltrain.schema"] = require("ltrain.json").encode(model.schema:to_table()) end
  M.save(path, model:state_dict(), metadata)
  return model
end

---model:load: reads parameters and buffers; nothing is changed unless every name and shape fits.
function M.load_into(model, path, options)
  local state = M.load(path)
  model:load_state_dict(state, options)
  return model
end

---Builds the model that a file was saved from, with its weights.
---@param path string
function M.load_model(path)
  local state, metadata = M.load(path)
  local name = metadata["ltrain.model"]
  if not name then raise(("load_model: %s does not say which model it holds; build the model and call model:load"):format(path)) end
  local config, message = require("ltrain.json").decode(metadata["ltrain.config"])
  if not config then raise(("load_model: %s: its configuration is damaged: %s"):format(path, message)) end
  local model = require("ltrain.models." .. name)(config)
  model:load_state_dict(state)
  if metadata["ltrain.schema"] then
    local schema = require("ltrain.json").decode(metadata["ltrain.schema"])
    rawset(model, "schema", require("ltrain.data.schema").from_table(schema))
  end
  return model:eval()
end

return M
