--- lt.load_npy and lt.save_npy: one tensor in NumPy's own file format.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local op = require "ltrain.op"
local C, check, fail = bridge.C, bridge.check, bridge.fail

local M = {}

---Reads a .npy file. Types that ltrain lacks are widened exactly (int8, int16 and uint16 to int32, uint32 to int64).
---@param path string
---@return userdata tensor
function M.load(path)
  if type(path) ~= "string" then fail("load_npy: the path is a %s; give a file name", type(path)) end
  local out = ffi.new "lt_npy *[1]"
  check(C.lt_npy_open(path, out))
  local file = ffi.gc(out[0], C.lt_npy_close)
  local header, shape = ffi.new "lt_npy_header", {}
  C.lt_npy_info(file, header)
  for d = 1, header.ndim do shape[d] = tonumber(header.shape[d - 1]) end
  local t = op.functions.empty(shape, bridge.dtype_names[header.dtype])
  check(C.lt_npy_read(file, t:data(), header.bytes))
  C.lt_npy_close(ffi.gc(file, nil))
  return t
end

---Writes a tensor as a .npy file, whole or not at all.
---@param path string
---@param tensor userdata
function M.save(path, tensor)
  if type(path) ~= "string" then fail("save_npy: the path is a %s; give a file name", type(path)) end
  if not ffi.istype(bridge.handle, tensor) then fail("save_npy: got a %s; only tensors can be saved", type(tensor)) end
  local t = tensor:detach():contiguous()
  local shape = ffi.new "int64_t[8]"
  for d, n in ipairs(t.shape) do shape[d - 1] = n end
  check(C.lt_npy_write(path, t.dtype_, t.ndim_, shape, t:data()))
end

return M
