--- Gradients on the Lua side: backward, lt.grad, no_grad, hooks, operators written in Lua (lt.Function), checkpoint and
--- anomaly mode. The pass itself is C; it is stepped here, because C never calls Lua: it answers with the number of the
--- function that it wants run.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local op = require "ltrain.op"
local C, raise, check = bridge.C, bridge.raise, bridge.check
local H = bridge.handle

local M = {}

-- ---- numbers for functions that C remembers ----

local functions, next_number, since_sweep = {}, 1, 0
local gone = ffi.new "int64_t[256]"

local function sweep()
  repeat
    local n = C.lt_functions_dropped(gone, 256)
    for i = 0, n - 1 do functions[tonumber(gone[i])] = nil end
  until n < 256
end

local function number_of(fn)
  since_sweep = since_sweep + 1
  if since_sweep >= 256 then
    since_sweep = 0
    sweep()
  end
  local number = next_number
  next_number = number + 1
  functions[number] = fn
  return number
end

-- ---- recording on and off ----

local function restoring(was, ok, ...)
  C.lt_grad_enable(was)
  if not ok then error((...), 0) end
  return ...
end

local function check_function(fn, what)
  if type(fn) == "function" then return end
  raise(("%s: give the function to run, %s(function() ... end), got %s"):format(what, what, fn == nil and "nothing" or type(fn)))
end

---Runs fn(...) without recording gradients.
---@param fn function
---@return any ... what fn returns
function M.no_grad(fn, ...)
  check_function(fn, "no_grad")
  return restoring(C.lt_grad_enable(false), pcall(fn, ...))
end

---Runs fn(...) with recording, also inside no_grad.
function M.enable_grad(fn, ...)
  check_function(fn, "enable_grad")
  return restoring(C.lt_grad_enable(true), pcall(fn, ...))
end

function M.is_grad_enabled() return C.lt_grad_enabled() end

-- ---- anomaly mode ----

local lines = {} -- sequence number of a node -> user's line

op.state.note_anomaly = function(t)
  local seq = tonumber(C.lt_node_seq(t))
  if seq > 0 then lines[seq] = bridge.user_line() end
end

---Looks for NaN after every operator and names the operator and its line when one is born. Slow; for debugging.
---@param on boolean|nil default true
function M.detect_anomaly(on)
  on = on ~= false
  op.state.anomaly = on
  op.state.watch = on or op.state.lines ~= nil
  lines = {}
  C.lt_anomaly(on)
end

-- ---- the pass ----

-- Lists that a script gave hold tensors.
local function check_tensors(where, what, list)
  for i, t in ipairs(list) do
    if not ffi.istype(H, t) then raise(("%s: %s %d is a %s; it must be a tensor"):format(where, what, i, type(t))) end
  end
end

