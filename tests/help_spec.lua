-- help(x): operators from the registry, Lua functions from their comments, modules from their banners.

local lt = require "ltrain"
local help = require "ltrain.help"

describe("help", function()
  it("prints an operator's signature and text", function()
    local text = help.text(lt.softmax)
    assert.is_truthy(text:find("^softmax%(x, dim: dim = %-1%)\n"))
    assert.is_truthy(#text > 60)
  end)

  it("finds things by name", function()
    assert.are.equal(help.text(lt.softmax), help.text "softmax")
    assert.are.equal(help.text(lt.softmax), help.text "lt.softmax")
    assert.is_truthy(help.text("Tensor.totable"):find "totable%(t%)")
    assert.is_truthy(help.text("x:sum"):find "^sum%(x")
    assert.is_truthy(help.text("model:fit"):find "^model:fit%(dataset, options%)")
    assert.are.equal("help: nothing is called 'softmx', did you mean 'softmax'?; help(lt) lists what there is", help.text "softmx")
    assert.are.equal("help: nothing is called 'nn.Flurb'; help(lt) lists what there is", help.text "nn.Flurb")
  end)

  it("says what classes are made with", function()
    assert.is_truthy(help.text("nn.Linear"):find("Linear:init(n_in, n_out, options)", 1, true))
    assert.is_truthy(help.text("optim.Adam"):find("options: lr = 0.001, betas = { 0.9, 0.999 }, eps = 1e-08, weight_decay", 1, true))
  end)

  it("describes an instance of a module by its tree", function()
    local linear = lt.nn.Linear(2, 3)
    assert.are.equal("an instance of Linear; its methods: m:<Tab>, help 'nn.Module'\n" .. linear:tree(), help.text(linear))
  end)

  it("tells which operators work in place", function()
    assert.is_truthy(help.text(lt.add):find("in place: x:add_(...)", 1, true))
  end)

  it("reads the comment and the arguments of a Lua function", function()
    local text = help.text(require("ltrain.spec").difference)
    assert.is_truthy(text:find("M.difference(actual, expected, tolerance)", 1, true))
    assert.is_truthy(text:find("The first difference between two numbers", 1, true))
    assert.is_truthy(text:find("  tolerance: number?   default 1e-6", 1, true))
    assert.is_truthy(text:find("  returns string?", 1, true))
  end)

  it("reads the banner of a module and lists what it holds", function()
    local text = help.text(lt.nn)
    assert.is_truthy(text:find "^ltrain%.nn\n")
    assert.is_truthy(text:find("Linear", 1, true))
  end)

  it("describes a tensor, C functions and unknown names", function()
    assert.is_truthy(help.text(lt.tensor { 1, 2 }):find "^a tensor: float32 %[2%]")
    assert.are.equal("a function: built into LuaJIT or written in C", help.text(print))
    assert.are.equal("help: nothing is called 'flurbdiwurb'; help(lt) lists what there is", help.text "flurbdiwurb")
  end)
end)
