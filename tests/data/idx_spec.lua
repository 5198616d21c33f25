-- idx files: every element type in native order, MNIST itself, and each way a file can be wrong.
local ffi = require "ffi"
local C = ffi.C
local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local scratch = dofile(here .. "scratch.lua")
local folder, path

local function read(file)
  local dtype, ndim, shape = ffi.new "int32_t[1]", ffi.new "int32_t[1]", ffi.new "int64_t[8]"
  local out = ffi.new "lt_buffer *[1]"
  local status = C.lt_idx_read(file or path, dtype, ndim, shape, out)
  if status < 0 then return nil, ffi.string(C.lt_last_error()) end
  local list = {}
  for i = 0, ndim[0] - 1 do list[i + 1] = tonumber(shape[i]) end
  return ffi.gc(out[0], C.lt_buffer_release), dtype[0], list
end

local function values(hex, pointer, n)
  scratch.write(path, scratch.unhex(hex))
  local buffer, dtype, shape = read()
  if not buffer then error(dtype) end
  local data, list = ffi.cast(pointer, C.lt_buffer_data(buffer)), {}
  for i = 1, n do list[i] = tonumber(data[i - 1]) end
  return dtype, shape, list
end

local function refused(message, bytes)
  scratch.write(path, bytes)
  local buffer, failure = read()
  assert.is_nil(buffer)
  assert.equal("idx: " .. path .. message, failure)
end

describe("idx", function()
  before_each(function()
    folder = scratch.folder()
    path = folder .. "/t.idx"
  end)
  after_each(function() scratch.remove(folder) end)

  it("reads every element type in native order", function()
    assert.same({ C.LT_UINT8, { 2, 2 }, { 0, 1, 128, 255 } },
      { values("00000802" .. "00000002" .. "00000002" .. "000180ff", "uint8_t *", 4) })
    assert.same({ C.LT_INT32, { 3 }, { -1, 127, -128 } },
      { values("00000901" .. "00000003" .. "ff7f80", "int32_t *", 3) })
    assert.same({ C.LT_INT32, { 2 }, { -2, 258 } }, { values("00000b01" .. "00000002" .. "fffe0102", "int32_t *", 2) })
    assert.same({ C.LT_INT32, { 1 }, { 16909060 } }, { values("00000c01" .. "00000001" .. "01020304", "int32_t *", 1) })
    assert.same({ C.LT_FLOAT32, { 1, 1, 2 }, { 1.5, -2 } },
      { values("00000d03" .. "00000001" .. "00000001" .. "00000002" .. "3fc00000" .. "c0000000", "float *", 2) })
    assert.same({ C.LT_FLOAT64, { 1 }, { 0.1 } },
      { values("00000e01" .. "00000001" .. "3fb999999999999a", "double *", 1) })
  end)

  it("reads empty arrays", function()
    assert.same({ C.LT_UINT8, { 0, 28 }, {} }, { values("00000802" .. "00000000" .. "0000001c", "uint8_t *", 0) })
  end)

  it("refuses what is no idx file", function()
    refused(" is empty", "")
    refused(" has 3 bytes; an idx file has 8 or more", "\0\0\8")
    refused(" begins with bytes 89 50 4e 47; an idx file begins with 00 00", "\137PNG\r\n")
    refused(" has elements of type 0x0a; known are 08 09 0b 0c 0d 0e", "\0\0\10\1\0\0\0\1x")
    refused(" has 0 dimensions; 1 to 8 are possible", "\0\0\8\0")
    refused(" has 9 dimensions; 1 to 8 are possible", "\0\0\8\9")
    refused(" ends inside its header; 3 dimensions need 16 bytes, it has 9", "\0\0\8\3\0\0\0\1\0")
  end)

  it("refuses data of another size than the header says", function()
    refused(" is truncated; [2, 3] needs 24 bytes of data, it has 5", "\0\0\12\2\0\0\0\2\0\0\0\3" .. "abcde")
    refused(" has bytes behind the data of [2]", "\0\0\8\1\0\0\0\2" .. "abc")
    refused(" is truncated; [4294967295] needs 4294967295 bytes of data, it has 1", "\0\0\8\1\255\255\255\255" .. "a")
    refused(" claims [4294967295, 4294967295, ...], more than any memory holds",
      "\0\0\8\3" .. ("\255"):rep(12) .. "a")
  end)

  it("says when a packed file was cut", function()
    scratch.write(path, scratch.unhex "0000080100010000" .. ("abcdefgh"):rep(8192))
    os.execute(("gzip -n -c %s | head -c 100 >%s/cut.gz"):format(path, folder))
    local buffer, failure = read(folder .. "/cut.gz")
    assert.is_nil(buffer)
    assert.truthy(failure:find(("^idx: %s/cut.gz: truncated at compressed byte 100 %%(%%d+ bytes of text were read%%); "
      .. "the copy is incomplete, fetch it again$"):format(folder)), failure)
  end)

  it("reads MNIST", function()
    local images = require("ltrain.spec").data "mnist/t10k-images-idx3-ubyte.gz"
    if not images then return pending "data set mnist is not here" end
    local buffer, dtype, shape = read(images)
    assert.same({ C.LT_UINT8, { 10000, 28, 28 } }, { dtype, shape })
    local labels = read((images:gsub("images%-idx3", "labels-idx1")))
    local data = ffi.cast("uint8_t *", C.lt_buffer_data(labels))
    assert.same({ 7, 2, 1, 0, 4 }, { data[0], data[1], data[2], data[3], data[4] })
    assert.equal(7840000, tonumber(C.lt_buffer_bytes(buffer)))
  end)
end)
