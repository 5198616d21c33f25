--- What callbacks that watch a value share: its direction and the best seen. NaN, or a value that an epoch lacks (the AUC
--- of one class), is never better.
local bridge = require "ltrain.ffi"

local Monitor = {}
Monitor.__index = Monitor

-- Metrics that are better when they grow, and those that are better when they fall. calibration is neither.
local DIRECTION = { auc = 1, accuracy = 1, loss = -1, logloss = -1, normalized_entropy = -1 }

---A number among a callback's options, or its default.
function Monitor.number(where, name, v, default, whole)
  if v == nil then return default end
  if type(v) ~= "number" or not (v >= 0 and v < math.huge) or (whole and v ~= math.floor(v)) then
    bridge.fail("%s: %s is %s; it must be a %snumber of at least 0", where, name, tostring(v), whole and "whole " or "")
  end
  return v
end

function Monitor.new(where, options, min_delta)
  local name, mode = options.monitor or "val_loss", options.mode or "auto"
  if type(name) ~= "string" then bridge.fail("%s: monitor is a %s; it must be a name, as 'val_loss'", where, type(name)) end
  if mode ~= "auto" and mode ~= "max" and mode ~= "min" then
    bridge.fail("%s: mode is '%s'; it must be 'max', 'min' or 'auto'", where, tostring(mode))
  end
  return setmetatable({ where = where, name = name, mode = mode,
    min_delta = Monitor.number(where, "min_delta", options.min_delta, min_delta or 0) }, Monitor)
end

---Forgets the best; raises when training will give no value of this name, before it has cost an epoch.
function Monitor:start(context)
  local names, found = { unpack(context.names) }, false
  for _, name in ipairs(names) do found = found or name == self.name end
  if not found then
    local near = bridge.nearest(self.name, names)
    local hint = self.name:sub(1, 4) == "val_" and not names[#names]:find "^val_" and "; val_ values need fit { validation_data = ... }"
      or near and ("; did you mean '%s'?"):format(near) or ""
    bridge.fail("%s: there is no '%s' to monitor; epochs have %s%s", self.where, self.name, table.concat(names, ", "), hint)
  end
  self.best = nil
  self.sign = self.mode == "max" and 1 or self.mode == "min" and -1 or DIRECTION[(self.name:gsub("^val_", ""))]
  if not self.sign then
    bridge.fail("%s: '%s' has no better direction of its own; say mode = 'max' or 'min'", self.where, self.name)
  end
end

---Is this epoch's value better than the best so far? Then it is the best.
function Monitor:improved(logs)
  local v = logs[self.name]
  if v == nil or v ~= v then return false end
  if self.best == nil or self.sign * (v - self.best) > self.min_delta then
    self.best = v
    return true
  end
  return false
end

---The best value as text.
function Monitor:text() return self.best and ("%.4f"):format(self.best) or "none" end

return Monitor
