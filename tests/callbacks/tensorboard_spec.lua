-- Event files: framing against the vectors of CRC-32C and of TFRecord, events against protoc's bytes, curves read back by
-- a reader of our own.
local ffi = require "ffi"
local lt = require "ltrain"
local tfrecord = require "ltrain.log.tfrecord"
local events = require "ltrain.log.event_file"
local here = debug.getinfo(1, "S").source:match "^@(.*/)" or "./"
local scripted, fails = dofile(here .. "scripted.lua"), dofile(here .. "../ops/fails.lua")
local scratch = dofile(here .. "../data/scratch.lua")

local function hex(bytes)
  return (bytes:gsub(".", function(c) return ("%02x"):format(c:byte()) end))
end

describe("TFRecord framing", function()
  it("has the CRC-32C of RFC 3720 and its mask", function()
    assert.equal(0xE3069283, tfrecord.crc32c "123456789")
    assert.equal(0x8A9136AA, tfrecord.crc32c(("\0"):rep(32)))
    assert.equal(0x62A8AB43, tfrecord.crc32c(("\255"):rep(32)))
    assert.equal(0, tfrecord.crc32c "")
    assert.equal(0xC78AB0E5, tfrecord.masked_crc "123456789")
  end)

  it("is that of TensorFlow's writer", function()
    assert.equal("000000000000000029039807d8ea82a2", hex(tfrecord.record ""))
    assert.equal("0300000000000000b099490e6162636e57f121", hex(tfrecord.record "abc"))
  end)
end)

describe("events", function()
  it("are what protoc makes of them", function()
    assert.equal("09000000000000f83f10072a230a210a046c6f73734a0d0a090a077363616c6172732001420a080112002a040000803e",
      hex(events.scalar(1.5, 7, "loss", 0.25, true)))
    assert.equal("09000000000000f83f1a0d627261696e2e4576656e743a32", hex(events.version(1.5)))
  end)

  it("take large steps, long tags and values beyond numbers", function()
    local event = events.scalar(0, 300, ("t"):rep(200), 0 / 0, false)
    assert.equal("10ac02", hex(event:sub(10, 12)))
    assert.is_truthy(hex(event):find("0ac801" .. ("74"):rep(200), 1, true))
    assert.is_truthy(hex(event):find "2a040000c0[7f]f$")
  end)
end)

