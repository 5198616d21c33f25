--- Arguments of the wrong kind to functions that are no operators: each raises a message of its own at the user's line.
local lt = require "ltrain"
local fails = require "tests.ops.fails"

describe("wrong arguments", function()
  it("to indexing", function()
    local x = lt.ones { 2, 3 }
    fails("index: the key has an entry 'a'; entries are positions, ranges or {}, in order of dims", function() return x[{ a = 1 }] end)
  end)

  it("to files", function()
    fails("load: the path is nil; it must be a text", lt.load)
    fails("load: the path is a table; it must be a text", lt.load_model, {})
    fails("idx: the file name is a number; it must be a text", lt.data.idx, { 3 })
  end)

  it("to models, as a damaged file may bring them", function()
    local deepfm = require "ltrain.models.deepfm"
    local features = { { name = "u", kind = "categorical", size = 9 } }
    fails("FieldEmbedding: dim is x; it must be a whole number of at least 1", deepfm, { features = features, dim = "x", hidden = { 4 } })
    fails("FieldEmbedding: feature 1 is 3; it must be a table { name =, size = }", deepfm, { features = { 3 }, dim = 2, hidden = { 4 } })
    local saved = { format = "ltrain.schema", version = 1, fields = {
      { name = "y", from = "y", role = "label", wants = "number" },
      { name = "a", from = "a", role = "numeric", wants = "number", steps = "x" } } }
    fails('schema: the saved schema is damaged: the steps of "a"', function() require("ltrain.data.schema").from_table(saved) end)
  end)

  it("from functions of the script in backward", function()
    local broken = lt.Function { forward = function(_, x) return x * 2 end, backward = function() return "x" end }
    local y = broken(lt.ones({ 2 }):requires_grad_()):sum()
    fails("function: the gradient of input 1 is a string; it must be a tensor", y.backward, y)
  end)

  it("to functions made of operators", function()
    local x = lt.ones { 2, 3 }
    fails("split: size must be a whole number, got inf", lt.split, x, math.huge)
    fails("chunk: chunks must be a whole number, got inf", lt.chunk, x, math.huge)
    fails("roll: shift must be a whole number, got inf", lt.roll, x, math.huge)
  end)

  it("to operators of lists, with a hole", function()
    fails("stack: element 1 of tensors must be a tensor, got nothing", lt.stack, { nil, lt.ones { 2 } })
  end)

  it("to lt.tensor", function()
    fails("tensor: a table has the key 'a'; it must be a list of values", lt.tensor, { a = 1 })
    fails("tensor: a table has the key 'n'; it must be a list of values", lt.tensor, { { 1, 2 }, { 1, 2, n = 2 } })
    local holed = { 1 }
    holed[3] = 3
    fails("tensor: a list of values has a hole (nil) in it", lt.tensor, holed)
    local own = {}
    own[1] = own
    fails("tensor: tables are nested more than 8 deep", lt.tensor, own)
    local backwards = {}
    for i = 5, 1, -1 do backwards[i] = i end
    assert.same({ 1, 2, 3, 4, 5 }, lt.tensor(backwards):totable())
  end)
end)
