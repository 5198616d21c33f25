--- Step scopes: tensors made inside die together at the end, so that a loop holds its memory flat without waiting for the
--- collector. lt.scope(fn) is one; iterators over data sets open one around each step with `Steps`.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local C, check, raise = bridge.C, bridge.check, bridge.raise
local H = bridge.handle

local M = {}
ffi.metatype("lt_scope_token", { __gc = C.lt_scope_orphan })

local function open()
  if C.lt_scope_crowded() then
    collectgarbage()
    C.lt_scope_reap()
  end
  local id = C.lt_scope_open()
  if id == 0 then raise "scope: too many scopes are open inside one another; the most is 4096" end
  return tonumber(id)
end

-- Closes `id`, which is ours; scopes that a break or an error left open above it are merged into it first.
local function close(id, free)
  if tonumber(C.lt_scope_top()) ~= id then
    collectgarbage()
    C.lt_scope_reap()
    while C.lt_scope_depth() > 0 and tonumber(C.lt_scope_top()) > id do check(C.lt_scope_close(C.lt_scope_top(), false)) end
  end
  if tonumber(C.lt_scope_top()) == id then check(C.lt_scope_close(id, free)) end
end

local function leave(id, parent, ok, ...)
  if ok then
    for i = 1, select("#", ...) do
      local v = select(i, ...)
      if ffi.istype(H, v) then check(C.lt_scope_return(v, id, parent)) end
    end
  end
  close(id, ok)
  if not ok then error((...), 0) end
  return ...
end

---Runs fn(...); tensors made inside are freed at its end, except those it returns and those told to :keep().
---@param fn function
---@return any ... what fn returns
function M.scope(fn, ...)
  if type(fn) ~= "function" then raise("scope: give the function to run, scope(function() ... end), got " .. type(fn)) end
  local parent = tonumber(C.lt_scope_top())
  local id = open()
  return leave(id, parent, pcall(fn, ...))
end

-- One iterator's step scopes: :step() ends the tensors of the step before and starts the next.
local Steps = {}
Steps.__index = Steps

---@return table steps
function M.steps()
  return setmetatable({ token = ffi.new "lt_scope_token", id = false, off = false }, Steps)
end

function Steps:step()
  if self.off then return end
  if self.id then
    if tonumber(C.lt_scope_top()) ~= self.id then
      collectgarbage() -- a loop inside that was left by break has no owner now
      C.lt_scope_reap()
      if tonumber(C.lt_scope_top()) ~= self.id then
        -- Iterators take turns: what one of them made must outlive the other's step. Both give up their scopes; the
        -- other one will find its scope gone.
        self.off = true
        while C.lt_scope_depth() > 0 and tonumber(C.lt_scope_top()) >= self.id do check(C.lt_scope_close(C.lt_scope_top(), false)) end
        self.token.id_ = 0
        return
      end
    end
    check(C.lt_scope_close(self.id, true))
    self.id = false
  end
  self.id = open()
  self.token.id_ = self.id
end

---The loop is over: the last step's tensors end.
function Steps:finish()
  if not self.id or self.off then return end
  close(self.id, true)
  self.token.id_ = 0
  self.id = false
end

return M
