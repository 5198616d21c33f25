-- Training whose validation values are written down beforehand: a model of one weight that is the epoch's number, and a
-- data set for validation whose loss in each epoch is what a list says.
local lt = require "ltrain"

local M = {}

-- A model whose parameter counts steps: loss = -w, gradient -1, learning rate 1, so that w is the number of steps taken.
function M.model(lr)
  local Counter = lt.nn.class "Counter"
  function Counter:init() self.w = lt.nn.Module.Parameter(lt.zeros { 1 }) end
  function Counter:forward() return self.w end
  local model = Counter()
  model:compile { optimizer = lt.optim.SGD { lr = lr or 1 }, loss = function(output, target)
    if model:is_training() then return -output:sum() end
    return target:sum()
  end }
  return model
end

function M.train() return lt.data.from_tensors { x = lt.zeros(1), y = lt.zeros(1) }:batch(1) end

-- Validation data whose loss is values[1] when it is first asked, values[2] then, ...
function M.validation(values)
  local asked = 0
  return { iter = function()
    asked = asked + 1
    local given = false
    return function()
      if given then return nil end
      given = true
      return { x = lt.zeros(1), y = lt.tensor { values[asked] } }
    end
  end }
end

---Fits for as many epochs as there are values. Returns the model and the history.
function M.fit(values, callbacks, lr)
  local model = M.model(lr)
  return model, model:fit(M.train(), { epochs = #values, validation_data = M.validation(values), callbacks = callbacks, verbose = false })
end

return M
