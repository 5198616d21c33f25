--- lt.checkpoint: memory for time. A part of the model is run without recording and run again when its gradients are
--- needed. What runs twice must do the same twice: random numbers do, running statistics of BatchNorm move twice.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local op = require "ltrain.op"
local autograd = require "ltrain.autograd"
local C, raise, H = bridge.C, bridge.raise, bridge.handle
local internal = autograd.internal

-- An input of every checkpoint, so that a graph exists even when only parameters inside want gradients; lt.grad asks for
-- it too, so that it visits every checkpoint.
local anchor = op.functions.zeros({}, "float32"):keep():requires_grad_()
internal.anchor = anchor

---Runs fn(...) now, forgets what it saved, and runs it again when gradients are needed: memory for time. Random numbers
---are the same in both runs. Parameters that fn uses get their gradients too.
---@param fn function of tensors to tensors
return function(fn, ...)
  if type(fn) ~= "function" then raise("checkpoint: give the function to run and its arguments, got " .. type(fn)) end
  local arguments, count = { ... }, select("#", ...)
  if not C.lt_grad_enabled() then return fn(...) end
  local seed, call = ffi.new "int64_t[1]", ffi.new "int64_t[1]"
  C.lt_random_state(seed, call)
  local outputs = internal.fresh_outputs("checkpoint", { autograd.no_grad(fn, ...) })
  local inputs = {}
  for i = 1, count do
    if ffi.istype(H, arguments[i]) then inputs[#inputs + 1] = arguments[i] end
  end
  local with_anchor = { unpack(inputs) }
  with_anchor[#with_anchor + 1] = anchor
  internal.record(with_anchor, outputs, function(...)
    if C.lt_grad_enabled() then
      raise "checkpoint: gradients of gradients do not pass a checkpoint; call the function without it"
    end
    local grads, fresh, leaves = { ... }, {}, {}
    for i = 1, count do
      local v = arguments[i]
      if ffi.istype(H, v) then
        local x = op.functions.detach(v)
        if v.requires_grad then C.lt_set_requires_grad(x, true) end
        leaves[#leaves + 1] = x
        v = x
      end
      fresh[i] = v
    end
    local now_seed, now_call = ffi.new "int64_t[1]", ffi.new "int64_t[1]"
    C.lt_random_state(now_seed, now_call)
    C.lt_set_random_state(seed[0], call[0])
    local again = { pcall(autograd.enable_grad, fn, unpack(fresh, 1, count)) }
    C.lt_set_random_state(now_seed[0], now_call[0])
    if not again[1] then error(again[2], 0) end
    local roots, root_grads = {}, {}
    for i = 1, #outputs do
      if grads[i] and again[i + 1].requires_grad then
        roots[#roots + 1] = again[i + 1]
        root_grads[#root_grads + 1] = grads[i]
      end
    end
    if #roots == 0 then return end
    local results = {}
    local asked = internal.asked()
    if not asked then
      internal.run_pass(roots, root_grads, nil, 0)
      for i, x in ipairs(leaves) do results[i] = x.requires_grad and x.grad or nil end
      for i = 1, #leaves do
        local g = results[i]
        results[i] = type(g) == "table" and g:to_dense() or g -- rows of a table
      end
      return unpack(results, 1, #leaves)
    end
    local wanted, place = {}, {} -- under lt.grad nothing may be added to parameters
    for i, x in ipairs(leaves) do
      if x.requires_grad then
        wanted[#wanted + 1] = x
        place[#wanted] = i
      end
    end
    local own = #wanted
    for _, x in ipairs(asked.xs) do wanted[#wanted + 1] = x end
    local found = internal.run_pass(roots, root_grads, wanted, 0, function(pass) return internal.results_of(pass, #wanted) end)
    for i = 1, own do results[place[i]] = found[i] end
    for i = 1, #asked.xs do asked.add(i, found[own + i]) end
    return unpack(results, 1, #leaves)
  end)
  return unpack(outputs)
end
