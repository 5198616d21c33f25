--- NaNs whose spare bits hold something, as a file may bring them. LuaJIT would read such a double as a pointer or a
--- type of its own; every way from a tensor to a Lua number must give a plain NaN.
local ffi = require "ffi"
local lt = require "ltrain"

-- float64 bits that mean nil, false, a table, a string, userdata to LuaJIT; and float16, float32 and bfloat16 twins.
local PATTERNS = {
  float64 = { "uint64_t", { 0xFFFFFFFFFFFFFFFFULL, 0xFFFF7FFFFFFFFFFFULL, 0xFFFA000012345678ULL, 0xFFFD800041414141ULL, 0x7FF0000000000001ULL } },
  float32 = { "uint32_t", { 0xFFFFFFFF, 0xFFFFE000, 0xFFD00001, 0xFFEC0001, 0x7F800001 } },
  float16 = { "uint16_t", { 0xFFFF, 0xFFFE, 0xFE80, 0xFF60, 0x7C01 } },
  bfloat16 = { "uint16_t", { 0xFFFF, 0xFFFE, 0xFFD0, 0xFFEC, 0x7F81 } },
}

local function poisoned(dtype)
  local kind, patterns = PATTERNS[dtype][1], PATTERNS[dtype][2]
  local x = lt.zeros({ #patterns }, dtype)
  local p = ffi.cast(kind .. " *", x:data())
  for i, v in ipairs(patterns) do p[i - 1] = v end
  return x:touch()
end

describe("NaNs with a payload", function()
  for _, dtype in ipairs { "float64", "float32", "float16", "bfloat16" } do
    it("are plain numbers in Lua: " .. dtype, function()
      local x = poisoned(dtype)
      for _, v in ipairs(x:totable()) do
        assert.equal("number", type(v))
        assert.is_true(v ~= v)
      end
      for i = 1, #x do
        local v = x[i]:item()
        assert.equal("number", type(v))
        assert.is_true(v ~= v)
      end
      assert.equal("number", type(x:sum():item()))
      assert.equal(("[nan, nan, nan, nan, nan]\ntensor [5] %s"):format(dtype), tostring(x))
    end)
  end

  it("are plain numbers in the norm of gradients", function()
    local w = lt.ones({ 5 }, "float64"):requires_grad_()
    w:set_grad(poisoned "float64")
    local norm = lt.optim.SGD({ w }, { lr = 1 }):grad_norm()
    assert.equal("number", type(norm))
    assert.is_true(norm ~= norm)
  end)
end)
