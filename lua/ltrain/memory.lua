--- lt.memory(): what tensors hold; limits, the cache, threads.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local C, check = bridge.C, bridge.check

local M = {}

---Memory of the engine, bytes: live, peak, cached, limit, allocations (served), system_allocations, tensors, nodes, and
---by_size: a list of { block = bytes, live = n, cached = n }.
---@return table
function M.memory()
  local s = ffi.new "lt_memory_stats"
  C.lt_memory(s)
  local out = { live = s.live, peak = s.peak, cached = s.cached, limit = s.limit, allocations = s.allocations,
    system_allocations = s.system_allocations, tensors = s.tensors, storages = s.storages, nodes = s.nodes, by_size = {} }
  local block, live, cached = ffi.new "double[1]", ffi.new "double[1]", ffi.new "double[1]"
  local i = 0
  while C.lt_memory_class(i, block, live, cached) == 1 do
    if live[0] > 0 or cached[0] > 0 then
      out.by_size[#out.by_size + 1] = { block = block[0], live = live[0], cached = cached[0] }
    end
    i = i + 1
  end
  return out
end

---Sets the memory the engine may use, bytes; nil restores the machine's limit.
---@param bytes number|nil
function M.limit(bytes)
  if bytes ~= nil and (type(bytes) ~= "number" or not (bytes > 0)) then
    bridge.raise(("memory_limit: %s; give bytes above 0, or nothing for the machine's own limit"):format(tostring(bytes)))
  end
  C.lt_memory_set_limit(bytes or 0)
end

---Collects and gives cached blocks back to the system.
function M.empty_cache()
  bridge.collect()
  C.lt_memory_trim()
end

---Threads for computing; with an argument, sets them.
---@param n integer|nil
---@return integer
function M.threads(n)
  if n ~= nil then
    if type(n) ~= "number" then bridge.raise(("threads: the number is %s; it must be a whole number of at least 1"):format(tostring(n))) end
    check(C.lt_set_threads(n))
  end
  return C.lt_threads()
end

return M
