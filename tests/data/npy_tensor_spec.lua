-- lt.load_npy, lt.save_npy and lt.data.idx: tensors from files and back.
local lt = require "ltrain"
local data_sets = require "ltrain.spec"
local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local spec, scratch = dofile(here .. "places.lua"), dofile(here .. "scratch.lua")
local message = spec.message

describe("tensor files", function()
  local folder
  before_each(function() folder = spec.folder() end)
  after_each(function() spec.remove(folder) end)

  it("come back as they were, in every dtype and shape", function()
    for _, dtype in ipairs { "float32", "float64", "float16", "int64", "int32", "uint8", "bool" } do
      for _, values in ipairs { { { 1, 0, 3 }, { 0, 5, 6 } }, { 1 }, {} } do
        local path = folder .. "/x.npy"
        local t = lt.tensor(values):to(dtype)
        lt.save_npy(path, t)
        local again = lt.load_npy(path)
        assert.equal(dtype, again.dtype)
        assert.same(t.shape, again.shape)
        assert.same(t:totable(), again:totable())
      end
    end
    lt.save_npy(folder .. "/s.npy", lt.tensor(7.5))
    assert.same({}, lt.load_npy(folder .. "/s.npy").shape)
    assert.equal(7.5, lt.load_npy(folder .. "/s.npy"):item())
  end)

  it("hold views in row-major order", function()
    lt.save_npy(folder .. "/t.npy", lt.tensor({ { 1, 2, 3 }, { 4, 5, 6 } }):t())
    assert.same({ { 1, 4 }, { 2, 5 }, { 3, 6 } }, lt.load_npy(folder .. "/t.npy"):totable())
  end)

  it("of NumPy are read as NumPy means them", function()
    local known = {}
    for _, case in ipairs(scratch.golden("formats.json").npy) do known[case.name] = case end
    for name, dtype in pairs { float32 = "float32", ["big endian"] = "float64", fortran = "float32", int8 = "int32",
      uint32 = "int64", bool = "bool" } do
      local t = lt.load_npy(spec.write(folder .. "/n.npy", scratch.unhex(known[name].hex)))
      assert.equal(dtype, t.dtype)
      local flat = t:reshape(-1):totable()
      for i, v in ipairs(known[name].values) do
        if type(flat[i]) == "boolean" then flat[i] = flat[i] and 1 or 0 end
        if v == true or v == false then v = v and 1 or 0 end
        assert.equal(tonumber(v), flat[i])
      end
    end
  end)

  it("are refused with a reason", function()
    assert.equal("load_npy: the path is a nil; give a file name", message(function() lt.load_npy() end))
    assert.equal("save_npy: got a table; only tensors can be saved",
      message(function() lt.save_npy(folder .. "/x.npy", { 1 }) end))
    assert.matches("none.npy", message(function() lt.load_npy(folder .. "/none.npy") end))
    assert.matches("no.such.folder", message(function() lt.save_npy(folder .. "/no.such.folder/x.npy",
      lt.zeros { 2 }) end))
    local cut = spec.write(folder .. "/cut.npy", "\147NUMPY\1\0")
    assert.matches("cut.npy", message(function() lt.load_npy(cut) end))
  end)

  it("of MNIST's form are read, several as one", function()
    local one = spec.write(folder .. "/a-idx2-ubyte", "\0\0\8\2\0\0\0\2\0\0\0\3\1\2\3\4\5\255")
    local two = spec.write(folder .. "/b-idx2-ubyte", "\0\0\8\2\0\0\0\1\0\0\0\3\7\8\9")
    local t = lt.data.idx(one)
    assert.same({ "uint8", { { 1, 2, 3 }, { 4, 5, 255 } } }, { t.dtype, t:totable() })
    assert.same({ { 1, 2, 3 }, { 4, 5, 255 }, { 7, 8, 9 } }, lt.data.idx({ one, two }):totable())
    assert.equal("idx: give a file name or a list of them", message(function() lt.data.idx {} end))
    assert.matches("none", message(function() lt.data.idx(folder .. "/none") end))
  end)

  it("of MNIST itself make batches of pictures", function()
    local path = data_sets.need "mnist"
    local images, classes = lt.data.idx(path .. "/t10k-images-idx3-ubyte.gz"),
      lt.data.idx(path .. "/t10k-labels-idx1-ubyte.gz")
    assert.same({ 10000, 28, 28 }, images.shape)
    local d = lt.data.from_tensors({ x = images, y = classes }):shuffle { seed = 1 }:batch(100):map(function(batch)
      batch.x = batch.x:to "float32":reshape(-1, 784) / 255
      return batch
    end)
    local counts, rows = {}, 0
    for batch in d:iter() do
      for _, c in ipairs(batch.y:totable()) do counts[c] = (counts[c] or 0) + 1 end
      rows = rows + batch.x:size(1)
    end
    assert.equal(10000, rows)
    assert.equal(980, counts[0]) -- zeros among MNIST's test pictures
  end)
end)