local function pointers(list)
  if not list then return nil end
  local array = ffi.new("const lt_handle *[?]", math.max(#list, 1))
  for i, t in ipairs(list) do array[i - 1] = t or nil end
  return array
end

local function fail_in_pass(pass)
  local message, line = bridge.last_error(), op.state.anomaly and lines[tonumber(C.lt_backward_at(pass))]
  raise(line and ("backward of the operator at %s: %s"):format(line, message) or message)
end

local function serve_function(pass, fn, n)
  local grads = {}
  for i = 1, n do
    local g = H()
    check(C.lt_backward_grad(pass, i - 1, g))
    grads[i] = g.t_ ~= nil and g or nil
  end
  local results = { fn(unpack(grads, 1, n)) }
  for i = 1, table.maxn(results) do
    if results[i] then
      bridge.expect("function", "the gradient of input " .. i, results[i], "tensor")
      check(C.lt_backward_give(pass, i - 1, results[i]))
    end
  end
end

local function serve_hook(pass, fn)
  if not fn then return end -- removed since the pass began
  local g = H()
  check(C.lt_backward_grad(pass, 0, g))
  local replaced = fn(g)
  if replaced ~= nil then
    if not ffi.istype(H, replaced) then raise(("hook: it returned a %s; return a tensor or nothing"):format(type(replaced))) end
    check(C.lt_backward_give(pass, 0, replaced))
  end
end

-- Functions of the script run without recording, unless the pass makes a graph.
local function drive(pass, creates_graph)
  local number, n = ffi.new "int64_t[1]", ffi.new "int[1]"
  local retried = false
  while true do
    local status = C.lt_backward_next(pass, number, n)
    if status == 0 then return end
    if status == C.LT_ERR_MEMORY and not retried then
      bridge.collect()
      C.lt_memory_trim()
      retried = true
    elseif status < 0 then
      fail_in_pass(pass)
    else
      retried = false
      if status == C.LT_REQUEST_COLLECT then bridge.collect()
      else
        local fn = functions[tonumber(number[0])]
        local was = C.lt_grad_enable(creates_graph)
        if status == C.LT_REQUEST_HOOK then serve_hook(pass, fn) else serve_function(pass, fn, n[0]) end
        C.lt_grad_enable(was)
      end
    end
  end
end

local nested = 0 -- passes inside one another: checkpoints
local asked -- what the innermost lt.grad asks for: { xs =, add = }

-- A pass is freed at its end, also when a rule raises.
local function run_pass(roots, grads, wrt, flags, finish)
  local out = ffi.new "lt_backward *[1]"
  local status = C.lt_backward_new(pointers(roots), pointers(grads), #roots, pointers(wrt), wrt and #wrt or 0, flags, out)
  if status == C.LT_ERR_MEMORY then
    bridge.collect()
    C.lt_memory_trim()
    status = C.lt_backward_new(pointers(roots), pointers(grads), #roots, pointers(wrt), wrt and #wrt or 0, flags, out)
  end
  if status < 0 then check(status) end
  local pass = out[0]
  local was = C.lt_grad_enabled()
  nested = nested + 1
  local ok, message = pcall(drive, pass, bit.band(flags, tonumber(C.LT_BACKWARD_CREATE_GRAPH)) ~= 0)
  nested = nested - 1
  C.lt_grad_enable(was)
  local result
  if ok and finish then ok, result = pcall(finish, pass) message = result end
  C.lt_backward_free(pass)
  if op.state.anomaly and nested == 0 then lines = {} end
  if not ok then error(message, 0) end
  return result
end

local function flags_of(options)
  local flags = 0
  if options.create_graph then flags = flags + tonumber(C.LT_BACKWARD_CREATE_GRAPH) end
  if options.retain_graph or (options.create_graph and options.retain_graph ~= false) then
    flags = flags + tonumber(C.LT_BACKWARD_RETAIN)
  end
  return flags
end

---Adds the gradient of `t` to every leaf it was made from.
---@param t userdata a tensor; without options.grad it must have one element
---@param options table|nil { grad = tensor, retain_graph = false, create_graph = false }
function M.backward(t, options)
  options = bridge.options("backward", options, { "grad", "retain_graph", "create_graph" })
  bridge.expect("backward", "argument 1", t, "tensor")
  if options.grad ~= nil then check_tensors("backward", "gradient", { options.grad }) end
  local before = asked
  asked = nil -- inside a function that lt.grad runs, this pass adds to leaves all the same
  local ok, message = pcall(run_pass, { t }, options.grad and { options.grad } or nil, nil, flags_of(options))
  asked = before
  if not ok then error(message, 0) end
end

-- What a pass of lt.grad found for each input, nil where y does not depend on it.
local function results_of(pass, n)
  local list = {}
  for i = 1, n do
    local g = H()
    check(C.lt_backward_result(pass, i - 1, g))
    list[i] = g.t_ ~= nil and g or nil
  end
  return list
end

---Gradients of y with respect to xs, returned instead of added to leaves. An x that y does not depend on gives nil.
---@param y userdata
---@param xs userdata|table one tensor or a list
---@param options table|nil { grad = tensor, retain_graph = false, create_graph = false }
---@return userdata ... one tensor for each x
function M.grad(y, xs, options)
  options = bridge.options("grad", options, { "grad", "retain_graph", "create_graph" })
  if ffi.istype(H, xs) then xs = { xs } end
  if type(xs) ~= "table" or #xs == 0 then raise "grad: give one tensor or a list of tensors to differentiate by" end
  bridge.expect("grad", "argument 1", y, "tensor")
  check_tensors("grad", "input", xs)
  if options.grad ~= nil then check_tensors("grad", "gradient", { options.grad }) end
  local n, before, wanted, inside = #xs, asked, xs, {}
  if M.internal.anchor then wanted = { M.internal.anchor, unpack(xs) } end
  asked = { xs = xs, add = function(i, g) -- what a checkpoint found for an input that its function uses by itself
    if g then inside[i] = inside[i] and op.functions.add(inside[i], g) or g end
  end }
  local ok, results = pcall(run_pass, { y }, options.grad and { options.grad } or nil, wanted, flags_of(options), function(pass)
    return results_of(pass, #wanted)
  end)
  asked = before
  if not ok then error(results, 0) end
  local skip = #wanted - n
  for i = 1, n do
    local g = results[skip + i]
    results[skip + i] = g and inside[i] and op.functions.add(g, inside[i]) or g or inside[i]
  end
  return unpack(results, skip + 1, skip + n)
end

-- ---- hooks and functions of the script ----

function M.register_hook(t, fn)
  if type(fn) ~= "function" then raise(("register_hook: give a function of the gradient, got %s"):format(type(fn))) end
  local number = number_of(fn)
  local status = C.lt_add_hook(t, number)
  if status < 0 then functions[number] = nil end
  check(status)
  return {
    remove = function()
      if functions[number] then C.lt_remove_hook(t, number) end
      functions[number] = nil
    end,
  }
end

-- Outputs made without recording get a history of their own; one that has a history already (an input handed through, a
-- parameter) or comes a second time is shown anew.
local function fresh_outputs(where, outputs)
  for i = 1, table.maxn(outputs) do
    local t = outputs[i]
    if not ffi.istype(H, t) then raise(("%s: output %d is a %s; it must be a tensor"):format(where, i, type(t))) end
    local again = t.requires_grad
    for k = 1, i - 1 do again = again or outputs[k] == t end
    if again then outputs[i] = op.functions.detach(t) end
  end
  return outputs
end

-- Ties outputs, made without recording, to `backward`.
local function record(inputs, outputs, backward)
  local number = number_of(backward)
  local ins = pointers(inputs)
  local outs = ffi.new("lt_handle *[?]", math.max(#outputs, 1))
  for i, t in ipairs(outputs) do outs[i - 1] = t end
  local status = C.lt_record(number, ins, #inputs, outs, #outputs)
  if status ~= C.LT_GC_DUE then functions[number] = nil end -- nothing was recorded
  if status < 0 then check(status) end
end

---An operator written in Lua: lt.Function { forward = function(context, ...) ... end, backward = function(context, ...)
---... end }. forward gets the arguments and returns tensors; what it puts into `context` is there in backward, which gets
---the gradient of each output (nil when unused) and returns the gradient of each tensor argument, in order.
---@param definition table
---@return function
function M.Function(definition)
  definition = bridge.options("Function", definition, { "forward", "backward", "name" })
  if type(definition.forward) ~= "function" or type(definition.backward) ~= "function" then
    raise "Function: forward and backward must both be functions"
  end
  return function(...)
    local context, inputs = {}, {}
    for i = 1, select("#", ...) do
      local v = select(i, ...)
      if ffi.istype(H, v) then inputs[#inputs + 1] = v end
    end
    local outputs = fresh_outputs(definition.name or "Function", { M.no_grad(definition.forward, context, ...) })
    record(inputs, outputs, function(...) return definition.backward(context, ...) end)
    return unpack(outputs)
  end
end

-- For checkpoint.lua.
M.internal = { record = record, fresh_outputs = fresh_outputs, run_pass = run_pass, results_of = results_of,
  asked = function() return asked end }

---Runs fn(...) now and again when gradients are needed; see checkpoint.lua.
function M.checkpoint(fn, ...) return require "ltrain.checkpoint"(fn, ...) end

return M
