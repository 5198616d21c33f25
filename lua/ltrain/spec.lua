-- Helpers for specs: assert.close(a, b, tolerance) for numbers, nested tables and tensors, and data sets by name.
-- `ltrain test` loads it before any spec; `local spec = require "ltrain.spec"` gives the functions.

local host = require "ltrain.host"

local M = {}

-- A tensor as nested tables; anything else as it is.
local function plain(value)
  if type(value) == "cdata" then
    local found, convert = pcall(function() return value.totable end)
    if found and type(convert) == "function" then return convert(value) end
    return tonumber(value) or value
  end
  return value
end

-- The first difference of two values, or nil when they are close. `path` names the place, as "[2][1]".
local function difference(a, b, tolerance, path)
  a, b = plain(a), plain(b)
  if type(a) == "number" and type(b) == "number" then
    if a == b or (a ~= a and b ~= b) then return nil end
    if math.abs(a - b) <= tolerance * math.max(1, math.abs(b)) then return nil end
    return ("%s: %.17g is not %.17g within %g (off by %.3g)"):format(path, a, b, tolerance, math.abs(a - b))
  end
  if type(a) == "table" and type(b) == "table" then
    if #a ~= #b then return ("%s: %d entries, not %d"):format(path, #a, #b) end
    for i = 1, #a do
      local found = difference(a[i], b[i], tolerance, path .. "[" .. i .. "]")
      if found then return found end
    end
    local names = {}
    for _, side in ipairs { a, b } do
      for name in pairs(side) do
        if type(name) == "string" then names[#names + 1] = name end
      end
    end
    table.sort(names)
    for _, name in ipairs(names) do
      local found = difference(a[name], b[name], tolerance, path .. "." .. name)
      if found then return found end
    end
    return nil
  end
  if rawequal(a, b) then return nil end
  return ("%s: %s is not %s"):format(path, tostring(a), tostring(b))
end

-- The first difference between two numbers, tables or tensors, as text; nil when all are within `tolerance` (relative
-- to the expected value where that is above 1). NaN is close to NaN only.
---@param actual any
---@param expected any
---@param tolerance number? default 1e-6
---@return string?
function M.difference(actual, expected, tolerance) return difference(actual, expected, tolerance or 1e-6, "value") end

-- Where a data set lies: below $LTRAIN_DATA, ../shared/data next to the repository, or data/. Nil: not there.
---@param name string as "mnist" or "adult/train.csv"
---@return string?
function M.data(name)
  local places = { os.getenv("LTRAIN_DATA") or false, host.home .. "/../shared/data", host.home .. "/data", "data" }
  for _, place in ipairs(places) do
    if place and place ~= "" and host.kind(place .. "/" .. name) then return place .. "/" .. name end
  end
end

-- The same for use inside a test: a missing data set makes the test pending, by name.
---@param name string
---@return string
function M.need(name)
  local path = M.data(name)
  if not path then getfenv(2).pending("no data set '" .. name .. "' (LTRAIN_DATA says where to look)") end
  return path
end

-- Files below a folder of the repository whose names match a pattern, in byte order.
---@param folder string as "tests/samples"
---@param pattern string a Lua pattern
---@return string[] paths
function M.files(folder, pattern)
  local paths = {}
  for _, name in ipairs(host.list(host.home .. "/" .. folder)) do
    if name:find(pattern) then paths[#paths + 1] = host.home .. "/" .. folder .. "/" .. name end
  end
  return paths
end

-- Starts a program; the result has expect(text), signal(number) and finish().
---@param command string[] program and arguments; "ltrain" stands for this program
---@return ltrain.SpecProcess
function M.start(command) return require("ltrain.cli.spec_process").start(command) end

-- Runs a program to its end. Returns its output (both streams) and its exit status, or -1 with a signal's name.
---@param command string[]
---@param seconds number? default 60
---@return string output, integer status, string signal
function M.run(command, seconds) return M.start(command):finish(seconds) end

local registered, luassert = pcall(require, "luassert")
if registered then
  local function close(state, arguments)
    if arguments.n < 2 then error("assert.close needs two values and a tolerance", 2) end
    local found = difference(arguments[1], arguments[2], arguments[3] or 1e-6, "value")
    state.failure_message = found or "the values are close"
    return found == nil
  end
  luassert:register("assertion", "close", close)
end

return M
