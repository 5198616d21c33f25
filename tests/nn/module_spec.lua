-- Module (lua/ltrain/nn/module.lua): the tree, names and their order, state, conversion, printing, paths in errors.
local lt = require "ltrain"
local nn = lt.nn
local fails = require "tests.ops.fails"

local Block = nn.class "Block"
function Block:init(n, m)
  self.second = nn.Linear(n, m)
  self.first = nn.LayerNorm(m)
  self.scale = nn.Parameter(lt.full({ m }, 2))
  self.note = "plain values are no parameters"
  self:register_buffer("steps", lt.zeros { 1 })
end
function Block:forward(x) return self.first(self.second(x)) * self.scale end

local Net = nn.class "Net"
function Net:init()
  self.blocks = nn.Sequential(Block(3, 4), Block(4, 2))
  self.bias = nn.Parameter(lt.zeros { 2 })
end
function Net:forward(x) return self.blocks(x) + self.bias end

local function names(list)
  local out = {}
  for i, entry in ipairs(list) do out[i] = entry.name end
  return out
end

describe("a module", function()
  it("names parameters and buffers in the order of assignment", function()
    local net = Net()
    assert.same({ "blocks.1.second.weight", "blocks.1.second.bias", "blocks.1.first.weight", "blocks.1.first.bias", "blocks.1.scale",
      "blocks.2.second.weight", "blocks.2.second.bias", "blocks.2.first.weight", "blocks.2.first.bias", "blocks.2.scale", "bias" },
      names(net:named_parameters()))
    assert.same({ "blocks.1.steps", "blocks.2.steps" }, names(net:named_buffers()))
    assert.same({ "", "blocks", "blocks.1", "blocks.1.second", "blocks.1.first", "blocks.2", "blocks.2.second", "blocks.2.first" },
      names(net:named_modules()))
    assert.same({ "blocks" }, names(net:children()))
    assert.equal(12 + 4 + 4 + 4 + 4 + 8 + 2 + 2 + 2 + 2 + 2, net:count())
    assert.equal(11, #net:parameters())
  end)

  it("prints as a tree with counts", function()
    assert.equal(table.concat({
      "Net  46",
      "  (blocks) Sequential  44",
      "    (1) Block  28",
      "      (second) Linear 3 -> 4  16",
      "      (first) LayerNorm [4]  8",
      "    (2) Block  16",
      "      (second) Linear 4 -> 2  10",
      "      (first) LayerNorm [2]  4",
      "46 parameters" }, "\n"), tostring(Net()))
    assert.is_truthy(tostring(nn.Linear(1000, 2000)):find("2,002,000 parameters", 1, true))
  end)

  it("switches training for the whole tree", function()
    local net = Net()
    assert.is_true(net.blocks:get(2).first:is_training())
    assert.is_true(net:eval() == net)
    assert.is_false(net.blocks:get(2).first:is_training())
    net:train()
    assert.is_true(net.blocks:get(1):is_training())
    net:train(false)
    assert.is_false(net:is_training())
  end)

  it("lists shared modules and parameters once", function()
    local Twin = nn.class "Twin"
    function Twin:init()
      self.a = nn.Linear(2, 2)
      self.b = self.a
      self.c = nn.Linear(2, 2)
      self.c.weight = self.a.weight
    end
    local twin = Twin()
    assert.same({ "a.weight", "a.bias", "c.bias" }, names(twin:named_parameters()))
    assert.equal(8, twin:count())
    twin:to "float64"
    assert.is_true(twin.c.weight == twin.a.weight)
    assert.equal("float64", twin.c.weight.dtype)
    twin.a.weight:sum():backward()
    assert.is_truthy(twin.c.weight.grad)
  end)

  it("follows names that are assigned anew", function()
    local net = Net()
    net.bias = nil
    assert.equal(10, #net:parameters())
    net.bias = nn.Parameter(lt.zeros { 2 })
    assert.equal("bias", net:named_parameters()[11].name)
    net.bias = 0
    assert.equal(10, #net:parameters())
    net.blocks = nn.Sequential(nn.Linear(3, 2))
    assert.same({ "blocks.1.weight", "blocks.1.bias" }, names(net:named_parameters()))
    net.blocks = nil
    assert.same({}, net:children())
    assert.equal("Net\n0 parameters", tostring(net))
  end)

  it("keeps parameters beyond a step", function()
    local net
    lt.scope(function() net = Net() end)
    assert.equal(4, net.blocks[tostring(1)].scale:sum():item() / 2)
  end)

  it("refuses names of methods, a plain list of modules, and a class without forward", function()
    local net = Net()
    fails("Net: 'count' is a method of modules; give the attribute another name", function() net.count = nn.Linear(1, 1) end)
    fails("Net: 'train' is a method of modules; give the attribute another name", function() net.train = false end)
    fails("Net: 'to' is a method of modules; give the attribute another name", net.register_buffer, net, "to", lt.zeros(1))
    local List = nn.class "List"
    function List:init() self.parts = { nn.Linear(1, 1), nn.Linear(1, 1) } end
    fails("List: 'parts' is a plain list of modules, whose parameters nobody would find; use nn.Sequential(list) or assign each to a name "
      .. "of its own", List)
    local Empty = nn.class "Empty"
    fails("Empty (Empty): Empty: forward is not defined; write function Empty:forward(x) ... end", Empty(), 1)
  end)

  it("inherits", function()
    local Wide = nn.class("Wide", Block)
    function Wide:forward(x) return Block.forward(self, x) * 2 end
    local wide = Wide(3, 4)
    assert.equal(5, #wide:parameters())
    assert.same({ 1, 4 }, wide(lt.zeros(1, 3)).shape)
    assert.is_truthy(tostring(wide):find "^Wide  28\n")
  end)
end)

describe("Module:to", function()
  it("converts parameters and buffers, and leaves the rest", function()
    local net = Net()
    local frozen, before = net.bias:requires_grad_(false), net.blocks:get(1).scale:totable()
    net.blocks:get(1):register_buffer("ids", lt.tensor({ 1 }, "int64"))
    assert.is_true(net:to "float64" == net)
    for _, p in ipairs(net:parameters()) do assert.equal("float64", p.dtype) end
    assert.is_false(net.bias.requires_grad)
    assert.equal("float32", frozen.dtype)
    assert.equal("float64", net.blocks:get(1).steps.dtype)
    assert.equal("int64", net.blocks:get(1).ids.dtype)
    assert.same(before, net.blocks:get(1).scale:totable())
    local same = net.blocks:get(1).scale
    net:to "float64"
    assert.is_true(net.blocks:get(1).scale == same)
    fails("to: a model cannot become 'int64'; it can be float32, float64, bfloat16 or float16", net.to, net, "int64")
    fails("to: a model cannot become 'flot64', did you mean 'float64'?; it can be float32, float64, bfloat16 or float16", net.to, net, "flot64")
  end)

  it("keeps tables tables, and changes nothing when one cannot follow", function()
    local Both = nn.class "Both"
    function Both:init()
      self.linear = nn.Linear(2, 2)
      self.table = nn.Embedding(3, 2)
    end
    local both = Both()
    local weight = both.linear.weight
    fails("table: a table of bfloat16; tables are float32 or float64", both.to, both, "bfloat16")
    assert.is_true(both.linear.weight == weight)
    both:to "float64"
    both.table(lt.tensor({ 1 }, "int64")):sum():backward()
    assert.same({ 1 }, both.table.weight.grad.rows:totable())
  end)
end)

describe("a state dict", function()
  it("goes round", function()
    local a, b = Net(), Net()
    local state = a:state_dict()
    assert.equal(13, #state)
    assert.equal("bias", state[11].name)
    assert.is_true(state["blocks.1.steps"] == a.blocks:get(1).steps)
    lt.no_grad(function() a.blocks:get(1).steps:fill_(5) end)
    assert.is_true(b:load_state_dict(state) == b)
    for i, entry in ipairs(b:state_dict()) do assert.same(state[i].tensor:totable(), entry.tensor:totable()) end
    local x = lt.rand(4, 3)
    assert.same(a(x):totable(), b(x):totable())
  end)

  it("is loaded whole or not at all", function()
    local net = Net()
    local before = net.bias:totable()
    local function state_with(changes)
      local state = {}
      for _, entry in ipairs(Net():state_dict()) do state[entry.name] = entry.tensor + 1 end
      for name, value in pairs(changes) do state[name] = value or nil end
      return state
    end
    fails("load_state_dict: missing in the state: bias, blocks.1.steps; nothing was loaded; pass { strict = false } to load what fits",
      net.load_state_dict, net, state_with { bias = false, ["blocks.1.steps"] = false })
    fails("load_state_dict: not in the model: more, other; nothing was loaded; pass { strict = false } to load what fits",
      net.load_state_dict, net, state_with { other = lt.zeros(1), more = lt.zeros(1) })
    fails("load_state_dict: missing in the state: bias; not in the model: bais; nothing was loaded; pass { strict = false } to load what fits",
      net.load_state_dict, net, state_with { bias = false, bais = lt.zeros(2) })
    fails("load_state_dict: 'bias' is [3] in the state and [2] in the model; nothing was loaded", net.load_state_dict, net,
      state_with { bias = lt.zeros(3) })
    fails("load_state_dict: 'bias' is [3] in the state and [2] in the model; nothing was loaded", net.load_state_dict, net,
      state_with { bias = lt.zeros(3) }, { strict = false })
    fails("load_state_dict: 'bias' is a number in the state; it must be a tensor; nothing was loaded", net.load_state_dict, net,
      state_with { bias = 5 })
    fails("load_state_dict: the state is a number; it must be a table of tensors by name", net.load_state_dict, net, 5)
    fails("Parameter: its value is a number; it must be a tensor", nn.Parameter, 5)
    fails("load_state_dict: unknown option 'stric', did you mean 'strict'?; it knows strict", net.load_state_dict, net, {}, { stric = false })
    assert.same(before, net.bias:totable())
    net:load_state_dict({ bias = lt.tensor { 7, 8 }, other = lt.zeros(1) }, { strict = false })
    assert.same({ 7, 8 }, net.bias:totable())
  end)
end)

describe("an error inside a model", function()
  it("names the very module, at the user's line", function()
    local net = nn.class "DeepFM"
    function net:init() self.mlp = nn.MLP { n_in = 390, hidden = { 400 }, n_out = 1 } end
    function net:forward(x) return self.mlp(x) end
    local model = net()
    local line = debug.getinfo(1, "l").currentline + 1
    local ok, message = pcall(function() local y = model(lt.zeros(2, 3)) return y end)
    assert.is_false(ok)
    assert.equal(("tests/nn/module_spec.lua:%d: DeepFM.mlp.layers.1 (Linear 390 -> 400): linear: x is [2, 3] and w is [400, 390]; the last dim of x "
      .. "(3) must equal the columns of w (390)"):format(line), message)
  end)

  it("leaves no path behind, also when a forward catches it", function()
    local Careful = nn.class "Careful"
    function Careful:init() self.inner = nn.Linear(2, 2) end
    function Careful:forward(x)
      local ok = pcall(self.inner, x)
      return ok and self.inner(x) or self.inner(lt.zeros(1, 2))
    end
    local Outer = nn.class "Outer"
    function Outer:init() self.a, self.b = Careful(), nn.Linear(3, 3) end
    function Outer:forward(x) return self.b(self.a(x)) end
    local ok, message = pcall(Outer(), lt.zeros(1, 9))
    assert.is_false(ok)
    assert.is_truthy(message:find("Outer.b (Linear 3 -> 3): linear: ", 1, true), message)
    local Late = nn.class "Late"
    function Late:init() self.inner = nn.Linear(2, 2) end
    function Late:forward(x)
      pcall(self.inner, lt.zeros(1, 9))
      local y = x + lt.zeros(7)
      return y
    end
    ok, message = pcall(Late(), lt.zeros(2))
    assert.is_false(ok)
    assert.is_truthy(message:find("Late (Late): add: ", 1, true), message)
    local Waiting = nn.class "Waiting"
    function Waiting:forward(x)
      coroutine.yield()
      return x
    end
    local co = coroutine.wrap(function() return Waiting()(lt.zeros(1)) end)
    co()
    local plain
    ok, plain = pcall(function() local y = lt.zeros(2) + lt.zeros(3) return y end)
    assert.is_false(ok)
    assert.is_truthy(plain:find("%d: add: shapes", 1))
  end)
end)
