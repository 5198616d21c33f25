-- Optimizer steps (core/step.c): every formula against plain loops, to the bit in float64 and in float32; tables swept
-- exactly against dense steps, to the bit; lazy steps touch their rows only; norms; every error's text.
local ffi = require "ffi"
local lt = require "ltrain"
local bridge = require "ltrain.ffi"
local fails = require "tests.ops.fails"
local lookups = require "tests.ops.lookups"
local C, check = bridge.C, bridge.check

ffi.cdef "double pow(double x, double y);"

local SGD, ADAM, ADAGRAD = tonumber(C.LT_STEP_SGD), tonumber(C.LT_STEP_ADAM), tonumber(C.LT_STEP_ADAGRAD)
local NESTEROV, DECOUPLED = tonumber(C.LT_STEP_NESTEROV), tonumber(C.LT_STEP_DECOUPLED)
local BATCH_DECAY = tonumber(C.LT_STEP_BATCH_DECAY)

local function options(rule, fields)
  local o = ffi.new "lt_step_options"
  C.lt_step_defaults(rule, o)
  for key, value in pairs(fields or {}) do o[key] = value end
  return o
end

local function pointers(list)
  local array = ffi.new("const lt_handle *[?]", #list + 1)
  for i, t in ipairs(list) do array[i - 1] = t end
  return array
end

local function step(o, params, grads, states, steps)
  local numbers = steps and ffi.new("int64_t[?]", #steps, steps) or nil
  check(C.lt_step(o, pointers(params), pointers(grads), pointers(states), numbers, #params))
end

-- Rounding of the computing type: doubles as they are, floats after every operation.
local cell = ffi.new "float[1]"
local function to_float(x)
  cell[0] = x
  return cell[0]
end
local function itself(x) return x end

-- One element's step by the formulas of PyTorch, in their order. s holds the state.
local function reference(o, lazy, p, g, s, t, r)
  local l2 = bit.band(o.flags, DECOUPLED) == 0 and o.weight_decay or 0
  g = r(g * r(o.grad_scale))
  g = r(g + r(r(l2) * p))
  if bit.band(o.flags, DECOUPLED) ~= 0 then p = r(p * r(1 - o.lr * o.weight_decay)) end
  if o.rule == SGD then
    if o.momentum ~= 0 then
      s[1] = r(r(s[1] * r(o.momentum)) + r(r(t == 1 and 1 or 1 - o.dampening) * g))
      g = bit.band(o.flags, NESTEROV) ~= 0 and r(g + r(r(o.momentum) * s[1])) or s[1]
    end
    return r(p + r(r(-o.lr) * g))
  elseif o.rule == ADAGRAD then
    s[1] = r(s[1] + r(g * g))
    local rate = r(-(o.lr / (1 + (t - 1) * o.lr_decay)))
    return r(p + r(r(rate * g) / r(r(math.sqrt(s[1])) + r(o.eps))))
  end
  local left1, left2 = 1 - C.pow(o.beta1, t), math.sqrt(1 - C.pow(o.beta2, t))
  local w1, w2 = r(1 - o.beta1), r(1 - o.beta2)
  if lazy then
    s[1] = r(s[1] + r(r(g - s[1]) * w1))
    s[2] = r(s[2] + r(r(r(g * g) - s[2]) * w2))
    return r(p + r(r(-(o.lr * left2 / left1)) * r(s[1] / r(r(math.sqrt(s[2])) + r(o.eps)))))
  end
  if w1 < 0.5 then s[1] = r(s[1] + r(w1 * r(g - s[1])))
  else s[1] = r(g - r(r(g - s[1]) * r(1 - w1))) end
  s[2] = r(r(s[2] * r(o.beta2)) + r(r(w2 * g) * g))
  return r(p + r(r(r(-(o.lr / left1)) * s[1]) / r(r(r(math.sqrt(s[2])) / r(left2)) + r(o.eps))))
end

local KINDS = {
  { "sgd", SGD, { lr = 0.1 } },
  { "sgd with decay and scale", SGD, { lr = 0.1, weight_decay = 0.01, grad_scale = 0.37 } },
  { "momentum", SGD, { lr = 0.1, momentum = 0.9, dampening = 0.2, weight_decay = 0.01 } },
  { "nesterov", SGD, { lr = 0.1, momentum = 0.9, flags = NESTEROV } },
  { "sgd with decoupled decay", SGD, { lr = 0.1, momentum = 0.8, weight_decay = 0.1, flags = DECOUPLED } },
  { "adam", ADAM, { lr = 0.01 } },
  { "adam with decay", ADAM, { lr = 0.01, weight_decay = 0.1, grad_scale = 2 } },
  { "adam with a short memory", ADAM, { lr = 0.01, beta1 = 0.3, beta2 = 0.5, eps = 1e-3 } },
  { "adamw", ADAM, { lr = 0.01, weight_decay = 0.1, flags = DECOUPLED } },
  { "adagrad", ADAGRAD, { lr = 0.1, lr_decay = 0.05, weight_decay = 0.01 } },
}

local function flat_numbers(number, n, r)
  local list = {}
  for i = 1, n do list[i] = r(number() * 2 - 1) end
  return list
end

describe("step", function()
  for _, kind in ipairs(KINDS) do
    local name, rule, fields = kind[1], kind[2], kind[3]
    it("follows the formula of " .. name .. ", to the bit", function()
      for dtype, r in pairs { float64 = itself, float32 = to_float } do
        local o, number, n = options(rule, fields), lookups.numbers(5), 37
        local p = flat_numbers(number, n, r)
        local param, states, expected_states = lt.tensor(p, dtype), {}, {}
        for k = 1, C.lt_step_states(o) do states[k] = lt.zeros({ n }, dtype) end
        for i = 1, n do expected_states[i] = { 0, 0 } end
        for t = 1, 4 do
          local g = flat_numbers(number, n, r)
          o.step = t
          step(o, { param }, { lt.tensor(g, dtype) }, states)
          for i = 1, n do p[i] = reference(o, false, p[i], g[i], expected_states[i], t, r) end
        end
        assert.same(p, param:totable())
        for k, s in ipairs(states) do
          local list = {}
          for i = 1, n do list[i] = expected_states[i][k] end
          assert.same(list, s:totable())
        end
      end
    end)
  end

  it("steps many parameters at once, each with its own step number", function()
    local number, sizes = lookups.numbers(3), { 1, 20000, 7, 0, 8192, 8193, 300 }
    local function setup()
      local params, grads, states = {}, {}, {}
      for i, n in ipairs(sizes) do
        params[i], grads[i] = lt.tensor(flat_numbers(number, n, itself)), lt.tensor(flat_numbers(number, n, itself))
        if n == 0 then params[i], grads[i] = lt.zeros { 0 }, lt.zeros { 0 } end
        states[2 * i - 1], states[2 * i] = lt.zeros { n }, lt.zeros { n }
      end
      return params, grads, states
    end
    local params, grads, states = setup()
    local steps = { 1, 5, 2, 9, 1, 30, 4 }
    local alone = {}
    for i = 1, #sizes do
      local p, m, v = params[i]:clone(), states[2 * i - 1]:clone(), states[2 * i]:clone()
      step(options(ADAM, { step = steps[i] }), { p }, { grads[i] }, { m, v })
      alone[i] = lookups.bytes(p) .. lookups.bytes(m) .. lookups.bytes(v)
    end
    local start = {}
    for i, p in ipairs(params) do start[i] = p:clone() end
    lookups.same_for_threads(function()
      local bytes = {}
      for i, p in ipairs(params) do
        p:copy_(start[i])
        states[2 * i - 1]:zero_()
        states[2 * i]:zero_()
      end
      step(options(ADAM), params, grads, states, steps)
      for i, p in ipairs(params) do
        bytes[i] = lookups.bytes(p) .. lookups.bytes(states[2 * i - 1]) .. lookups.bytes(states[2 * i])
        assert.equal(alone[i], bytes[i])
      end
      return table.concat(bytes)
    end)
  end)

  it("takes strided parameters and gradients", function()
    local number = lookups.numbers(9)
    local values, g = lookups.matrix(number, 30, 11), lookups.matrix(number, 30, 11)
    local expected = lt.tensor(values)
    step(options(ADAM), { expected }, { lt.tensor(g) }, { lt.zeros { 30, 11 }, lt.zeros { 30, 11 } })
    local padded = lookups.table(values, "float32")
    step(options(ADAM), { padded }, { lt.tensor(g) }, { lt.zeros { 30, 11 }, lookups.table(lookups.matrix(
      function() return 0.5 end, 30, 11), "float32") })
    assert.equal(lookups.bytes(expected), lookups.bytes(padded))
    local plain = lt.tensor(values)
    step(options(ADAM), { plain }, { lt.tensor(g):t():contiguous():t() }, { lt.zeros { 30, 11 }, lt.zeros { 30, 11 } })
    assert.equal(lookups.bytes(expected), lookups.bytes(plain))
  end)

  it("tells that parameters were written", function()
    local p = lt.tensor({ 1, 2 }, { requires_grad = true })
    local y = (p * p):sum()
    step(options(SGD), { p }, { lt.zeros { 2 } }, {})
    assert.is_false(pcall(y.backward, y))
  end)

  it("says what does not fit", function()
    local p, g = lt.zeros { 3 }, lt.zeros { 3 }
    local function run(o, params, grads, states) return function() step(o, params, grads, states) end end
    fails("sgd: parameter 2 is [3] float32 and its gradient [2] float32; they must agree",
      run(options(SGD), { p, p }, { g, lt.zeros { 2 } }, {}))
    fails("adam: parameter 1 is [3] float32 and its state [3] float64; they must agree",
      run(options(ADAM), { p }, { g }, { lt.zeros { 3 }, lt.zeros({ 3 }, "float64") }))
    fails("adamw: parameter 1 is int64; steps compute in float32 or float64",
      run(options(ADAM, { flags = DECOUPLED }), { lt.zeros({ 3 }, "int64") }, { g }, { g, g }))
    fails("adagrad: lr is -1; it must not be negative", run(options(ADAGRAD, { lr = -1 }), { p }, { g }, { g }))
    fails("sgd: weight_decay is -0.5; it must not be negative", run(options(SGD, { weight_decay = -0.5 }), { p },
      { g }, {}))
    fails("sgd: momentum is -2; it must not be negative", run(options(SGD, { momentum = -2 }), { p }, { g }, { g }))
    fails("sgd: nesterov needs a momentum above 0 and no dampening; they are 0 and 0",
      run(options(SGD, { flags = NESTEROV }), { p }, { g }, {}))
    fails("adam: betas are 1 and 0.999; each must be at least 0 and below 1",
      run(options(ADAM, { beta1 = 1 }), { p }, { g }, { g, g }))
    fails("adam: eps is -1; it must not be negative", run(options(ADAM, { eps = -1 }), { p }, { g }, { g, g }))
    fails("adam: step 0; steps count from 1", run(options(ADAM, { step = 0 }), { p }, { g }, { g, g }))
    fails("step: there is no rule 7", run(options(7), { p }, { g }, { g, g }))
    local odd = lt.zeros { 4, 6 }:slice(2, 1, 6, 2)
    fails("sgd: parameter 1 of shape [4, 3] or its state has strides that a step cannot walk; use x:contiguous()",
      run(options(SGD), { odd }, { lt.zeros { 4, 3 } }, {}))
  end)
end)

-- A table with its states, and a gradient for some rows.
local function sparse_problem(o, rows, width, touched, dtype, seed)
  local number, q = lookups.numbers(seed), {}
  q.values = lookups.matrix(number, rows, width)
  local states = ffi.new("lt_handle[2]")
  q.table, q.states = lookups.table(q.values, dtype), {}
  check(C.lt_table_adopt(q.table, C.lt_step_states(o), states))
  for k = 1, C.lt_step_states(o) do
    q.states[k] = bridge.handle()
    ffi.copy(q.states[k], states + (k - 1), 16)
    q.states[k]:copy_(lt.tensor(lookups.matrix(number, rows, width), dtype):abs())
  end
  q.rows = {}
  for r = 0, rows - 1 do
    if number() < touched then q.rows[#q.rows + 1] = r end
  end
  q.grads = lookups.matrix(number, #q.rows, width)
  return q
end

local function table_step(name, o, q, rows)
  local ids = rows and lt.tensor(q.rows, rows)
  check(C[name](o, q.table, pointers(q.states), ids, ids and lt.tensor(q.grads, q.table.dtype)))
end

describe("exact step of a table", function()
  it("gives the dense step's bits, also for rows without a gradient", function()
    for _, kind in ipairs(KINDS) do
      for _, width in ipairs { 1, 5, 10, 11, 16, 17, 33 } do
        for _, dtype in ipairs { "float32", "float64" } do
          local o = options(kind[2], kind[3])
          o.step = 3
          local q = sparse_problem(o, 61, width, 0.3, dtype, width)
          local dense, param, states = lt.zeros({ 61, width }, dtype), q.table:clone(), {}
          for i, r in ipairs(q.rows) do dense[r + 1]:copy_(lt.tensor(q.grads[i], dtype)) end
          for k, s in ipairs(q.states) do states[k] = s:clone() end
          step(o, { param }, { dense }, states)
          table_step("lt_step_exact", o, q, "int64")
          assert.equal(lookups.bytes(param), lookups.bytes(q.table), kind[1])
          for k, s in ipairs(q.states) do assert.equal(lookups.bytes(states[k]), lookups.bytes(s), kind[1]) end
        end
      end
    end
  end)

  it("takes no gradient at all, large tables, and decay of the batch's rows only", function()
    local o = options(ADAM, { weight_decay = 0.1, flags = BATCH_DECAY })
    local q = sparse_problem(o, 5000, 11, 0.1, "float64", 2)
    local before, m, v = q.table:totable(), q.states[1]:totable(), q.states[2]:totable()
    table_step("lt_step_exact", o, q, "int32")
    local after, k = q.table:totable(), 1
    for r = 1, 5000, 1 do
      local touched = q.rows[k] == r - 1
      local g = touched and q.grads[k][4] or 0
      local plain = options(ADAM, { weight_decay = touched and 0.1 or 0 })
      assert.equal(reference(plain, false, before[r][4], g, { m[r][4], v[r][4] }, 1, itself), after[r][4])
      if touched then k = k + 1 end
    end
    local momentum = options(SGD, { momentum = 0.5, step = 2 })
    q = sparse_problem(momentum, 3, 2, 0, "float64", 4)
    before, m = q.table:totable(), q.states[1]:totable()
    table_step("lt_step_exact", momentum, q)
    for r = 1, 3 do
      for c = 1, 2 do assert.equal(before[r][c] + -0.01 * (m[r][c] * 0.5), q.table:totable()[r][c]) end
    end
  end)
end)

describe("lazy step of a table", function()
  it("follows the formula on its rows and leaves the others alone, to the bit", function()
    for _, kind in ipairs(KINDS) do
      for dtype, r in pairs { float64 = itself, float32 = to_float } do
        local o = options(kind[2], kind[3])
        o.step, o.flags = 3, bit.bor(o.flags, BATCH_DECAY)
        local q = sparse_problem(o, 61, 11, 0.3, dtype, 8)
        local p, s = q.table:totable(), {}
        for k, state in ipairs(q.states) do s[k] = state:totable() end
        for i, row in ipairs(q.rows) do
          for c = 1, 11 do
            local own = { s[1] and s[1][row + 1][c], s[2] and s[2][row + 1][c] }
            p[row + 1][c] = reference(o, true, p[row + 1][c], r(q.grads[i][c]), own, 3, r)
            for k = 1, #q.states do s[k][row + 1][c] = own[k] end
          end
        end
        table_step("lt_step_lazy", o, q, "int64")
        assert.same(p, q.table:totable())
        for k, state in ipairs(q.states) do assert.same(s[k], state:totable()) end
      end
    end
  end)

  it("has the same bits for any number of threads", function()
    local o = options(ADAM, { step = 2 })
    for _, name in ipairs { "lt_step_lazy", "lt_step_exact" } do
      lookups.same_for_threads(function()
        local q = sparse_problem(o, 9000, 11, 0.5, "float32", 6)
        table_step(name, o, q, "int64")
        return lookups.bytes(q.table) .. lookups.bytes(q.states[1]) .. lookups.bytes(q.states[2])
      end)
    end
  end)

  it("says what does not fit", function()
    local o = options(SGD)
    local q = sparse_problem(o, 10, 2, 0, "float32", 1)
    local function run(rows, grads, with)
      q.rows, q.grads = rows, grads
      return function() table_step("lt_step_lazy", with or o, q, "int64") end
    end
    fails("sgd: the gradient's rows run from 3 to 3; they must rise, each once, within 0 to 9", run({ 3, 3 }, { { 1,
      2 }, { 1, 2 } }))
    fails("sgd: the gradient's rows run from 3 to 10; they must rise, each once, within 0 to 9", run({ 3, 10 },
      { { 1, 2 }, { 1, 2 } }))
    fails("sgd: the gradient's rows run from -1 to 3; they must rise, each once, within 0 to 9", run({ -1, 3 },
      { { 1, 2 }, { 1, 2 } }))
    fails("sgd: rows [1] and values [2, 2] float32 do not fit a table of shape [10, 2] float32",
      run({ 3 }, { { 1, 2 }, { 1, 2 } }))
    fails("sgd: rows [1] and values [1, 3] float32 do not fit a table of shape [10, 2] float32",
      run({ 3 }, { { 1, 2, 3 } }))
    fails("sgd: weight decay over the whole table touches every row and a lazy update does not; " ..
      "let only the rows of the batch decay, or use the exact update",
      run({ 3 }, { { 1, 2 } }, options(SGD, { weight_decay = 0.1 })))
    fails("sgd: the table is [4]; a table is [rows, width]", function()
      check(C.lt_step_lazy(o, lt.zeros { 4 }, pointers {}, lt.tensor({ 1 }, "int64"), lt.zeros { 1, 4 }))
    end)
  end)
end)

describe("grad_norm", function()
  local out = ffi.new "double[1]"
  local function norm(list)
    check(C.lt_grad_norm(pointers(list), #list, out))
    return out[0]
  end

  it("is the root of all squares, summed in double, with the same bits for any number of threads", function()
    local number = lookups.numbers(12)
    local a, b = flat_numbers(number, 30000, to_float), lookups.matrix(number, 40, 11)
    local total = 0
    for _, x in ipairs(a) do total = total + x * x end
    for _, row in ipairs(b) do
      for _, x in ipairs(row) do total = total + x * x end
    end
    local tensors = { lt.tensor(a), lt.tensor(b, "float64"), lt.zeros { 0 } }
    assert.close(norm(tensors), math.sqrt(total), 1e-13)
    assert.close(norm { lookups.table(b, "float64"), tensors[1] }, math.sqrt(total), 1e-13)
    lookups.same_for_threads(function() return ("%.17g"):format(norm(tensors)) end)
    assert.equal(0, norm {})
    assert.equal(5, norm { lt.tensor { 3, -4 } })
  end)

  it("shows NaN and infinity, and survives what float32 squares do not", function()
    assert.is_true(norm { lt.tensor { 1, 0 / 0 } } ~= norm { lt.tensor { 1, 0 / 0 } })
    assert.equal(math.huge, norm { lt.tensor { 1, math.huge } })
    assert.close(norm { lt.tensor({ 3e30, 4e30 }, "float32") } / 5e30, 1, 1e-6)
  end)

  it("takes floats only", function()
    fails("grad_norm: gradient 1 is int64; it must be float32 or float64", norm, { lt.zeros({ 1 }, "int64") })
  end)
end)
