-- Replacing files in one step: what a full disk, a limit, links, permissions and killed writers leave behind.
local ffi = require "ffi"
local C = ffi.C
local scratch = dofile((debug.getinfo(1, "S").source:match("^@(.*/)") or "./") .. "scratch.lua")
local ok, failure = scratch.ok, scratch.failure

ffi.cdef [[
  int getrlimit(int resource, uint64_t *limits);
  int setrlimit(int resource, const uint64_t *limits);
  int chdir(const char *path);
  unsigned geteuid(void);
]]
local RLIMIT_FSIZE = 1

local function replace(path, bytes) return C.lt_file_replace(path, bytes, #bytes) end

-- Runs fn while this process may write files of so many bytes only.
local function limited(bytes, fn)
  local old = ffi.new "uint64_t[2]"
  assert(C.getrlimit(RLIMIT_FSIZE, old) == 0)
  assert(C.setrlimit(RLIMIT_FSIZE, ffi.new("uint64_t[2]", { bytes, old[1] })) == 0)
  local done, message = pcall(fn)
  C.setrlimit(RLIMIT_FSIZE, old)
  if not done then error(message, 0) end
end

local function mode(path)
  local pipe = assert(io.popen("stat -c %a '" .. path .. "'"))
  local text = pipe:read("*l")
  pipe:close()
  return text
end

describe("replacing a file", function()
  local folder, path
  before_each(function()
    folder = scratch.folder()
    path = folder .. "/model.json"
  end)
  after_each(function() scratch.remove(folder) end)

  it("makes it, replaces it, and leaves nothing beside it", function()
    ok(replace(path, "one"))
    assert.equal("one", scratch.read(path))
    ok(replace(path, ""))
    assert.equal("", scratch.read(path))
    ok(replace(path, "three\0\1"))
    assert.equal("three\0\1", scratch.read(path))
    assert.same({ "model.json" }, scratch.list(folder))
  end)

  it("keeps the old file when the process may not write so much, without being killed", function()
    ok(replace(path, "old"))
    limited(1000, function()
      assert.equal(path .. ": 2000 bytes are more than this process may write to a file (ulimit -f); "
        .. "the file that was there is unchanged", failure(replace(path, ("x"):rep(2000))))
      assert.equal(folder .. "/new: 2000 bytes are more than this process may write to a file (ulimit -f); "
        .. "nothing was left behind", failure(replace(folder .. "/new", ("x"):rep(2000))))
    end)
    assert.equal("old", scratch.read(path))
    assert.same({ "model.json" }, scratch.list(folder))
  end)

  it("keeps the old file when the disk is full", function()
    local disk = folder .. "/disk"
    os.execute("mkdir '" .. disk .. "'")
    if os.execute("mount -t tmpfs -o size=64k ltrain-test '" .. disk .. "' 2>/dev/null") ~= 0 then
      pending("needs the right to mount a small disk")
      return
    end
    local done, message = pcall(function()
      local target = disk .. "/model.safetensors"
      ok(replace(target, "old"))
      assert.equal(target .. ": disk full: 100000 bytes to write, 61440 free; the file that was there is unchanged, "
        .. "free some space and save again", failure(replace(target, ("x"):rep(100000))))
      assert.equal(disk .. "/new: disk full: 100000 bytes to write, 61440 free; nothing was left behind, "
        .. "free some space and save again", failure(replace(disk .. "/new", ("x"):rep(100000))))
      local writer = ffi.new "lt_safetensors_writer *[1]"
      local shape, index = ffi.new("int64_t[1]", 30000), ffi.new "int64_t[1]"
      ok(C.lt_safetensors_create(target, writer))
      ok(C.lt_safetensors_add(writer[0], "w", 0, 1, shape, index))
      assert.equal(target .. ": disk full: 120072 bytes to write, 61440 free; the file that was there is unchanged, "
        .. "free some space and save again", failure(C.lt_safetensors_write(writer[0], index[0], shape, 8)))
      C.lt_safetensors_writer_free(writer[0])
      assert.equal("old", scratch.read(target))
      assert.same({ "model.safetensors" }, scratch.list(disk))
      ok(replace(target, ("x"):rep(50000)))
      assert(os.execute("mount -o remount,ro '" .. disk .. "'") == 0)
      assert.equal(target .. ": the file system is read-only; the file that was there is unchanged, save elsewhere",
        failure(replace(target, "new")))
      assert.equal(50000, #scratch.read(target))
    end)
    os.execute("umount '" .. disk .. "'")
    if not done then error(message, 0) end
  end)

  it("says what is wrong with a path", function()
    ok(replace(path, "file"))
    local missing = folder .. "/missing/x"
    assert.equal(missing .. ": its folder does not exist; make it first", failure(replace(missing, "")))
    assert.equal(path .. "/x: part of the path is a file, not a folder; check the path",
      failure(replace(path .. "/x", "")))
    assert.equal(folder .. "/: names a folder; add a file name", failure(replace(folder .. "/", "")))
    assert.equal(folder .. ": is a folder; name a file in it", failure(replace(folder, "")))
    assert.equal("/dev/null: is a device or pipe, not a file", failure(replace("/dev/null", "")))
    local long = folder .. "/" .. ("n"):rep(256)
    assert.equal(long .. ": file name is longer than 255 bytes", failure(replace(long, "")))
    ok(replace(folder .. "/" .. ("n"):rep(255), "fits"))
  end)

  it("refuses folders and files that may not be written", function()
    if C.geteuid() == 0 then
      pending("root may write everything")
      return
    end
    ok(replace(path, "old"))
    os.execute("chmod 444 '" .. path .. "'")
    assert.equal(path .. ": is write-protected and stays as it is; change its mode or save elsewhere",
      failure(replace(path, "new")))
    os.execute("chmod 555 '" .. folder .. "'")
    assert.equal(folder .. "/new: its folder may not be written; nothing was left behind, "
      .. "check the folder's permissions", failure(replace(folder .. "/new", "")))
    os.execute("chmod 755 '" .. folder .. "'")
    assert.equal("old", scratch.read(path))
  end)

  it("keeps the mode of the old file", function()
    ok(replace(path, "old"))
    os.execute("chmod 640 '" .. path .. "'")
    ok(replace(path, "new"))
    assert.equal("640", mode(path))
  end)

  it("replaces what a symbolic link points to, and keeps the link", function()
    os.execute(("mkdir '%s/far' && ln -s far/real '%s/link' && ln -s link '%s/again'"):format(folder, folder, folder))
    ok(replace(folder .. "/again", "through two links, to a file that did not exist"))
    assert.equal("through two links, to a file that did not exist", scratch.read(folder .. "/far/real"))
    ok(replace(folder .. "/link", "new"))
    assert.equal("new", scratch.read(folder .. "/far/real"))
    assert.same({ "again", "far", "link" }, scratch.list(folder))
    assert.same({ "real" }, scratch.list(folder .. "/far"))
    os.execute(("ln -s b '%s/a' && ln -s a '%s/b'"):format(folder, folder))
    assert.equal(folder .. "/a: symbolic links go round in a circle", failure(replace(folder .. "/a", "")))
  end)

  it("writes where a relative path pointed when it began", function()
    local writer = ffi.new "lt_safetensors_writer *[1]"
    local pipe = assert(io.popen("pwd -P"))
    local home = pipe:read("*l")
    pipe:close()
    assert(C.chdir(folder) == 0)
    local status = C.lt_safetensors_create("relative.safetensors", writer)
    assert(C.chdir(home) == 0)
    ok(status)
    ok(C.lt_safetensors_finish(writer[0]))
    C.lt_safetensors_writer_free(writer[0])
    assert.same({ "relative.safetensors" }, scratch.list(folder))
  end)

  it("removes what a killed writer left, and not what a living one still writes", function()
    local stale = folder .. "/.model.json.0123456789ab.unsaved"
    scratch.write(stale, "half of a file")
    scratch.write(folder .. "/.model.json.notes.unsaved", "somebody else's")
    local writer = ffi.new "lt_safetensors_writer *[1]"
    ok(C.lt_safetensors_create(path, writer)) -- sweeps, and holds a temporary file of its own
    assert.is_nil(scratch.read(stale))
    ok(replace(path, "meanwhile"))
    assert.equal(3, #scratch.list(folder))
    ok(C.lt_safetensors_finish(writer[0]))
    C.lt_safetensors_writer_free(writer[0])
    assert.same({ ".model.json.notes.unsaved", "model.json" }, scratch.list(folder))
    assert.equal("\8\0\0\0\0\0\0\0{}      ", scratch.read(path))
  end)
end)
