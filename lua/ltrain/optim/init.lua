--- Optimizers: SGD, Adam, AdamW, Adagrad.
local FILES = { SGD = "sgd", Adam = "adam", AdamW = "adamw", Adagrad = "adagrad" }

return setmetatable({}, {
  __index = function(t, name)
    local file = FILES[name]
    if not file then
      local bridge = require "ltrain.ffi"
      local names = { "Adagrad", "Adam", "AdamW", "SGD" }
      local near = bridge.nearest(name, names)
      bridge.raise(("optim: there is no optim.%s%s; there are %s"):format(tostring(name), near and (", did you mean %s?"):format(near) or "", table.concat(names, ", ")))
    end
    local class = require("ltrain.optim." .. file)
    rawset(t, name, class)
    return class
  end,
})
