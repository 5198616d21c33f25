--- Losses by name, as compile uses them: what they refuse. Their values are in evaluate_spec and ops/loss_spec.
local lt = require "ltrain"

describe("bce_with_logits of compile", function()
  local loss = require("ltrain.losses").by_name "bce_with_logits"

  it("refuses labels outside 0 to 1, naming row and value", function()
    local ok, message = pcall(loss, lt.zeros { 4 }, lt.tensor { 0, 1, 2, 0 })
    assert.is_false(ok)
    assert.equal("bce_with_logits: the label of row 3 of the batch is 2; labels lie between 0 and 1 "
      .. "(schema label = { column, at_least = ... } makes them)", (message:gsub("^.-:%d+: ", "")))
    assert.is_false(pcall(loss, lt.zeros { 2 }, lt.tensor { -0.5, 1 }))
  end)

  it("takes soft labels", function()
    assert.close(loss(lt.zeros { 3 }, lt.tensor { 0.25, 0.5, 1 }):item(), math.log(2), 1e-6)
  end)
end)

describe("predict of a model that was only loaded", function()
  it("gives the probabilities that the saved model gave, bit for bit", function()
    local data = lt.data.synthetic_clicks { rows = 300, fields = 5, values = 500, small_fields = 2, seed = 1 }
    local model = require "ltrain.models.deepfm" { features = data:features(), dim = 4, hidden = { 8 } }
    model:compile { optimizer = lt.optim.Adam { lr = 1e-2 }, loss = "bce_with_logits" }
    model:fit(data:batch(100), { verbose = false })
    local path = os.tmpname()
    model:save(path)
    local loaded = lt.load_model(path)
    os.remove(path)
    assert.is_true(model:predict(data:batch(64)):eq(loaded:predict(data:batch(77))):all():item())
  end)
end)

describe("names that people bring along", function()
  it("work: x.T, x.ndim, x:tolist(), sum { dim = }, net[1]", function()
    local x = lt.tensor { { 1, 2 }, { 3, 4 } }
    assert.same({ { 1, 3 }, { 2, 4 } }, x.T:tolist())
    assert.equal(2, x.ndim)
    assert.same({ 4, 6 }, x:sum { dim = 1 }:totable())
    local net = lt.nn.Sequential(lt.nn.Linear(2, 3), lt.nn.ReLU())
    assert.equal(net:get(1), net[1])
    assert.equal(2, #net:parameters())
  end)
end)
