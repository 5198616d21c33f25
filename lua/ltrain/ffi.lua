--- The bridge to libltrain.so: reads the C header that the library carries, defines the tensor handle's type, and turns
--- a negative status into an error at the user's line. Everything else in lua/ltrain reaches C through this file.
local ffi = require "ffi"

if not pcall(ffi.typeof, "lt_handle") then
  ffi.cdef "const char *lt_header(void);"
  ffi.cdef((ffi.string(ffi.C.lt_header()):gsub("#[^\n]*", "")))
end
local C = ffi.C

local M = {
  C = C,
  handle = ffi.typeof "lt_handle",
  methods = {}, -- what x:name() finds; filled by op.lua and tensor.lua
  properties = {}, -- what x.name computes
}

-- Frames whose source lies in one of our folders belong to the library; the user's line is the first that does not.
local own_folder = debug.getinfo(1, "S").source:match "^(@.*/)ltrain/ffi%.lua$"
local own = own_folder and own_folder .. "ltrain/" or "@ltrain/"
local models = own_folder and own_folder:match "^(@.*/)lua/$"
models = models and models .. "models/" or own -- ltrain.models.*: ours as well

---The level (for `error`) of the first frame outside lua/ltrain, counted from the caller of this function.
---@return integer
local function user_level()
  local level = 2
  while true do
    local info = debug.getinfo(level, "S")
    if not info then return 2 end
    local ours = info.source:sub(1, #own) == own or info.source:sub(1, #models) == models or info.source:sub(1, 8) == "=ltrain."
    if info.what ~= "C" and not ours then return level - 1 end
    level = level + 1
  end
end

---Raises `message` at the user's line; inside a module's forward, its path comes first.
---@param message string
function M.raise(message)
  local path = M.context and M.context()
  error(path and path .. ": " .. message or message, user_level())
end

---The same, with the message made from a format.
---@param format string
function M.fail(format, ...) M.raise(format:format(...)) end

---"file.lua:31" of the user's line that is running, for later messages.
---@return string
function M.user_line()
  local info = debug.getinfo(user_level(), "Sl")
  return info and info.short_src .. ":" .. info.currentline or "?"
end

function M.last_error()
  return ffi.string(C.lt_last_error())
end

local GC_DUE = tonumber(C.LT_GC_DUE)

---Serves a status: a collection that is due is run, a failure is raised at the user's line.
---@param status integer
function M.check(status)
  if status == 0 then return end
  if status < 0 then M.raise(M.last_error()) end
  if status == GC_DUE then M.collect() end
end

---A full collection, told to the pacing of tensor memory.
function M.collect()
  collectgarbage()
  C.lt_scope_reap()
  C.lt_memory_collected()
end

---Runs `call` (a function that returns a status); when memory is short, collects, empties the cache and tries once more.
---@param call fun(...): integer
function M.try(call, ...)
  local status = call(...)
  if status == C.LT_ERR_MEMORY then
    M.collect()
    C.lt_memory_trim()
    status = call(...)
  end
  if status ~= 0 then M.check(status) end
  return status
end

M.dtypes, M.dtype_names, M.dtype_list = {}, {}, {}
for i = 0, tonumber(C.LT_DTYPE_COUNT) - 1 do
  local name = ffi.string(C.lt_dtype_name(i))
  M.dtypes[name], M.dtype_names[i], M.dtype_list[i + 1] = i, name, name
end

---The nearest of `names` to a misspelt word, or nil; for "did you mean" in messages.
---@param word string
---@param names string[]
---@return string|nil
function M.nearest(word, names)
  local best, best_distance
  word = tostring(word)
  for _, name in ipairs(names) do
    local row = {}
    for j = 0, #name do row[j] = j end
    for i = 1, #word do
      local diagonal = row[0]
      row[0] = i
      for j = 1, #name do
        local above = row[j]
        local cost = word:byte(i) == name:byte(j) and 0 or 1
        row[j] = math.min(above + 1, row[j - 1] + 1, diagonal + cost)
        diagonal = above
      end
    end
    local distance = row[#name]
    if not best_distance or distance < best_distance then best, best_distance = name, distance end
  end
  return best_distance and best_distance <= math.max(2, #word / 2) and best or nil
end

---", did you mean 'adam'?" for a misspelt word, or "" when nothing is near.
---@param word any
---@param names string[]
---@param form string|nil how a name is shown, default "'%s'"
function M.suggest(word, names, form)
  local near = M.nearest(word, names)
  return near and (", did you mean " .. (form or "'%s'"):format(near) .. "?") or ""
end

---Raises unless `v` has the Lua type `kind`, or is a tensor where that is "tensor".
---@param where string
---@param what string "the path"
---@param v any
---@param kind string
function M.expect(where, what, v, kind)
  if kind == "tensor" and ffi.istype(M.handle, v) or type(v) == kind then return end
  M.raise(("%s: %s is %s; it must be a %s"):format(where, what, v == nil and "nil" or "a " .. type(v), kind == "string" and "text" or kind))
end

---Checks an options table against the names it may hold; an unknown key raises and suggests the nearest.
---@param where string what the options belong to, for the message
---@param options table|nil
---@param known string[]
---@return table options, empty when nil
function M.options(where, options, known)
  if options == nil then return {} end
  if type(options) ~= "table" then M.raise(("%s: options must be a table, got %s"):format(where, type(options))) end
  local unknown = {}
  for key in pairs(options) do
    local found = false
    for _, name in ipairs(known) do found = found or name == key end
    if not found then unknown[#unknown + 1] = tostring(key) end
  end
  table.sort(unknown)
  if unknown[1] then
    M.raise(("%s: unknown option '%s'%s; it knows %s"):format(where, unknown[1], M.suggest(unknown[1], known), table.concat(known, ", ")))
  end
  return options
end

return M
