--- fails(message, f, ...): f(...) raises exactly this message, the user's line in front of it aside.
local assert = require "luassert"

return function(message, f, ...)
  local ok, raised = pcall(f, ...)
  assert.is_false(ok, "no error was raised; expected: " .. message)
  assert.equal(message, (tostring(raised):gsub("^[^:\n]+:%d+: ", "")))
end
