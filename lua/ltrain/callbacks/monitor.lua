--- What callbacks that watch a value share: its direction and the best seen.
local bridge = require "ltrain.ffi"

local Monitor = {}
Monitor.__index = Monitor

-- Metrics that are better when they grow; everything else (loss, logloss) is better when it falls.
local GROWS = { auc = true, accuracy = true }

function Monitor.new(where, options)
  local name, mode = options.monitor or "val_loss", options.mode or "auto"
  if mode ~= "auto" and mode ~= "max" and mode ~= "min" then
    bridge.raise(("%s: mode is '%s'; it must be 'max', 'min' or 'auto'"):format(where, tostring(mode)))
  end
  if mode == "auto" then mode = GROWS[(name:gsub("^val_", ""))] and "max" or "min" end
  return setmetatable({ where = where, name = name, sign = mode == "max" and 1 or -1, min_delta = options.min_delta or 0 }, Monitor)
end

---The value of this epoch; raises when the name does not exist.
function Monitor:value(logs)
  local v = logs[self.name]
  if v == nil then
    local names = {}
    for name in pairs(logs) do names[#names + 1] = name end
    table.sort(names)
    bridge.raise(("%s: there is no '%s' to monitor; this epoch has %s (val_ values need fit { validation_data = ... })"):format(
      self.where, self.name, table.concat(names, ", ")))
  end
  return v
end

---Is v better than the best so far? Then it is the best.
function Monitor:improved(v)
  if self.best == nil or self.sign * (v - self.best) > self.min_delta then
    self.best = v
    return true
  end
  return false
end

return Monitor
