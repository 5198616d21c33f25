-- Packed files: what comes out, and what every kind of damage is called. gzip(1) is the other side.
local ffi = require "ffi"
local C = ffi.C
local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local scratch = dofile(here .. "scratch.lua")
local folder, path

-- Text and packing of a file, or nil and the message.
local function unpack_file(piece)
  local out = ffi.new "lt_stream *[1]"
  if C.lt_stream_open(path, out) < 0 then return nil, ffi.string(C.lt_last_error()) end
  local stream = ffi.gc(out[0], C.lt_stream_close)
  local parts, size, got = {}, piece or 65536, ffi.new "int64_t[1]"
  local buffer = ffi.new("char[?]", size)
  while true do
    if C.lt_stream_read(stream, buffer, size, got) < 0 then return nil, ffi.string(C.lt_last_error()) end
    if got[0] == 0 then return table.concat(parts), ffi.string(C.lt_stream_packing(stream)) end
    parts[#parts + 1] = ffi.string(buffer, got[0])
  end
end

local function pack(command, text)
  scratch.write(folder .. "/plain", text)
  if os.execute(("command -v %s >/dev/null"):format(command:match "%S+")) ~= 0 then return nil end
  os.execute(("%s <%s/plain >%s/packed"):format(command, folder, folder))
  return scratch.read(folder .. "/packed")
end

local function text_of(n)
  local parts, seed = {}, 1
  for i = 1, n do
    seed = seed * 16807 % 2147483647
    parts[i] = ("%x,%d\n"):format(seed, i)
  end
  return table.concat(parts)
end

local function refused(message, bytes)
  scratch.write(path, bytes)
  local text, failure = unpack_file()
  assert.is_nil(text)
  assert.equal(path .. ": " .. message, failure)
end

describe("streams", function()
  before_each(function()
    folder = scratch.folder()
    path = folder .. "/file"
  end)
  after_each(function() scratch.remove(folder) end)

  it("tell a file that is cut while it is read from one that ends", function()
    local text = text_of(40000)
    scratch.write(path, text)
    local out, got, buffer = ffi.new "lt_stream *[1]", ffi.new "int64_t[1]", ffi.new "char[1000]"
    assert.equal(0, C.lt_stream_open(path, out))
    local stream = ffi.gc(out[0], C.lt_stream_close)
    assert.equal(0, C.lt_stream_read(stream, buffer, 1000, got))
    scratch.write(path, "1,2\n")
    local status, total = 0, 0
    while status == 0 and got[0] > 0 do
      total = total + tonumber(got[0])
      status = C.lt_stream_read(stream, buffer, 1000, got)
    end
    assert.is_true(total < #text)
    assert.equal(("%s: ends at byte %d while it is read and had %d bytes before; somebody is writing it, try again"):format(
      path, total, #text), ffi.string(C.lt_last_error()))
    assert.is_true(status < 0)
  end)

  it("give plain files as they are, empty ones too", function()
    for _, text in ipairs { "", "x", "x^2,y\n1,2\n", "BZhello", text_of(40000) } do
      scratch.write(path, text)
      local got, packing = unpack_file(1000)
      assert.is_true(got == text)
      assert.equal("plain", packing)
    end
  end)

  it("unpack gzip of every level and kind, in any pieces", function()
    local text = text_of(20000)
    for _, command in ipairs { "gzip -1", "gzip -9", "gzip -n", "xz -1", "zstd -q", "bzip2", "pigz -z" } do
      local packed = pack(command, text)
      if packed then
        scratch.write(path, packed)
        for _, piece in ipairs { 97, 65536, 2 ^ 21 } do
          local got, packing = unpack_file(piece)
          assert.is_true(got == text, command)
          assert.equal(command:match "%w+" == "pigz" and "zlib" or command:match "%w+", packing)
        end
      end
    end
  end)

  it("unpack zlib streams", function() -- python3 -c "import zlib; print(zlib.compress(b'a,b\n1,2\n').hex())"
    scratch.write(path, scratch.unhex "789c4bd449e232d431e2020008780193")
    local text, packing = unpack_file()
    assert.same({ "a,b\n1,2\n", "zlib" }, { text, packing })
  end)

  it("join members, also empty ones, and pass zeros behind the last", function()
    local a, b, none = pack("gzip", text_of(1000)), pack("gzip -1", "tail\n"), pack("gzip", "")
    scratch.write(path, a .. none .. b .. ("\0"):rep(512))
    assert.is_true(unpack_file() == text_of(1000) .. "tail\n")
  end)

  it("read headers with names, comments, extra fields and a checksum", function()
    local body = pack("gzip -n", "hello\n"):sub(11)
    local head = "\31\139\8\31\0\0\0\0\0\3" .. "\4\0abcd" .. "name\0" .. "comment\0"
    local crc = scratch.unhex "75ee" -- low half of CRC-32 of `head`, from Python's zlib.crc32
    scratch.write(path, head .. crc .. body)
    assert.equal("hello\n", (unpack_file()))
    refused("a gzip header with a wrong checksum before compressed byte 31 (0 bytes of text were read); the copy is "
      .. "damaged, fetch it again", head .. "\0\0" .. body)
  end)

  it("say where a gzip was cut, anywhere", function()
    local text = text_of(3000)
    local packed = pack("gzip -n", text)
    local seen = {}
    for cut = 3, #packed - 1, 997 do
      scratch.write(path, packed:sub(1, cut))
      local got, failure = unpack_file()
      assert.is_nil(got)
      local before = tonumber(failure:match "%((%d+) bytes of text")
      seen[#seen + 1] = before
      assert.equal(("%s: truncated at compressed byte %d (%d bytes of text were read); the copy is incomplete, fetch "
        .. "it again"):format(path, cut, before), failure)
    end
    assert.is_true(seen[#seen] > seen[1])
    for cut = #packed - 8, #packed - 1 do -- in the trailer: all text is there, but unproved
      refused(("truncated at compressed byte %d (%d bytes of text were read); the copy is incomplete, fetch it again")
        :format(cut, #text), packed:sub(1, cut))
    end
  end)

  it("refuse wrong checksums, lengths, data and leftovers", function()
    local text = text_of(1000)
    local packed = pack("gzip -n", text)
    local n = #packed
    local function flip(at) return packed:sub(1, at - 1) .. string.char(255 - packed:byte(at)) .. packed:sub(at + 1) end
    local read = (" before compressed byte %d (%d bytes of text were read); the copy is damaged, fetch it again")
      :format(n, #text)
    refused("text with a wrong checksum" .. read, flip(n - 7))
    refused("text of a wrong length" .. read, flip(n - 1))
    refused(("bytes that are not gzip data from compressed byte %d on; the file was added to or mixed with another, "
      .. "fetch it again"):format(n), packed .. "garbage")
    refused(("bytes that are not gzip data from compressed byte %d on; the file was added to or mixed with another, "
      .. "fetch it again"):format(n + 3), packed .. "\0\0\0x")
    refused("a gzip header with an unknown method before compressed byte 3 (0 bytes of text were read); the copy is "
      .. "damaged, fetch it again", "\31\139\9" .. packed:sub(4))
    refused("a gzip header with unknown flags before compressed byte 4 (0 bytes of text were read); the copy is "
      .. "damaged, fetch it again", "\31\139\8\128" .. packed:sub(5))
    for at = 11, n, 131 do -- somewhere inside: some message, never text
      scratch.write(path, flip(at))
      local got, failure = unpack_file()
      assert.is_nil(got)
      assert.truthy(failure:find("; the copy is ", 1, true), failure)
    end
  end)

  it("notice cut xz, zstd and bzip2 files", function()
    for _, command in ipairs { "xz", "zstd -q", "bzip2" } do
      local packed = pack(command, text_of(3000))
      if packed then
        scratch.write(path, packed:sub(1, math.floor(#packed / 2)))
        local got, failure = unpack_file()
        assert.is_nil(got, command)
        assert.truthy(failure:find(path, 1, true), failure)
      end
    end
  end)

  it("refuse folders, missing files and archives", function()
    path = folder .. "/none"
    assert.equal(path .. ": cannot be opened: No such file or directory", select(2, unpack_file()))
    path = folder
    assert.equal(path .. ": a folder; name a file in it", select(2, unpack_file()))
    path = folder .. "/file"
    refused("a zip archive, not one packed file; unpack it first", "PK\3\4....")
  end)
end)
