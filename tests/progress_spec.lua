-- What fit shows: a line an epoch in a file, one line rewritten in place on a terminal, nothing when told so; Ctrl-C.
local spec = require "ltrain.spec"
local host = require "ltrain.host"
local here = debug.getinfo(1, "S").source:match "^@(.*/)" or "./"
local scratch = dofile(here .. "data/scratch.lua")

-- A training whose steps take time, so that the live line is seen. arg: epochs, seconds a step.
local SCRIPT = [[
local lt = require "ltrain"
local host = require "ltrain.host"
lt.manual_seed(1)
local x = lt.randn(100, 4)
local data = lt.data.from_tensors { x = x, y = x:sum(2):gt(0):to "float32" }:batch(30)
local model = lt.nn.Sequential(lt.nn.Linear(4, 1))
model:compile { optimizer = lt.optim.SGD { lr = 0.1 }, loss = "bce_with_logits", metrics = { "auc" } }
local slow = { on_batch_end = function(_, context)
  host.sleep(tonumber(arg[2]))
  if arg[3] == "fail" and context.step == 3 then error("out of patience", 0) end
end }
model:fit(data, { epochs = tonumber(arg[1]), validation_data = data, callbacks = { slow }, verbose = arg[3] ~= "quiet" })
print "done"
]]

-- Runs a command under a terminal of 80 columns and returns all it wrote.
local PTY = [[
import fcntl, os, pty, struct, sys, termios
pid, fd = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, int(sys.argv[1]), 0, 0))
    os.execv(sys.argv[2], sys.argv[2:])
said = b""
while True:
    try:
        data = os.read(fd, 65536)
    except OSError:
        break
    if not data:
        break
    said += data
os.waitpid(pid, 0)
sys.stdout.buffer.write(said)
]]

describe("the lines of fit", function()
  local folder, script
  setup(function()
    folder = scratch.folder()
    script = scratch.write(folder .. "/train.lua", SCRIPT)
    scratch.write(folder .. "/terminal.py", PTY)
  end)
  teardown(function() scratch.remove(folder) end)

  it("are one an epoch in a file, all of one form", function()
    local output, status = spec.run { "ltrain", script, "3", "0.06" }
    assert.equal(0, status)
    local lines = {}
    for line in output:gmatch "([^\n]*)\n" do lines[#lines + 1] = line end
    assert.equal(4, #lines, output)
    for epoch = 1, 3 do
      assert.is_truthy(lines[epoch]:find(("^epoch %d/3  step 4/4  [%%d,]+ rows/s  loss %%d%%.%%d%%d%%d%%d  auc %%d%%.%%d%%d%%d%%d  "
        .. "val_loss %%d%%.%%d%%d%%d%%d  val_auc %%d%%.%%d%%d%%d%%d  0:%%d%%d$"):format(epoch)), lines[epoch])
    end
    assert.equal("done", lines[4])
  end)

  it("are none when told so", function()
    assert.equal("done\n", (spec.run { "ltrain", script, "3", "0", "quiet" }))
  end)

  it("are rewritten in place on a terminal, and never wrap before they are final", function()
    for _, width in ipairs { 100, 40 } do
      local output = spec.run { "python3", folder .. "/terminal.py", tostring(width), host.exe, script, "2", "0.25" }
      assert.is_truthy(output:find "done\r\n$", output)
      local rows, live, final = {}, 0, 0
      for line in output:gmatch "([^\n]*)\r\n" do rows[#rows + 1] = line end
      assert.equal(3, #rows, output) -- two epochs and "done": everything else was written over
      for epoch = 1, 2 do
        local states = {}
        for state in rows[epoch]:gmatch "\r([^\r]+)\27%[K" do states[#states + 1] = state end
        for i, state in ipairs(states) do
          assert.equal(1, (state:find(("epoch %d/2  step "):format(epoch), 1, true)), state)
          if i < #states then
            live = live + 1
            assert.is_true(#state < width, state)
            if width == 100 then assert.is_truthy(state:find "loss %d%.%d+  auc .*  ETA 0:%d%d$", state) end
          else
            final = final + 1
            assert.is_truthy(state:find "step 4/4.* val_auc %d%.%d+  0:%d%d$", state)
          end
        end
      end
      assert.equal(2, final)
      assert.is_true(live >= 4, output)
    end
  end)

  it("are left before a message", function()
    local output = spec.run { "python3", folder .. "/terminal.py", "120", host.exe, script, "2", "0.25", "fail" }
    assert.is_truthy(output:find "\repoch 1/2  step 3/4 [^\r\n]*ETA 0:%d%d\27%[K\r\nltrain: out of patience\r\n", output)
  end)

  it("Ctrl-C in a session stops fit and leaves a model that predicts and trains on", function()
    local keys = table.concat { "model, data = dofile('", folder, "/session.lua')\\r" }
    scratch.write(folder .. "/session.lua", [[
      local lt = require "ltrain"
      lt.manual_seed(1)
      local x = lt.randn(200, 4)
      local model = require "ltrain.models.mlp" { n_in = 4, hidden = { 8 }, n_out = 1, dropout = 0.5 }
      model:compile { optimizer = lt.optim.Adam {}, loss = "bce_with_logits", metrics = { "auc" } }
      return model, lt.data.from_tensors { x = x, y = x:sum(2):gt(0):to("float32"):reshape(200, 1) }:batch(10)]])
    -- without the leak checker: libedit keeps the names of added functions
    local output, status = spec.run({ "env", "LTRAIN_HISTORY=" .. folder .. "/history", "TERM=xterm", "LC_ALL=C.UTF-8", "ASAN_OPTIONS=detect_leaks=0",
      "python3", here .. "cli/terminal.py", host.exe, keys, "",
      "model:fit(data, { epochs = 1000000 })\\r", "~epoch 2/1000000", "\\x03", "interrupted",
      "print('rows', model:predict(data).shape[1], model:predict(data):isfinite():all():item())\\r", "rows\t200\ttrue",
      "print('epochs', model:fit(data, { epochs = 2, verbose = false }).epochs)\\r", "epochs\t2",
      "print('auc', model:evaluate(data).auc > 0.5)\\r", "auc\ttrue", "\\x04", "" }, 120)
    assert.equal(0, status, output)
  end)
end)
