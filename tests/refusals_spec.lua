--- What every operator says to a tensor of the wrong shape or dtype, word for word. The first tensor argument of a sample that
--- an operator refuses as [7, 1, 11, 13], or as bool (float32 for ids), gives its line in tests/golden/refusals.txt. The
--- file was read by people; a new or changed line must be read too before it is put there. Operators without a line take both.
local lt = require "ltrain"
local op = require "ltrain.op"
local spec = require "ltrain.spec"
local host = require "ltrain.host"

local samples = {}
for _, path in ipairs(spec.files("tests/samples", "%.lua$")) do
  for name, make in pairs(assert(loadfile(path))()) do samples[name] = make end
end

local function changed(v, change)
  if change == "shape" then return lt.zeros({ 7, 1, 11, 13 }, v.dtype) end
  return v:to(v.dtype:find "float" and "bool" or "float32")
end

-- "softmax dtype 1: <message>", or nil when nothing is refused.
local function refusal(s, change)
  for _, sample in ipairs(samples[s.name](lt)) do
    for i = 1, table.maxn(sample.args) do
      if lt.is_tensor(sample.args[i]) then
        local args = {}
        for k = 1, table.maxn(sample.args) do args[k] = sample.args[k] end
        args[i] = changed(args[i], change)
        local ok, message = pcall(function() lt[s.name](unpack(args, 1, table.maxn(args))) end)
        if not ok then return ("%s %s %d: %s"):format(s.name, change, i, (tostring(message):gsub("^.-:%d+: ", ""))) end
      end
    end
  end
end

describe("an operator's refusal", function()
  local recorded, met = {}, {}
  for line in io.lines(host.home .. "/tests/golden/refusals.txt") do recorded[line:match "^[%w_]+ %w+"] = line end

  for _, s in ipairs(op.specs) do
    if op.is_public(s) then
      for _, change in ipairs { "shape", "dtype" } do
        local key = s.name .. " " .. change
        met[key] = true
        if recorded[key] then
          it("of a wrong " .. change .. " is the recorded text: " .. s.name, function() assert.equal(recorded[key], refusal(s, change)) end)
        else
          it("of a wrong " .. change .. " has no recorded text, because it takes it: " .. s.name, function()
            assert.is_nil(refusal(s, change))
          end)
        end
      end
    end
  end

  it("is recorded only for operators that there are", function()
    for key in pairs(recorded) do assert.is_true(met[key], key) end
  end)
end)
