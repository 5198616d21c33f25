--- Gradients against central differences, in float64: first derivatives, and second ones through create_graph.
local lt = require "ltrain"

local M = {}

-- A fixed weighting of all outputs makes one number of them; weights differ, so that no error cancels.
local function weigh(outputs, weights)
  local total
  for i, y in ipairs(outputs) do
    if y.dtype:find "float" and y.requires_grad then
      if not weights[i] then
        local n = y:numel()
        local w = n > 0 and (lt.arange(1, n, { dtype = "float64" }) * 1.7):sin() + 1.3 or lt.zeros({ 0 }, "float64")
        weights[i] = w:reshape(y.shape):keep()
      end
      local term = (y * weights[i]):sum()
      total = total and total + term or term
    end
  end
  return total
end

local function outputs_of(...)
  local list = {}
  for i = 1, select("#", ...) do
    local v = select(i, ...)
    if lt.is_tensor(v) then list[#list + 1] = v end
  end
  return list
end

-- d value() / d x[i] for every element of x, by central differences; x is written and restored.
local function numeric(value, x, eps)
  local p, n, grad = x:data(), x:numel(), {}
  for i = 0, n - 1 do
    local old = p[i]
    p[i] = old + eps
    x:touch()
    local up = value()
    p[i] = old - eps
    x:touch()
    local down = value()
    p[i] = old
    x:touch()
    grad[i + 1] = (up - down) / (2 * eps)
  end
  return grad
end

local function compare(analytic, expected, tolerance, what)
  for i, want in ipairs(expected) do
    local got = analytic and analytic[i] or 0
    local scale = math.max(1, math.abs(want))
    if got ~= got or math.abs(got - want) > tolerance * scale then
      return ("%s, element %d: the rule gives %.10g, differences give %.10g"):format(what, i, got, want)
    end
  end
end

local function flat(t) return t and t:contiguous():reshape(-1):totable() or nil end

---Checks the gradients of fn(...) for the inputs listed in `which`.
---@param fn function
---@param args table arguments; tensors listed in `which` are float64 and contiguous
---@param which integer[]
---@param options table|nil { tolerance = 1e-6, second = true }
---@return string|nil what is wrong
function M.check(fn, args, which, options)
  options = options or {}
  local n, weights = table.maxn(args), {}
  local inputs, owner = {}, {}
  local function leaf(x, i)
    inputs[#inputs + 1] = x:detach():clone():keep():requires_grad_()
    owner[#inputs] = i
    return inputs[#inputs]
  end
  for _, i in ipairs(which) do
    if lt.is_tensor(args[i]) then args[i] = leaf(args[i], i)
    else -- a list of tensors
      local list = {}
      for k, x in ipairs(args[i]) do list[k] = leaf(x, i) end
      args[i] = list
    end
  end
  local function value() return lt.scope(function()
    local total = weigh(outputs_of(fn(unpack(args, 1, n))), weights)
    return total and total:item() or 0
  end) end
  local total = weigh(outputs_of(fn(unpack(args, 1, n))), weights)
  if not total then return "no output depends on the inputs that a gradient is wanted for" end
  -- a rule may be a fused operator by itself and mathematics when a graph of it is wanted: both are checked
  local expected = {}
  for k, x in ipairs(inputs) do expected[k] = numeric(value, x, 1e-6) end
  for _, graph in ipairs(options.second == false and { false } or { false, true }) do
    local grads = { lt.grad(weigh(outputs_of(fn(unpack(args, 1, n))), weights), inputs, { create_graph = graph }) }
    for k in ipairs(inputs) do
      local what = ("gradient of argument %d%s"):format(owner[k], graph and ", with a graph" or "")
      local wrong = compare(flat(grads[k] and grads[k]:detach()), expected[k], options.tolerance or 2e-6, what)
      if wrong then return wrong end
    end
  end
  if options.second == false then return nil end
  -- second derivatives: the gradient of a weighting of the gradients
  local grad_weights = {}
  local function first()
    local y = weigh(outputs_of(fn(unpack(args, 1, n))), weights)
    local g = { lt.grad(y, inputs, { create_graph = true }) }
    local list = {}
    for k = 1, #inputs do
      if g[k] then list[#list + 1] = g[k] end
    end
    return weigh(list, grad_weights)
  end
  local again = first()
  if not again then return nil end -- linear: the gradient does not depend on the inputs
  local seconds = { lt.grad(again, inputs) }
  local function first_value() return lt.scope(function()
    local v = first()
    return v and v:item() or 0
  end) end
  for k, x in ipairs(inputs) do
    local i = owner[k]
    local wrong = compare(flat(seconds[k]), numeric(first_value, x, 1e-5), options.tolerance and options.tolerance * 10 or 2e-5,
      ("second derivative by argument %d"):format(i))
    if wrong then return wrong end
  end
end

return M
