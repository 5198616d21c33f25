--- Optimizers: SGD, Adam, AdamW, Adagrad.
local FILES = { SGD = "sgd", Adam = "adam", AdamW = "adamw", Adagrad = "adagrad" }

local NAMES = { "Adagrad", "Adam", "AdamW", "SGD" }

return setmetatable({}, {
  __members = NAMES,
  __index = function(t, name)
    local file = FILES[name]
    if not file then
      local bridge = require "ltrain.ffi"
      bridge.raise(("optim: there is no optim.%s%s; there are %s"):format(tostring(name), bridge.suggest(name, NAMES, "%s"), table.concat(NAMES, ", ")))
    end
    local class = require("ltrain.optim." .. file)
    rawset(t, name, class)
    return class
  end,
})
