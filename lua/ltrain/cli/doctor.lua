-- `ltrain doctor`: what this machine and installation offer, as a list of facts; the exit status is 1 when something
-- that training needs is missing. Reads /proc and asks the libraries for their versions; changes nothing.

local ffi = require "ffi"
local host = require "ltrain.host"

local M = {}

-- Processor features that kernels and oneDNN choose by.
local FEATURES = { "sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16",
  "avx512_fp16", "amx_bf16", "amx_int8" }

local function fact(name, value) print(("  %-20s %s"):format(name, value)) end

local function read(path)
  local file = io.open(path)
  if not file then return nil end
  local text = file:read("*a")
  file:close()
  return text
end

-- The version that a function without arguments returns as text.
local function version_of(symbol)
  local found, text = pcall(function()
    ffi.cdef("const char *" .. symbol .. "(void);")
    return ffi.string(ffi.C[symbol]())
  end)
  return found and text or "not found"
end

local function onednn_version()
  local found, text = pcall(function()
    ffi.cdef [[
      typedef struct { int major, minor, patch; const char *hash; unsigned cpu_runtime, gpu_runtime; } onednn_version;
      const onednn_version *dnnl_version(void);
    ]]
    local v = ffi.C.dnnl_version()
    return ("%d.%d.%d"):format(v.major, v.minor, v.patch)
  end)
  return found and text or "not found"
end

local function print_versions()
  print "versions"
  fact("ltrain", host.version)
  fact("LuaJIT", jit.version .. (jit.status() and "" or " (compiler off)"))
  fact("oneDNN", onednn_version())
  fact("libarchive", version_of("archive_version_string"):match("[%d.]+[%d]") or "not found")
  fact("zlib", version_of("zlibVersion"))
  fact("cJSON", version_of("cJSON_Version"))
  fact("glibc", host.libc_version())
end

local function print_machine()
  print "machine"
  local cpu = read("/proc/cpuinfo") or ""
  local flags = {}
  for flag in (cpu:match("flags%s*:([^\n]*)") or ""):gmatch("%S+") do flags[flag] = true end
  local have = {}
  for _, feature in ipairs(FEATURES) do
    if flags[feature] then have[#have + 1] = feature end
  end
  fact("processor", cpu:match("model name%s*:%s*([^\n]*)") or "unknown")
  fact("features", #have > 0 and table.concat(have, " ") or "none known")
  fact("usable processors", host.processors())
  local limit = (read("/sys/fs/cgroup/cpu.max") or ""):match("^(%d+ %d+)")
  if limit then
    local quota, period = limit:match("(%d+) (%d+)")
    fact("processor limit", ("%.1f (cgroup)"):format(tonumber(quota) / tonumber(period)))
  end
  local memory = read("/proc/meminfo") or ""
  local function gib(name) return (tonumber(memory:match(name .. ":%s*(%d+)") or 0)) / 2 ^ 20 end
  fact("memory", ("%.1f GiB, %.1f available"):format(gib("MemTotal"), gib("MemAvailable")))
  local bound = tonumber(read("/sys/fs/cgroup/memory.max") or "")
  if bound then fact("memory limit", ("%.1f GiB (cgroup)"):format(bound / 2 ^ 30)) end
  local huge = read("/sys/kernel/mm/transparent_hugepage/enabled") or ""
  fact("huge pages", huge:match("%[(%w+)%]") or "unknown")
end

local function print_places()
  print "places"
  fact("program", host.exe)
  fact("Lua files", host.home .. "/lua")
  fact("models", host.home .. "/models")
  local spec = require "ltrain.spec"
  for _, name in ipairs { "ml-100k", "fashion-mnist" } do
    fact(name, spec.data(name) or "not fetched (scripts/fetch_data.sh " .. name .. ")")
  end
end

-- The library's own view. Returns false when it does not load.
local function print_library()
  print "library"
  local loaded, problem = pcall(require, "ltrain")
  if not loaded then
    fact("ltrain", "does not load: " .. tostring(problem):match("[^\n]*"))
    return false
  end
  fact("ltrain", "loads")
  fact("threads", ffi.C.lt_threads())
  return true
end

local function print_environment()
  print "environment variables"
  local name, value, doc = ffi.new("const char *[1]"), ffi.new("const char *[1]"), ffi.new("const char *[1]")
  local index = 0
  while ffi.C.lt_env_get(index, name, value, doc) == 1 do
    local now = value[0] ~= nil and " [" .. ffi.string(value[0]) .. "]" or ""
    fact(ffi.string(name[0]), ffi.string(doc[0]) .. now)
    index = index + 1
  end
end

---@return integer exit status
function M.main()
  print_versions()
  print_machine()
  print_places()
  local fit = jit.arch == "x64" and jit.os == "Linux"
  if not fit then fact("platform", jit.os .. " on " .. jit.arch .. ": only Linux on x86-64 is supported") end
  if not print_library() then return 1 end
  print_environment()
  return fit and 0 or 1
end

return M
