--- TensorBoard's event files: scalars as Event protobufs in TFRecord framing. Every flush is one write of whole records,
--- so that a reader never meets half a length; there is one writer to a folder. A tag's first value in a file says which
--- plugin shows it.
local ffi = require "ffi"
local host = require "ltrain.host"
local tfrecord = require "ltrain.log.tfrecord"

if not pcall(ffi.typeof, "lt_wall_time") then
  ffi.cdef [[
    typedef struct { long sec, usec; } lt_wall_time;
    int gettimeofday(lt_wall_time *time, void *zone);
    int gethostname(char *name, size_t length);
    int mkdir(const char *path, unsigned mode);
  ]]
end

local M = {}
local EventFile = {}
EventFile.__index = EventFile

-- ---- protobuf, by hand: a key is field * 8 + wire type; 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes ----

local function varint(n)
  local list = {}
  while n >= 128 do
    list[#list + 1] = string.char(n % 128 + 128)
    n = math.floor(n / 128)
  end
  list[#list + 1] = string.char(n)
  return table.concat(list)
end
local function bytes_field(field, bytes) return varint(field * 8 + 2) .. varint(#bytes) .. bytes end
local function varint_field(field, n) return varint(field * 8) .. varint(n) end
local function double_field(field, x) return varint(field * 8 + 1) .. ffi.string(ffi.new("double[1]", x), 8) end
local function float_bytes(x) return ffi.string(ffi.new("float[1]", x), 4) end

-- SummaryMetadata { 1 plugin_data { 1 plugin_name = "scalars" }, 4 data_class = scalar }
local SCALARS = bytes_field(1, bytes_field(1, "scalars")) .. varint_field(4, 1)

---Event { 1 wall_time, 2 step, 5 summary { 1 value { 1 tag, 9 metadata, 8 tensor { DT_FLOAT, rank 0, 5 float_val } } } }
---@param step integer
---@param first boolean the tag's first value in its file
---@return string
function M.scalar(wall_time, step, tag, value, first)
  local tensor = varint_field(1, 1) .. bytes_field(2, "") .. bytes_field(5, float_bytes(value))
  local entry = bytes_field(1, tag) .. (first and bytes_field(9, SCALARS) or "") .. bytes_field(8, tensor)
  return double_field(1, wall_time) .. varint_field(2, step) .. bytes_field(5, bytes_field(1, entry))
end

---Event { 1 wall_time, 3 file_version }: the first of a file.
function M.version(wall_time) return double_field(1, wall_time) .. bytes_field(3, "brain.Event:2") end

-- ---- files ----

local function wall_time()
  local t = ffi.new "lt_wall_time"
  ffi.C.gettimeofday(t, nil)
  return tonumber(t.sec) + tonumber(t.usec) * 1e-6
end

local function host_name()
  local name = ffi.new "char[256]"
  if ffi.C.gethostname(name, 255) ~= 0 then return "localhost" end
  return (ffi.string(name):gsub("[^%w._-]", "_"))
end

-- The folder and those above it; what stands in the way shows when the file is made.
local function make_folders(path)
  for above in path:gmatch "()/" do
    if above > 1 then ffi.C.mkdir(path:sub(1, above - 1), 511) end -- 0777 less the umask
  end
  ffi.C.mkdir(path, 511)
end

local opened = 0 -- files of this process, so that names differ within a second

---Starts an event file in a folder, which is made when it is not there. Names sort by time.
---@param folder string
---@return table|nil file, string|nil message
function M.open(folder)
  make_folders(folder)
  opened = opened + 1
  local now = wall_time()
  local path = ("%s/events.out.tfevents.%010d.%s.%d.%d.v2"):format(folder, math.floor(now), host_name(), host.process_id(), opened - 1)
  local file, message = io.open(path, "wb")
  if not file then return nil, message end
  file:setvbuf("full", 65536)
  local self = setmetatable({ file = file, path = path, tags = {}, pending = { tfrecord.record(M.version(now)) } }, EventFile)
  local ok
  ok, message = self:flush()
  if not ok then return nil, message end
  return self
end

---Adds a value; it is in the file after flush().
function EventFile:scalar(tag, value, step)
  tag = tag:gsub("[^%w_./-]", "_")
  self.pending[#self.pending + 1] = tfrecord.record(M.scalar(wall_time(), step, tag, value, not self.tags[tag]))
  self.tags[tag] = true
end

---@return boolean|nil ok, string|nil message
function EventFile:flush()
  local bytes = table.concat(self.pending)
  self.pending = {}
  local ok, message = self.file:write(bytes)
  if ok then ok, message = self.file:flush() end
  if not ok then return nil, ("%s: %s"):format(self.path, message) end
  return true
end

function EventFile:close() self.file:close() end

return M