-- A reader of its own: every record of a file checked and taken apart.
local function read_file(path)
  local bytes, at, list = scratch.read(path), 1, {}
  local function u(n)
    local v = 0
    for i = n - 1, 0, -1 do v = v * 256 + bytes:byte(at + i) end
    at = at + n
    return v
  end
  while at <= #bytes do
    local start = at
    local length = u(8)
    assert.equal(tfrecord.masked_crc(bytes:sub(start, start + 7)), u(4))
    local data = bytes:sub(at, at + length - 1)
    at = at + length
    assert.equal(tfrecord.masked_crc(data), u(4))
    list[#list + 1] = data
  end
  assert.equal(events.version(ffi.cast("const double *", list[1] .. "\0")[0]):sub(10), list[1]:sub(10))
  return list
end

-- Fields of a message: { [number] = value }, the last of each.
local function message(bytes)
  local at, fields = 1, {}
  local function varint()
    local v, scale = 0, 1
    repeat
      local b = bytes:byte(at)
      at, v, scale = at + 1, v + b % 128 * scale, scale * 128
    until b < 128
    return v
  end
  while at <= #bytes do
    local key = varint()
    local kind, n = key % 8, math.floor(key / 8)
    if kind == 0 then fields[n] = varint()
    else
      local length = kind == 1 and 8 or kind == 5 and 4 or varint()
      fields[n] = bytes:sub(at, at + length - 1)
      at = at + length
    end
  end
  return fields
end

local function number(kind, bytes)
  local value = ffi.new(kind .. "[1]")
  ffi.copy(value, bytes, ffi.sizeof(value))
  return value[0]
end

-- Curves of a folder: tag -> { { step, value }, ... }; the plugin's name only with a tag's first value.
local function curves(folder)
  local names = scratch.list(folder)
  assert.equal(1, #names)
  assert.is_truthy(names[1]:find "^events%.out%.tfevents%.%d%d%d%d%d%d%d%d%d%d%.[%w._-]+%.%d+%.%d+%.v2$")
  local list, tags = {}, {}
  for i, data in ipairs(read_file(folder .. "/" .. names[1])) do
    local event = message(data)
    assert.is_true(math.abs(number("double", event[1]) - os.time()) < 100)
    if i > 1 then
      local value = message(message(event[5])[1])
      local tag = value[1]
      if not list[tag] then
        list[tag], tags[#tags + 1] = {}, tag
        assert.equal("scalars", message(message(value[9])[1])[1])
        assert.equal(1, message(value[9])[4])
      else
        assert.is_nil(value[9])
      end
      local tensor = message(value[8])
      assert.equal(1, tensor[1]) -- DT_FLOAT
      table.insert(list[tag], { event[2], number("float", tensor[5]) })
    end
  end
  return list, tags
end

describe("TensorBoard", function()
  local folder
  before_each(function() folder = scratch.folder() end)
  after_each(function() scratch.remove(folder) end)

  it("writes curves of training and validation side by side, as Keras does", function()
    local path = folder .. "/runs/first"
    scripted.fit({ 3, 1, 2 }, { lt.callbacks.TensorBoard { path = path }, lt.callbacks.ReduceLROnPlateau { patience = 1, factor = 0.5 } })
    assert.same({ "train", "validation" }, scratch.list(path))
    local train, tags = curves(path .. "/train")
    assert.same({ "epoch_loss", "epoch_learning_rate" }, tags)
    assert.same({ { 1, 0 }, { 2, -1 }, { 3, -2 } }, train.epoch_loss)
    assert.same({ { 1, 1 }, { 2, 1 }, { 3, 1 } }, train.epoch_learning_rate)
    assert.same({ epoch_loss = { { 1, 3 }, { 2, 1 }, { 3, 2 } } }, (curves(path .. "/validation")))
  end)

  it("has every metric, and no validation where there is none", function()
    local model = lt.nn.Sequential(lt.nn.Linear(2, 1))
    model:compile { optimizer = lt.optim.SGD { lr = 0.5 }, loss = "bce_with_logits", metrics = { "auc", "accuracy" } }
    lt.manual_seed(1)
    local data = lt.data.from_tensors { x = lt.randn(20, 2), y = lt.tensor { 0, 1 }:reshape(1, 2):expand({ 10, 2 }):reshape(20) }:batch(8)
    local history = model:fit(data, { epochs = 2, callbacks = { lt.callbacks.TensorBoard { path = folder .. "/a", update_freq = 2 } },
      verbose = false })
    assert.same({ "train" }, scratch.list(folder .. "/a"))
    local train, tags = curves(folder .. "/a/train")
    assert.same({ "batch_loss", "epoch_loss", "epoch_auc", "epoch_accuracy", "epoch_learning_rate" }, tags)
    for i = 1, 2 do assert.close(train.epoch_auc[i], { i, history.auc[i] }, 1e-7) end
    assert.same({ 2, 4, 6 }, { train.batch_loss[1][1], train.batch_loss[2][1], train.batch_loss[3][1] })
  end)

  it("has an epoch in the file when it is over", function()
    local sizes = {}
    local function size()
      local pipe = io.popen("cat " .. folder .. "/x/train/* | wc -c")
      sizes[#sizes + 1] = tonumber(pipe:read "*a")
      pipe:close()
    end
    scripted.fit({ 1, 1, 1 }, { lt.callbacks.TensorBoard { path = folder .. "/x" }, { on_epoch_end = size } })
    assert.is_true(sizes[1] > 100 and sizes[2] > sizes[1] and sizes[3] > sizes[2])
  end)

  it("survives a full disk, and says so once", function()
    local program = folder .. "/full.lua"
    scratch.write(program, [[
      local lt = require "ltrain"
      local file = io.open("/dev/full", "wb")
      file:setvbuf("full", 65536)
      local board = lt.callbacks.TensorBoard { path = arg[1] }
      local model = lt.nn.Sequential(lt.nn.Linear(1, 1))
      model:compile { optimizer = lt.optim.SGD { lr = 0 }, loss = "mse" }
      local break_it = { on_train_begin = function() board.files.train.file = file end }
      local data = lt.data.from_tensors { x = lt.zeros(2, 1), y = lt.zeros(2) }:batch(2)
      print(model:fit(data, { epochs = 3, verbose = false, callbacks = { board, break_it } }).epochs)]])
    local output, status = require("ltrain.spec").run { "ltrain", program, folder .. "/logs" }
    assert.equal(0, status)
    local _, count = output:gsub("No space left on device; no more curves are written", "")
    assert.equal(1, count, output)
    assert.is_truthy(output:find("3\n", 1, true))
  end)

  it("refuses misspelt options, a missing path and a path it cannot make", function()
    local T = lt.callbacks.TensorBoard
    fails("TensorBoard: unknown option 'pathe', did you mean 'path'?; it knows path, update_freq", function() T { pathe = "x" } end)
    fails("TensorBoard: path must be given, for instance \"logs\"", function() T {} end)
    fails("TensorBoard: update_freq is often; it must be 'epoch', 'batch' or a whole number of steps",
      function() T { path = "x", update_freq = "often" } end)
    scratch.write(folder .. "/file", "")
    local ok, text = pcall(scripted.fit, { 1 }, { T { path = folder .. "/file" } })
    assert.is_false(ok)
    assert.is_truthy(text:find("TensorBoard: " .. folder .. "/file/train/events.out.tfevents.", 1, true))
    assert.is_truthy(text:find ": Not a directory$")
  end)
end)
