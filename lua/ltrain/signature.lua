--- Reads a signature of the C registry ("softmax(x, dim: dim = -1)") into argument descriptions: name, kind, default, and
--- where C expects the value (input number, slot in attr.f or attr.i, or the one list). The grammar is in core/op.c.
local bridge = require "ltrain.ffi"

local PLAIN = { tensor = true, ["tensor?"] = true, operand = true, tensors = true, number = true, int = true,
  bool = true, dim = true, newdim = true, dtype = true, dims = true, ints = true }

local function constant(text, a)
  if text == "nil" then return nil end
  if text == "inf" then return math.huge elseif text == "-inf" then return -math.huge end
  if text == "true" then return true elseif text == "false" then return false end
  return tonumber(text) or text, a
end

-- The default as C wants it; dims stay as the user writes them, they depend on the tensor.
local function default_value(a)
  local d = a.default
  if a.kind == "bool" then return d and 1 or 0 end
  if a.kind == "dtype" then return bridge.dtypes[d] end
  if a.choices then return a.choices[d] end
  if a.list then return {} end
  return d
end

---@param text string
---@return table spec { name, text, args, n_in }
return function(text)
  local name, inside = text:match "^([%w_]+)%((.*)%)$"
  assert(name, "signature: " .. text)
  local spec = { name = name, text = text, args = {}, n_in = 0 }
  local floats, ints, operands = 0, 0, 0
  for piece in inside:gmatch "[^,]+" do
    local arg, kind, default = piece:match "^%s*([%w_]+)%s*:?%s*([^=]-)%s*=%s*(.-)%s*$"
    if not arg then arg, kind = piece:match "^%s*([%w_]+)%s*:?%s*(.-)%s*$" end
    if kind == "" then kind = "tensor" end
    local a = { name = arg, kind = kind, has_default = default ~= nil, position = #spec.args + 1 }
    if not PLAIN[kind] then
      a.kind, a.choices, a.names = "choice", {}, {}
      for word in kind:gmatch "[^|]+" do
        a.choices[word] = #a.names
        a.names[#a.names + 1] = word
      end
      assert(#a.names > 1, ("signature: kind '%s' in %s"):format(kind, text))
    end
    a.list = a.kind == "dims" or a.kind == "ints"
    if a.has_default then
      a.default = constant(default)
      a.default_value = default_value(a)
    end
    a.absent = a.has_default and a.default == nil and (a.kind == "dim" or a.kind == "int") -- C sees -1
    if a.kind == "tensor?" then a.has_default = true end
    spec.args[#spec.args + 1] = a
    spec.args[arg] = a
    if a.kind == "operand" then operands = operands + 1 end
  end
  for _, a in ipairs(spec.args) do
    if a.kind == "tensor" or a.kind == "tensor?" or a.kind == "operand" or a.kind == "tensors" then
      a.input = spec.n_in
      if a.kind == "operand" then a.slot = a.input end
      if a.kind ~= "tensors" then spec.n_in = spec.n_in + 1 end
    elseif a.kind == "number" then
      a.slot = floats
      floats = floats + 1
    elseif not a.list then
      a.slot = ints
      ints = ints + 1
    end
  end
  if operands > 0 then -- operands that are numbers use f[their input]; other numbers follow
    for _, a in ipairs(spec.args) do
      if a.kind == "number" then a.slot = a.slot + spec.n_in end
    end
  end
  return spec
end
