--- A use after the step: the message names the operator always, and the line that made the tensor in debug mode.
local spec = require "ltrain.spec"

local SCRIPT = [[
local lt = require "ltrain"
local late
lt.scope(function()
  late = lt.full({ 2 }, 1) * 3
end)
print(select(2, pcall(function() return late + 1 end)))
]]

local function run(debug)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write(SCRIPT)
  file:close()
  local output = spec.run { "/bin/sh", "-c", ("LTRAIN_DEBUG=%s '%s' %s"):format(debug, require("ltrain.host").exe, path) }
  os.remove(path)
  return (output:gsub(path:gsub("%p", "%%%0"), "script.lua"))
end

describe("a tensor used after its step", function()
  local message = "script.lua:6: add: the result of mul was released at the end of its step (step 1); "
    .. "use :item() for a number or :keep() to hold a tensor beyond its step"

  it("is named by its operator", function() assert.equal(message .. "\n", run(0)) end)

  it("is named by the line that made it in debug mode", function()
    assert.equal(message .. " (made at script.lua:4)\n", run(1))
  end)
end)
