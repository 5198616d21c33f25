-- What the specs of file formats share: a scratch folder, whole files, C failures as text, recorded values.
local ffi = require "ffi"
local json = require "ltrain.json"
pcall(require, "ltrain") -- declares the C API; the runner has done so already

local M = {}

local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"

function M.folder()
  local pipe = assert(io.popen("mktemp -d"))
  local path = pipe:read("*l")
  pipe:close()
  return path
end

function M.remove(folder) os.execute("rm -rf '" .. folder .. "'") end

function M.write(path, bytes)
  local file = assert(io.open(path, "wb"))
  assert(file:write(bytes))
  assert(file:close())
  return path
end

function M.read(path)
  local file = io.open(path, "rb")
  if not file then return nil end
  local bytes = file:read("*a")
  file:close()
  return bytes
end

-- Names in a folder, hidden ones too, in byte order.
function M.list(folder)
  local names = {}
  local pipe = assert(io.popen("ls -A '" .. folder .. "' | LC_ALL=C sort"))
  for name in pipe:lines() do names[#names + 1] = name end
  pipe:close()
  return names
end

-- The message of a C call that must have failed.
function M.failure(status)
  if status >= 0 then error("the call did not fail", 2) end
  return ffi.string(ffi.C.lt_last_error())
end

function M.ok(status)
  if status < 0 then error(ffi.string(ffi.C.lt_last_error()), 2) end
end

function M.unhex(text) return (text:gsub("%x%x", function(h) return string.char(tonumber(h, 16)) end)) end

function M.golden(name) return assert(json.decode(M.read(here .. "../golden/" .. name))) end

return M
