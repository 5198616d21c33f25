--- The operator walker: every registered operator has documentation and samples; for each sample the gradients are checked
--- against differences, second ones included, strided inputs give what contiguous ones give, narrow dtypes come close to
--- float64, and elementwise operators take empty and zero-dim inputs.
local lt = require "ltrain"
local bit = require "bit"
local ffi = require "ffi"
local op = require "ltrain.op"
local host = require "ltrain.host"
local gradcheck = require "tests.gradcheck"
local C = ffi.C

-- Every file in tests/samples adds its operators.
local samples = {}
for _, path in ipairs(require("ltrain.spec").files("tests/samples", "%.lua$")) do
  for name, make in pairs(assert(loadfile(path))()) do samples[name] = make end
end

local function has(spec, flag) return bit.band(spec.flags, tonumber(flag)) ~= 0 end
local function call(spec, args) return lt[spec.name](unpack(args, 1, table.maxn(args))) end

-- The same values under other strides: the last dim is every second element of a wider tensor.
local function strided(x)
  if x.ndim_ == 0 then return x end
  local shape = x.shape
  local wide = { unpack(shape) }
  wide[#wide] = shape[#shape] * 2
  local w = lt.zeros(wide, x.dtype)
  if shape[#shape] == 0 then return x end
  local view = w:slice(#shape, 1, -1, 2)
  view:copy_(x)
  return view
end

local function plain(v)
  if not lt.is_tensor(v) then return v end
  return v:totable()
end

local function results(spec, args)
  local list = { call(spec, args) }
  for i, v in ipairs(list) do list[i] = plain(v) end
  return list
end

local function map_tensors(args, fn)
  local copy = {}
  for i = 1, table.maxn(args) do
    local v = args[i]
    if lt.is_tensor(v) then v = fn(v)
    elseif type(v) == "table" and lt.is_tensor(v[1]) then
      local list = {}
      for k, x in ipairs(v) do list[k] = fn(x) end
      v = list
    end
    copy[i] = v
  end
  return copy
end

describe("operator", function()
  for _, spec in ipairs(op.specs) do
    if not has(spec, C.LT_OP_HIDDEN) then
      describe(spec.name, function()
        local make = samples[spec.name]

        it("is documented and has samples", function()
          assert.is_true(#spec.doc > 5, spec.name .. " has no text")
          assert.is_truthy(make, spec.name .. " has no samples; add them in tests/samples/")
        end)
        if not make then return end

        if not has(spec, C.LT_OP_NO_GRADIENT) then
          it("has the gradients that differences give", function()
            local checked = 0
            for i, sample in ipairs(make(lt)) do
              if sample.grad and #sample.grad > 0 then
                local wrong = gradcheck.check(function(...) return lt[spec.name](...) end, sample.args, sample.grad,
                  { tolerance = sample.tol, second = sample.second })
                assert.is_nil(wrong, wrong and ("sample %d: %s"):format(i, wrong))
                checked = checked + 1
              end
            end
            assert.is_true(checked > 0, spec.name .. ": no sample names its differentiable arguments")
          end)
        end

        if not has(spec, C.LT_OP_RANDOM) then
          it("gives the same for strided inputs", function()
            for _, sample in ipairs(make(lt)) do
              local expected = results(spec, sample.args)
              assert.close(results(spec, map_tensors(sample.args, strided)), expected, 1e-12)
            end
          end)

          it("comes close to float64 in narrower dtypes", function()
            for _, sample in ipairs(make(lt)) do
              local expected = results(spec, sample.args)
              for dtype, tolerance in pairs { float32 = 1e-4, bfloat16 = 0.15, float16 = 0.02 } do
                if not sample.dtypes or sample.dtypes[dtype] ~= false then
                  local narrow = map_tensors(sample.args, function(x) return x.dtype == "float64" and x:to(dtype) or x end)
                  -- what float64 gives for the rounded inputs is the value to meet
                  local rounded = map_tensors(narrow, function(x) return x.dtype == dtype and x:to "float64" or x end)
                  if not sample.exact_inputs then expected = results(spec, rounded) end
                  assert.close(results(spec, narrow), expected, sample.narrow or tolerance)
                end
              end
            end
          end)
        end

        if has(spec, C.LT_OP_ELEMENTWISE) then
          it("takes empty and zero-dim inputs", function()
            local sample = make(lt)[1]
            local function reduced(to)
              return map_tensors(sample.args, function(x) return to(x) end)
            end
            local empty = call(spec, reduced(function(x) return x:reshape(-1):slice(1, 1, 0) end))
            assert.same({ 0 }, empty.shape)
            local scalar = call(spec, reduced(function(x) return x:reshape(-1)[1] end))
            assert.same({}, scalar.shape)
          end)
        end
      end)
    end
  end

  it("count matches the registry", function()
    assert.equal(C.lt_op_count(), #op.specs)
    assert.is_truthy(host.home)
  end)
end)
