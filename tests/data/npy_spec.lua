-- Npy files against NumPy's own, in every version, order and element type, and against damaged ones.
local ffi = require "ffi"
local C = ffi.C
local scratch = dofile((debug.getinfo(1, "S").source:match("^@(.*/)") or "./") .. "scratch.lua")
local ok, failure = scratch.ok, scratch.failure

local KINDS = { [0] = "float", "double", "uint16_t", "uint16_t", "int64_t", "int32_t", "uint8_t", "bool" }

local function half(bits) -- finite ones only
  local sign = bits >= 0x8000 and -1 or 1
  local exponent, mantissa = math.floor(bits / 1024) % 32, bits % 1024
  if exponent == 0 then return sign * mantissa * 2 ^ -24 end
  return sign * (1024 + mantissa) * 2 ^ (exponent - 25)
end

local function open(path)
  local out = ffi.new "lt_npy *[1]"
  ok(C.lt_npy_open(path, out))
  return ffi.gc(out[0], C.lt_npy_close)
end

local function refusal(path) return failure(C.lt_npy_open(path, ffi.new "lt_npy *[1]")) end

local function info(file)
  local header = ffi.new "lt_npy_header"
  C.lt_npy_info(file, header)
  local shape = {}
  for d = 1, header.ndim do shape[d] = tonumber(header.shape[d - 1]) end
  return header, shape
end

local function values(file)
  local header = info(file)
  local data, list = ffi.new(KINDS[header.dtype] .. "[?]", header.count + 1), {}
  ok(C.lt_npy_read(file, data, header.bytes))
  for i = 1, tonumber(header.count) do
    list[i] = data[i - 1]
    if header.dtype == 3 then list[i] = half(list[i]) elseif header.dtype ~= 7 then list[i] = tonumber(list[i]) end
  end
  return list
end

