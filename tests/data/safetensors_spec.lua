-- Safetensors against files of the reference package, hostile headers, and disks that refuse.
local ffi = require "ffi"
local C = ffi.C
local scratch = dofile((debug.getinfo(1, "S").source:match("^@(.*/)") or "./") .. "scratch.lua")
local ok, failure = scratch.ok, scratch.failure

local F32, F64, BF16, F16, I64, I32, U8, BOOL = 0, 1, 2, 3, 4, 5, 6, 7

local function open(path)
  local out = ffi.new "lt_safetensors *[1]"
  ok(C.lt_safetensors_open(path, out))
  return ffi.gc(out[0], C.lt_safetensors_close)
end

local function refusal(path)
  return failure(C.lt_safetensors_open(path, ffi.new "lt_safetensors *[1]"))
end

local function create(path)
  local out = ffi.new "lt_safetensors_writer *[1]"
  ok(C.lt_safetensors_create(path, out))
  return ffi.gc(out[0], C.lt_safetensors_writer_free)
end

local function free(writer) C.lt_safetensors_writer_free(ffi.gc(writer, nil)) end

local index = ffi.new "int64_t[1]"

local function add(writer, name, dtype, shape)
  ok(C.lt_safetensors_add(writer, name, dtype, #shape, ffi.new("int64_t[?]", #shape + 1, shape), index))
  return index[0]
end

local function entry(file, name)
  local at = C.lt_safetensors_find(file, name)
  if at < 0 then return nil end
  local e = ffi.new "lt_stored_tensor"
  ok(C.lt_safetensors_entry(file, at, e))
  local shape = {}
  for d = 1, e.ndim do shape[d] = tonumber(e.shape[d - 1]) end
  local name_of_type = ffi.string(e.dtype_name)
  return { index = at, shape = shape, dtype = e.dtype, dtype_name = name_of_type, bytes = tonumber(e.bytes) }
end

local function values(file, name, kind)
  local e = entry(file, name)
  local n = e.bytes / ffi.sizeof(kind)
  local data, list = ffi.new(kind .. "[?]", n + 1), {}
  ok(C.lt_safetensors_read(file, e.index, data, e.bytes))
  for i = 1, n do
    list[i] = data[i - 1]
    if kind ~= "bool" then list[i] = tonumber(list[i]) end
  end
  return list
end

-- A file of a header text and so many data bytes; length: what the first eight bytes say.
local function file_of(header, data_bytes, length)
  local n, first = length or #header, {}
  for i = 1, 8 do
    first[i] = string.char(n % 256)
    n = math.floor(n / 256)
  end
  return table.concat(first) .. header .. ("\0"):rep(data_bytes)
end

local function tensor(shape, first, last, dtype)
  return ('{"dtype":"%s","shape":%s,"data_offsets":[%s,%s]}'):format(dtype or "F32", shape, first, last)
end

describe("safetensors", function()
  local folder, path
  before_each(function()
    folder = scratch.folder()
    path = folder .. "/x.safetensors"
  end)
  after_each(function() scratch.remove(folder) end)

  describe("reading a file of the reference package", function()
    local file
    before_each(function()
      scratch.write(path, scratch.unhex(scratch.golden("formats.json").safetensors))
      file = open(path)
    end)

    it("finds every tensor by name", function()
      assert.equal(13, tonumber(C.lt_safetensors_count(file)))
      assert.same({ 2, 3 }, entry(file, "dense.weight").shape)
      assert.same({}, entry(file, "scalar").shape)
      assert.same({ 0, 4 }, entry(file, "empty").shape)
      assert.equal(0, entry(file, "empty").bytes)
      assert.same({ 1 }, entry(file, 'quote " \\ tab\t é 😀').shape)
      assert.is_nil(entry(file, "dense"))
      assert.is_nil(entry(file, ""))
    end)

    it("reads the values of every type", function()
      assert.same({ -3, -2.5, -2, -1.5, -1, -0.5 }, values(file, "dense.weight", "float"))
      assert.same({ -3, -2.5, -2, -1.5, -1 }, values(file, "double", "double"))
      assert.same({ 0xC200, 0xC100, 0xC000, 0xBE00 }, values(file, "half", "uint16_t"))
      assert.same({ 0xC040, 0xC020, 0xC000, 0xBFC0 }, values(file, "brain", "uint16_t"))
      assert.same({ 0, 1, 2, 3 }, values(file, "ids", "int64_t"))
      assert.same({ 0, 1, 2 }, values(file, "rows", "int32_t"))
      assert.same({ 0, 1, 2, 3, 4, 5, 6 }, values(file, "bytes", "uint8_t"))
      assert.same({ true, false, false, true, false }, values(file, "mask", "bool"))
      assert.same({ -3 }, values(file, "scalar", "float"))
      assert.same({}, values(file, "empty", "float"))
      local types = {}
      for _, name in ipairs { "dense.bias", "double", "brain", "half", "ids", "rows", "bytes", "mask" } do
        types[#types + 1] = entry(file, name).dtype
      end
      assert.same({ F32, F64, BF16, F16, I64, I32, U8, BOOL }, types)
    end)

    it("maps the data, and reads rows with a stride", function()
      local at, pointer = entry(file, "dense.weight").index, ffi.new "const void *[1]"
      ok(C.lt_safetensors_data(file, at, pointer))
      assert.equal(-0.5, ffi.cast("const float *", pointer[0])[5])
      local rows = ffi.new("float[8]", -9)
      for i = 0, 7 do rows[i] = -9 end
      ok(C.lt_safetensors_read_rows(file, at, rows, 2, 12, 16))
      local seen = {}
      for i = 0, 7 do seen[i + 1] = rows[i] end
      assert.same({ -3, -2.5, -2, -9, -1.5, -1, -0.5, -9 }, seen)
      assert.equal(path .. ": tensor 'dense.weight' has 24 bytes, the place for it 3 rows of 12",
        failure(C.lt_safetensors_read_rows(file, at, rows, 3, 12, 16)))
      assert.equal(path .. ": tensor 'dense.weight' has 24 bytes, the place for it 20",
        failure(C.lt_safetensors_read(file, at, rows, 20)))
    end)

    it("gives metadata by key and by number", function()
      assert.equal('safetensors "reference"\n', ffi.string(C.lt_safetensors_metadata(file, "made by")))
      assert.is_true(C.lt_safetensors_metadata(file, "author") == nil)
      assert.equal(1, tonumber(C.lt_safetensors_metadata_count(file)))
      local key, value = ffi.new "const char *[1]", ffi.new "const char *[1]"
      ok(C.lt_safetensors_metadata_at(file, 0, key, value))
      assert.equal("made by", ffi.string(key[0]))
      assert.equal(path .. ": metadata number 1; the file has 1, counted from 0",
        failure(C.lt_safetensors_metadata_at(file, 1, key, value)))
    end)

    it("refuses a type it does not compute with only when that tensor is asked for", function()
      local e = entry(file, "short")
      assert.equal(-1, e.dtype)
      assert.equal("I16", e.dtype_name)
      assert.equal(path .. ": tensor 'short' is I16, which ltrain does not compute with; convert it to F32 first",
        failure(C.lt_safetensors_read(file, e.index, ffi.new "char[4]", 4)))
    end)

    it("is what our writer makes of the same content, byte for byte", function()
      local shorter = folder .. "/ours.safetensors"
      local names = { 'quote " \\ tab\t é 😀', "scalar", "rows", "mask", "ids", "half", "empty", "double",
        "dense.weight", "dense.bias", "bytes", "brain" }
      local writer, numbers, bytes = create(shorter), {}, {}
      ok(C.lt_safetensors_set(writer, "made by", 'safetensors "reference"\n'))
      for i, name in ipairs(names) do
        local e = entry(file, name)
        bytes[i] = ffi.new("char[?]", e.bytes + 1)
        ok(C.lt_safetensors_read(file, e.index, bytes[i], e.bytes))
        numbers[i] = { add(writer, name, e.dtype, e.shape), e.bytes }
      end
      for i in ipairs(names) do ok(C.lt_safetensors_write(writer, numbers[i][1], bytes[i], numbers[i][2])) end
      ok(C.lt_safetensors_finish(writer))
      -- the reference has a tensor "short" more: its entry and its four bytes are taken out, offsets behind it shifted
      local reference = scratch.read(path)
      local header_end = 8 + reference:byte(1) + 256 * reference:byte(2)
      local header, data = reference:sub(9, header_end), reference:sub(header_end + 1)
      local first, last = header:match('"short":{[^}]*"data_offsets":%[(%d+),(%d+)%]}')
      first, last = tonumber(first), tonumber(last)
      header = header:gsub('"short":{[^}]*},?', "", 1):gsub('"data_offsets":%[(%d+),(%d+)%]', function(b, e)
        if tonumber(b) >= last then b, e = b - 4, e - 4 end
        return ('"data_offsets":[%d,%d]'):format(b, e)
      end):gsub("%s+$", ""):gsub(",}$", "}")
      header = header .. (" "):rep(-#header % 8)
      assert.equal(file_of(header, 0) .. data:sub(1, first) .. data:sub(last + 1), scratch.read(shorter))
    end)
  end)

  describe("writing", function()
    it("takes pieces, rows with a stride, and any order", function()
      local writer = create(path)
      local a, b = add(writer, "a", F32, { 3, 2 }), add(writer, "b", F64, { 2 })
      local table_rows = ffi.new("float[9]", { 1, 2, -1, 3, 4, -1, 5, 6, -1 })
      ok(C.lt_safetensors_write_rows(writer, a, table_rows, 1, 8, 12))
      ok(C.lt_safetensors_write(writer, b, ffi.new("double[2]", { 7, 8 }), 16))
      ok(C.lt_safetensors_write_rows(writer, a, table_rows + 3, 2, 8, 12))
      assert.equal(path .. ": 4 bytes for tensor 'a', which takes 24 and has 24 of them",
        failure(C.lt_safetensors_write(writer, a, table_rows, 4)))
      ok(C.lt_safetensors_finish(writer))
      local file = open(path)
      assert.same({ 1, 2, 3, 4, 5, 6 }, values(file, "a", "float"))
      assert.same({ 7, 8 }, values(file, "b", "double"))
      assert.same({ "x.safetensors" }, scratch.list(folder))
    end)

    it("moves a table of more than a block of rows there and back", function()
      local rows, stride = 50000, 17
      local source, back = ffi.new("float[?]", rows * stride), ffi.new("float[?]", rows * stride)
      for i = 0, rows * stride - 1 do source[i] = i % 9973 end
      local writer = create(path)
      local at = add(writer, "table", F32, { rows, 10 })
      ok(C.lt_safetensors_write_rows(writer, at, source, rows, 40, stride * 4))
      ok(C.lt_safetensors_finish(writer))
      ok(C.lt_safetensors_read_rows(open(path), 0, back, rows, 40, stride * 4))
      local wrong = 0
      for row = 0, rows - 1 do
        for column = 0, stride - 1 do
          local i = row * stride + column
          if back[i] ~= (column < 10 and source[i] or 0) then wrong = wrong + 1 end
        end
      end
      assert.equal(0, wrong)
    end)

    it("writes a file without tensors that reads back", function()
      ok(C.lt_safetensors_finish(create(path)))
      assert.equal("\8\0\0\0\0\0\0\0{}      ", scratch.read(path))
      assert.equal(0, tonumber(C.lt_safetensors_count(open(path))))
    end)

    it("sorts metadata and escapes it", function()
      local writer = create(path)
      ok(C.lt_safetensors_set(writer, "b", "\1\31"))
      ok(C.lt_safetensors_set(writer, "a", '"\n'))
      ok(C.lt_safetensors_finish(writer))
      assert.equal([[{"__metadata__":{"a":"\"\n","b":"\u0001\u001f"}}]], (scratch.read(path):sub(9):gsub(" +$", "")))
      assert.equal("\1\31", ffi.string(C.lt_safetensors_metadata(open(path), "b")))
    end)

    it("says what a script did wrong, and leaves the old file", function()
      scratch.write(path, "old")
      local writer = create(path)
      local one = ffi.new("int64_t[9]", { 1, 1, 1, 1, 1, 1, 1, 1, 1 })
      local function refused(...) return failure(C.lt_safetensors_add(writer, ...)) end
      assert.equal(path .. ": tensor name 'a\255' is not UTF-8; the format takes no other text",
        refused("a\255", F32, 1, one, index))
      assert.equal(path .. ": '__metadata__' cannot name a tensor; the format keeps it for itself",
        refused("__metadata__", F32, 1, one, index))
      assert.equal(path .. ": tensor 'a' has 9 dimensions; 0 to 8 are possible", refused("a", F32, 9, one, index))
      assert.equal(path .. ": tensor 'a' has element type 8, which there is not", refused("a", 8, 1, one, index))
      local misshaped = path .. ": tensor 'a' has a negative dimension or more bytes than can be counted"
      assert.equal(misshaped, refused("a", F32, 1, ffi.new("int64_t[1]", -1), index))
      assert.equal(misshaped, refused("a", F32, 2, ffi.new("int64_t[2]", { 2 ^ 40, 2 ^ 40 }), index))
      ok(C.lt_safetensors_set(writer, "key", "1"))
      assert.equal(path .. ": metadata 'key' is given twice", failure(C.lt_safetensors_set(writer, "key", "2")))
      local at = add(writer, "a", F32, { 2 })
      ok(C.lt_safetensors_write(writer, at, ffi.new "float[2]", 4))
      assert.equal(path .. ": data is being written; tensors come before that", refused("b", F32, 1, one, index))
      assert.equal(path .. ": data is being written; metadata come before that",
        failure(C.lt_safetensors_set(writer, "late", "1")))
      assert.equal(path .. ": tensor number 1; 1 were declared, counted from 0",
        failure(C.lt_safetensors_write(writer, 1, one, 4)))
      assert.equal(path .. ": tensor 'a' has 4 of its 8 bytes; write it before finishing",
        failure(C.lt_safetensors_finish(writer)))
      assert.equal(2, #scratch.list(folder))
      free(writer)
      assert.same({ "x.safetensors" }, scratch.list(folder))
      assert.equal("old", scratch.read(path))
    end)

    it("refuses two tensors of one name", function()
      local writer = create(path)
      add(writer, "a", F32, { 1 })
      add(writer, "a", F64, { 1 })
      assert.equal(path .. ": tensor 'a' is given twice", failure(C.lt_safetensors_finish(writer)))
    end)
  end)

  describe("refuses hostile and damaged files:", function()
    local function check(header, data_bytes, message, length)
      scratch.write(path, file_of(header, data_bytes or 0, length))
      assert.equal(path .. ": " .. message, refusal(path))
    end
    local one = '{"a":' .. tensor("[2]", 0, 8) .. "}"

    it("no file, a folder, an empty and a short file", function()
      assert.equal(path .. ": no such file; check the path", refusal(path))
      assert.equal(folder .. ": is a folder; name a file in it", refusal(folder))
      scratch.write(path, "")
      assert.equal(path .. ": 0 bytes are too few for a safetensors file; it is empty or cut short", refusal(path))
      check("", 0, "not a safetensors file: its header does not begin with '{'")
    end)

    it("a header length beyond the file or the limit", function()
      check("{}", 0, "the header of 100 bytes reaches beyond the end of the file (10 bytes); it is cut short or "
        .. "damaged", 100)
      check("{}", 0, "not a safetensors file (the header would have 100000001 bytes; up to 100000000 are possible); "
        .. "this looks like another kind of file, or a damaged one", 100000001)
      scratch.write(path, ("\255"):rep(8) .. "{}")
      assert.equal(path .. ": not a safetensors file (the header would have 18446744073709551615 bytes; up to "
        .. "100000000 are possible); this looks like another kind of file, or a damaged one", refusal(path))
    end)

    it("files of other kinds, by name", function()
      for start, kind in pairs { ["PK\3\4\0\0\0\0"] = "a zip archive (PyTorch or npz); convert it to safetensors",
        ["version https://git-lfs"] = "a git-lfs pointer; run git lfs pull",
        ["<!DOCTYPE html>"] = "a web page, saved in place of the file; fetch it again",
        ["\31\139\8\0\0\0\0\0\0\3"] = "gzip; unpack it first", ["\147NUMPY\1\0"] = "npy; read it as such" } do
        scratch.write(path, start)
        local message = refusal(path)
        assert.equal(kind, message:match("this looks like (.*)$"))
      end
    end)

    it("a header that is not JSON", function()
      check("[]", 0, "not a safetensors file: its header does not begin with '{'")
      check("{} x", 0, "header: byte 3: more text after the end of the value")
      check('{"a":1', 0, "header: byte 6: the text ends in the middle of a value")
      check('{"a":nan}', 0, "header: byte 5: not a value of JSON")
      check('{"a\255":1}', 0, "header: byte 3: not UTF-8")
      check('{"a\\u0000":1}', 0, "header: byte 3: \\u0000 in a string; names and texts here end at a zero byte")
      check('{"a\n":1}', 0, "header: byte 3: control character in a string; it has to be escaped")
      check('{"\\ud800":1}', 0, "header: byte 2: half of a surrogate pair")
      check('{"\\x":1}', 0, "header: byte 2: not an escape that JSON knows")
      check('{"a":01}', 0, "header: byte 5: not a number of JSON")
      check('{"a":1,}', 0, "header: byte 7: expected a key in double quotes")
      check('{"a" 1}', 0, "header: byte 5: expected ':' after the key")
      check('{"a":[1 2]}', 0, "header: byte 8: expected ',' or ']'")
      check('{"a":' .. ("1"):rep(41) .. "}", 0, "header: byte 5: number of more than 40 characters")
      check('{"a', 0, "header: byte 1: string without an end")
    end)

    it("bombs of nesting and of length", function()
      check('{"a":' .. ("["):rep(1000000), 0, "header: byte 20: nested too deeply")
      check('{"a":' .. ('{"a":'):rep(1000000), 0, "header: byte 80: nested too deeply")
      check('{"a":' .. tensor("[" .. ("1,"):rep(64) .. "1]", 0, 4) .. "}", 4,
        "tensor 'a': shape has 65 dimensions, more than any tensor")
      check('{"a":{"dtype":"F32","shape":[' .. ("1,"):rep(5000) .. "1]}}", 0,
        "tensor 'a': its description has 10027 characters, more than 4096")
    end)

    it("descriptions with something missing, repeated or of the wrong kind", function()
      check('{"a":1}', 0, "tensor 'a': its description is not an object")
      check('{"a":{"shape":[1],"data_offsets":[0,4]}}', 4, "tensor 'a': dtype is missing")
      check('{"a":{"dtype":"F32","data_offsets":[0,4]}}', 4, "tensor 'a': shape is missing")
      check('{"a":{"dtype":"F32","shape":[1]}}', 4, "tensor 'a': data_offsets is missing")
      check('{"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}', 4,
        "tensor 'a': dtype is given twice")
      check('{"a":' .. tensor("[1]", 0, 4, "F33") .. "}", 4, "tensor 'a': unknown dtype 'F33'")
      check('{"a":{"dtype":7,"shape":[1],"data_offsets":[0,4]}}', 4, "tensor 'a': dtype is not a text")
      check('{"a":' .. tensor("7", 0, 4) .. "}", 4, "tensor 'a': shape is not a list")
      check('{"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}}', 4,
        "tensor 'a': data_offsets is not a pair of whole numbers from 0 to 2^53 - 1")
      check('{"a":' .. tensor("[1]", 0, 4) .. ',"a":' .. tensor("[1]", 4, 8) .. "}", 8, "tensor 'a' is given twice")
      check('{"__metadata__":{"k":1}}', 0, "__metadata__ 'k' is not a text")
      check('{"__metadata__":[]}', 0, "__metadata__ is not an object")
      check('{"__metadata__":{},"__metadata__":{}}', 0, "__metadata__ is given twice")
      check('{"__metadata__":{"k":"","\\u006b":""}}', 0, "__metadata__ 'k' is given twice")
    end)

    it("shapes that are negative, fractional or too large", function()
      local message = "tensor 'a': dimension 2 of its shape is not a whole number from 0 to 2^53 - 1"
      for _, dim in ipairs { "-1", "1.5", "1e300", "9007199254740992", '"1"', "null" } do
        check('{"a":' .. tensor("[1," .. dim .. "]", 0, 4) .. "}", 4, message)
      end
      check('{"a":' .. tensor("[4294967296,4294967296,4]", 0, 8) .. "}", 8,
        "tensor 'a': its shape has more elements than can be counted")
      check('{"a":' .. tensor("[3]", 0, 8) .. "}", 8,
        "tensor 'a': F32 of its shape takes 12 bytes, but data_offsets [0, 8] give it 8")
      check('{"a":' .. tensor("[3]", 0, 2, "F4") .. "}", 2,
        "tensor 'a': F4 of its shape takes 2 bytes, but data_offsets [0, 2] give it 2")
    end)

    it("offsets that overlap, leave holes, or miss the end of the file", function()
      check('{"a":' .. tensor("[2]", 8, 0) .. "}", 8, "tensor 'a': data_offsets [8, 0] end before they begin")
      check('{"a":' .. tensor("[2]", -8, 0) .. "}", 8,
        "tensor 'a': data_offsets is not a pair of whole numbers from 0 to 2^53 - 1")
      check('{"a":' .. tensor("[2]", 0, 8) .. ',"b":' .. tensor("[2]", 4, 12) .. "}", 12,
        "tensor 'b' [4, 12] overlaps 'a' [0, 8]")
      check('{"a":' .. tensor("[2]", 0, 8) .. ',"b":' .. tensor("[2]", 12, 20) .. "}", 20,
        "4 bytes before tensor 'b' [12, 20] belong to no tensor")
      check(one, 3, ("5 of its %d bytes are missing; it is cut short, fetch or save it again"):format(8 + #one + 8))
      check(one, 10, "2 bytes after the last tensor belong to no tensor")
    end)

    it("a file that shrinks after it was opened, without a crash", function()
      scratch.write(path, file_of(one, 8))
      local file = open(path)
      scratch.write(path, file_of(one, 3))
      assert.equal(path .. ": ends at byte " .. 8 + #one + 3 .. " while it is read; somebody is writing it, try again",
        failure(C.lt_safetensors_read(file, 0, ffi.new "char[8]", 8)))
    end)

    it("devices and pipes, without waiting for them", function()
      os.execute("mkfifo '" .. path .. "'")
      assert.equal(path .. ": is a device or pipe; copy its content into a file first", refusal(path))
    end)

    it("a BOOL that is neither 0 nor 1", function()
      scratch.write(path, file_of('{"a":' .. tensor("[2]", 0, 2, "BOOL") .. "}", 0) .. "\1\2")
      assert.equal(path .. ": tensor 'a': element 2 of a BOOL is 2, neither 0 nor 1",
        failure(C.lt_safetensors_read(open(path), 0, ffi.new "char[2]", 2)))
    end)

    it("nine dimensions, when that tensor is asked for", function()
      scratch.write(path, file_of('{"a":' .. tensor("[1,1,1,1,1,1,1,1,1]", 0, 4) .. "}", 4))
      assert.equal(path .. ": tensor 'a' has 9 dimensions; ltrain takes up to 8",
        failure(C.lt_safetensors_read(open(path), 0, ffi.new "char[4]", 4)))
    end)

    it("and shows names from the file without their control characters, cut", function()
      check('{"\\u001b[2Ja' .. ("é"):rep(100) .. '":1}', 0,
        "tensor '?[2Ja" .. ("é"):rep(57) .. "...': its description is not an object")
    end)
  end)

  it("takes any legal header: fields it does not know, offsets out of order, spaces", function()
    scratch.write(path, file_of('{ "b" : ' .. tensor("[ 1 ]", 4, 8) .. ' , "a" : {"dtype":"I32","x":[{}],"shape":[],'
      .. '"data_offsets":[0,4]} }   \n', 0) .. "\7\0\0\0\0\0\128\63")
    local file = open(path)
    assert.same({ 7 }, values(file, "a", "int32_t"))
    assert.same({ 1 }, values(file, "b", "float"))
  end)
end)
