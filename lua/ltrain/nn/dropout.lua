--- Dropout: in training each element is zeroed with probability p and the rest is scaled by 1/(1 - p).
local Module = require "ltrain.nn.module"
local bridge = require "ltrain.ffi"
local op = require "ltrain.op"

local Dropout = Module.class "Dropout"

---@param p number|nil probability of zero, default 0.5
function Dropout:init(p)
  self.p = p or 0.5
  if type(self.p) ~= "number" or not (self.p >= 0 and self.p < 1) then
    bridge.raise(("Dropout: p is %s; it must be at least 0 and below 1"):format(tostring(p)))
  end
end

function Dropout:forward(x)
  if not self:is_training() or self.p == 0 then return x end
  return op.functions.dropout(x, self.p)
end

function Dropout:extra_text() return ("p = %g"):format(self.p) end

return Dropout