describe("npy", function()
  local cases = {}
  for _, case in ipairs(scratch.golden("formats.json").npy) do cases[case.name] = case end
  local folder, path
  before_each(function()
    folder = scratch.folder()
    path = folder .. "/x.npy"
  end)
  after_each(function() scratch.remove(folder) end)

  local function put(name)
    scratch.write(path, scratch.unhex(cases[name].hex))
    return path
  end

  local DTYPES = { { "float32", 0 }, { "big endian", 1 }, { "half", 3 }, { "fortran", 0 }, { "big fortran", 5 },
    { "int64", 4 }, { "int8", 5 },
    { "uint8", 6 }, { "int16", 5 }, { "uint16", 5 }, { "uint32", 4 }, { "uint64", 4 }, { "bool", 7 },
    { "scalar", 1 }, { "empty", 0 }, { "version 2", 0 }, { "version 3", 0 } }
  for _, pair in ipairs(DTYPES) do
    local name, dtype = pair[1], pair[2]
    it("reads NumPy's array: " .. name, function()
      local file = open(put(name))
      local header, shape = info(file)
      assert.equal(dtype, header.dtype)
      assert.same({ unpack(cases[name].shape) }, shape)
      assert.same({ unpack(cases[name].values) }, values(file)) -- recorded in row-major order, Fortran or not
      assert.equal(name:find("fortran") and 1 or 0, header.fortran)
    end)
  end

  it("refuses what holds no numbers of ours, with a way out", function()
    local list = "; ltrain reads f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1"
    for name, message in pairs {
      object = "holds Python objects (a pickle, which can run code); save a numeric array: a.astype('float32')",
      text = "holds text ('<U2'); encode it as ids first", bytes = "holds text ('|S2'); encode it as ids first",
      structured = "holds a structured array; save its fields as arrays of their own",
      complex = "holds elements of type '<c16'" .. list, date = "holds elements of type '<M8[D]'" .. list,
      nine = "has more than 8 dimensions; ltrain takes up to 8" } do
      assert.equal(path .. ": " .. message, refusal(put(name)))
    end
  end)

  it("refuses an unsigned number that int64 cannot hold", function()
    local file = open(put "uint64 too large")
    assert.equal(path .. ": element 2 of a '<u8' array has no int64 value",
      failure(C.lt_npy_read(file, ffi.new "int64_t[2]", 16)))
  end)

  local function file_of(dict, data, version, length)
    length = length or #dict
    local size = string.char(length % 256, math.floor(length / 256) % 256)
    if (version or 1) > 1 then size = size .. string.char(math.floor(length / 65536) % 256, 0) end
    return "\147NUMPY" .. string.char(version or 1, 0) .. size .. dict .. (data or "")
  end
  local function check(bytes, message)
    scratch.write(path, bytes)
    assert.equal(path .. ": " .. message, refusal(path))
  end
  local good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n"

  it("refuses files that are cut or too long", function()
    assert.equal(path .. ": no such file; check the path", refusal(path))
    check("", "not a npy file: it does not begin with \\x93NUMPY")
    check("PK\3\4abcdefgh", "not a npy file: it does not begin with \\x93NUMPY; this is a npz, unzip it first")
    check(file_of(good, "", 4), "npy version 4.0; versions 1 to 3 are known")
    check(file_of(good, "", 1, 1000), "ends inside its header; it is cut short")
    check("\147NUMPY\2\0\1\0", "ends inside its header; it is cut short")
    check(file_of(good, "", 2, 70000), "a header of 70000 bytes is above the limit of 65536")
    check(file_of(good, "1234567"), "1 of its 76 bytes are missing; it is cut short, fetch or save it again")
    check(file_of(good, "123456789"), "1 bytes follow the array; a file of several arrays has to be split")
  end)

  it("refuses headers that say nothing or too much", function()
    local function dict(descr, order, shape)
      return file_of(("{'descr': %s, 'fortran_order': %s, 'shape': %s, }\n"):format(descr, order, shape))
    end
    check(file_of "[]", "header: does not begin with '{'")
    check(file_of "{'descr': '<f4', 'shape': ()}", "header: fortran_order is missing")
    check(file_of "{'fortran_order': False, 'shape': ()}", "header: descr is missing")
    check(file_of "{'descr': '<f4', 'fortran_order': False}", "header: shape is missing")
    check(file_of "{'descr': '<f4', 'descr': '<f4'}", "header: descr is given twice")
    check(file_of "{'order': 1}", "header: unknown key 'order'")
    check(file_of "{descr: 1}", "header: expected a key in quotes")
    check(file_of "{'descr' '<f4'}", "header: expected ':' after 'descr'")
    check(file_of "{'descr': '<f4' 'shape': ()}", "header: expected ',' or '}' after descr")
    check(file_of(good:gsub("\n", "x\n")), "header: more text after the '}'")
    check(dict("'<f4'", "Falsehood", "()"), "header: fortran_order is neither True nor False")
    check(dict("'<f4'", "False", "2"), "header: shape is not a tuple")
    check(dict("'<f4'", "False", "(2 3)"), "header: expected ',' or ')' in the shape")
    check(dict("'<f4'", "False", "(2, -3)"),
      "header: dimension 2 of the shape is not a whole number that can be counted")
    check(dict("'<f4'", "False", "(99999999999999999999,)"),
      "header: dimension 1 of the shape is not a whole number that can be counted")
    check(dict("'<f4'", "False", "(4294967296, 4294967296)"), "its shape has more elements than can be counted")
    check(dict("'<f4'", "False", "(1152921504606846976,)"), "its shape has more elements than can be counted")
    check(dict("4", "False", "()"), "header: descr is not a short text")
    check(dict("'<f4\\n'", "False", "()"), "header: descr is not a short text")
    for _, descr in ipairs { "", "<", "<f", "<f+4", "<f3", "<f4x", "|f4", "f4" } do
      check(dict("'" .. descr .. "'", "False", "()"),
        "holds elements of type '" .. descr .. "'; ltrain reads f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1")
    end
  end)

  it("takes what Python 2 wrote, other quotes and other orders of keys", function()
    scratch.write(path, file_of('{"shape": (1L, 2L), "fortran_order": False, "descr": "<i4"}', "\1\0\0\0\2\0\0\0"))
    local file = open(path)
    local _, shape = info(file)
    assert.same({ 1, 2 }, shape)
    assert.same({ 1, 2 }, values(file))
  end)

  it("refuses a bool that is neither 0 nor 1", function()
    scratch.write(path, file_of(good:gsub("<f4", "|b1"), "\1\2"))
    assert.equal(path .. ": element 2 of a '|b1' array has no bool value",
      failure(C.lt_npy_read(open(path), ffi.new "char[2]", 2)))
  end)

  it("turns large Fortran arrays around, over blocks", function()
    local rows, columns = 300, 500
    local data = ffi.new("int32_t[?]", rows * columns)
    for c = 0, columns - 1 do
      for r = 0, rows - 1 do data[c * rows + r] = r * columns + c end
    end
    scratch.write(path, file_of("{'descr': '<i4', 'fortran_order': True, 'shape': (300, 500), }\n",
      ffi.string(data, rows * columns * 4)))
    local wrong = 0
    for i, value in ipairs(values(open(path))) do wrong = wrong + (value ~= i - 1 and 1 or 0) end
    assert.equal(0, wrong)
  end)

  it("writes every type as it was, at a multiple of 64", function()
    for _, name in ipairs { "float32", "half", "int64", "uint8", "bool", "scalar", "empty" } do
      local file = open(put(name))
      local header = info(file)
      local data = ffi.new("char[?]", header.bytes + 1)
      ok(C.lt_npy_read(file, data, header.bytes))
      ok(C.lt_npy_write(path, header.dtype, header.ndim, header.shape, data))
      local bytes = scratch.read(path)
      assert.equal(0, (#bytes - tonumber(header.bytes)) % 64)
      local again = open(path)
      local other, shape = info(again)
      assert.equal(header.dtype, other.dtype)
      assert.same({ unpack(cases[name].shape) }, shape)
      assert.same({ unpack(cases[name].values) }, values(again))
    end
    assert.equal("\147NUMPY\1\0\118\0{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
      (function()
        ok(C.lt_npy_write(path, 0, 2, ffi.new("int64_t[2]", { 2, 3 }), ffi.new "float[6]"))
        return scratch.read(path):sub(1, 10 + 59)
      end)())
  end)

  it("refuses to write what npy has no form for", function()
    local shape = ffi.new("int64_t[1]", 1)
    assert.equal(path .. ": npy has no bfloat16; convert to float32 first",
      failure(C.lt_npy_write(path, 2, 1, shape, shape)))
    assert.equal(path .. ": a negative dimension, or more elements than can be counted",
      failure(C.lt_npy_write(path, 0, 1, ffi.new("int64_t[1]", -1), shape)))
    assert.is_nil(scratch.read(path))
  end)
end)
