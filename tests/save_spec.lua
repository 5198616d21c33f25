-- Saving and loading models: bits that come back, refusals that change nothing, files that stay whole.
local ffi = require "ffi"
local lt = require "ltrain"
local json = require "ltrain.json"
local here = debug.getinfo(1, "S").source:match "^@(.*/)" or "./"
local fails, scratch = dofile(here .. "ops/fails.lua"), dofile(here .. "data/scratch.lua")

ffi.cdef [[
  int getrlimit(int resource, uint64_t *limits);
  int setrlimit(int resource, const uint64_t *limits);
]]
local RLIMIT_FSIZE = 1

local function bytes_of(t)
  local c = t:detach():contiguous()
  return ffi.string(c:data(), c:numel() * tonumber(ffi.C.lt_dtype_size(c.dtype_)))
end

local function bits(model)
  local list = {}
  for i, entry in ipairs(model:state_dict()) do list[i] = entry.name .. "=" .. bytes_of(entry.tensor) end
  return table.concat(list)
end

local CSV = {}
for i = 1, 60 do
  CSV[i] = ("%d,u%d,%s,%d,%s"):format(i * 7 % 3 == 0 and 1 or 0, i * i % 11, ("red green blue"):match(("%S+ "):rep(i % 3) .. "(%S+)"), i % 40 + 20,
    i % 13 == 0 and "" or tostring(i * 1.5))
end
CSV = "clicked,user,colour,age,price\n" .. table.concat(CSV, "\n") .. "\n"

local function decade(text) return tostring(math.floor(tonumber(text) / 10)) end

local function schema(transform)
  return lt.data.schema { label = "clicked", numeric = { { "price", missing = "mean", transform = "standard" } },
    categorical = { "user", "colour", { "age", transform = transform } }, verbose = false }
end

describe("a model's file", function()
  local folder, path
  before_each(function()
    folder = scratch.folder()
    path = folder .. "/model.safetensors"
    scratch.write(folder .. "/rows.csv", CSV)
  end)
  after_each(function() scratch.remove(folder) end)

  local function trained(transform)
    local data = lt.data.csv(folder .. "/rows.csv", { schema = schema(transform) })
    lt.manual_seed(3)
    local model = require "ltrain.models.deepfm" { features = data:features(), dim = 3, hidden = { 8, 4 }, batch_norm = true, dropout = 0.1 }
    model:compile { optimizer = lt.optim.Adam { lr = 0.02 }, loss = "bce_with_logits" }
    model:fit(data:shuffle():batch(16), { epochs = 3, verbose = false })
    return model, data
  end

  it("gives back every bit: parameters, padded tables, buffers", function()
    local model, data = trained()
    model:save(path)
    local fresh = require "ltrain.models.deepfm" { features = data:features(), dim = 3, hidden = { 8, 4 }, batch_norm = true, dropout = 0.1 }
    fresh:compile { optimizer = lt.optim.Adam {}, loss = "bce_with_logits" }
    assert.is_false(bits(fresh) == bits(model))
    assert.equal(fresh, fresh:load(path))
    assert.is_true(bits(fresh) == bits(model))
    assert.is_true(bytes_of(fresh:predict(data:batch(7))) == bytes_of(model:predict(data:batch(7))))
    assert.same({ "model.safetensors", "rows.csv" }, scratch.list(folder))
  end)

  it("is the same for the same model, byte for byte", function()
    local model = trained()
    model:save(path)
    local once = scratch.read(path)
    model:save(path)
    assert.is_true(once == scratch.read(path))
  end)

  it("builds model and schema again: the same predictions for the same raw rows", function()
    local model, data = trained()
    model:save(path)
    local loaded = lt.load_model(path)
    assert.is_false(loaded:is_training())
    loaded:compile { optimizer = lt.optim.Adam {}, loss = "bce_with_logits" }
    assert.equal(data.about.schema:hash(), loaded.schema:hash())
    local raw = lt.data.csv(folder .. "/rows.csv", { schema = loaded.schema })
    assert.is_true(bytes_of(loaded:predict(raw:batch(9))) == bytes_of(model:predict(data:batch(9))))
    scratch.write(folder .. "/new.csv", "age,colour,user,price\n30,blue,u4,\n31,violet,nobody,2.5\n") -- no label, other order, unseen
    local new = lt.data.csv(folder .. "/new.csv"):encode(loaded.schema, { label = false })
    assert.same({ 2 }, loaded:predict(new:batch(2)).shape)
    loaded:save(folder .. "/again.safetensors")
    assert.is_true(scratch.read(path) == scratch.read(folder .. "/again.safetensors"))
  end)

  it("says that functions of the schema are no part of it, and takes them", function()
    local model, data = trained(decade)
    model:save(path)
    local without = lt.load_model(path)
    fails('schema: "age" is made by a function of the script, which no file keeps; pass it again: { transforms = { ["age"] = function(text) '
      .. '... end } }', function() lt.data.csv(folder .. "/rows.csv", { schema = without.schema }) end)
    local loaded = lt.load_model(path, { transforms = { age = decade } })
    loaded:compile { optimizer = lt.optim.Adam {}, loss = "bce_with_logits" }
    local raw = lt.data.csv(folder .. "/rows.csv", { schema = loaded.schema })
    assert.is_true(bytes_of(loaded:predict(raw:batch(9))) == bytes_of(model:predict(data:batch(9))))
    fails("load_model: unknown option 'transform', did you mean 'transforms'?; it knows transforms",
      function() lt.load_model(path, { transform = {} }) end)
  end)

  it("serves every model that ltrain has", function()
    local _, data = trained()
    local models = { lr = { features = data:features() }, fm = { features = data:features(), dim = 2 },
      deepfm = { features = data:features(), dim = 2, hidden = { 4 } }, mlp = { n_in = 3, hidden = { 4 }, n_out = 2 } }
    for _, name in ipairs { "lr", "fm", "deepfm", "mlp" } do
      local model = require("ltrain.models." .. name)(models[name])
      model:save(path)
      assert.is_true(bits(lt.load_model(path)) == bits(model), name)
    end
  end)

  it("does not keep what JSON has no form for, and says what", function()
    local model = require "ltrain.models.mlp" { n_in = 3, hidden = { 4 }, init = function(t) return t:detach():fill_(1) end }
    fails("save: the model's configuration cannot be written: 'init' is a function, which JSON has no form for", function() model:save(path) end)
    assert.is_nil(scratch.read(path))
  end)

  describe("load refuses, and changes nothing:", function()
    local function perceptron()
      lt.manual_seed(1)
      return lt.nn.Sequential(lt.nn.Linear(3, 2), lt.nn.Linear(2, 1))
    end
    local function check(message, change, options)
      local source = perceptron()
      local state = {}
      for _, entry in ipairs(source:state_dict()) do state[entry.name] = entry.tensor + 1 end
      change(state)
      lt.save(path, state)
      local model = perceptron()
      local before = bits(model)
      fails(message, function() model:load(path, options) end)
      assert.is_true(bits(model) == before)
    end

    it("missing names", function()
      check("load_state_dict: missing in the state: 1.bias, 2.weight; nothing was loaded; pass { strict = false } to load what fits", function(s)
        s["1.bias"], s["2.weight"] = nil, nil
      end)
    end)
    it("extra names", function()
      check("load_state_dict: not in the model: 3.bias, a; nothing was loaded; pass { strict = false } to load what fits", function(s)
        s["3.bias"], s.a = lt.zeros(1), lt.zeros(1)
      end)
    end)
    it("both", function()
      check("load_state_dict: missing in the state: 1.bias; not in the model: 1.bais; nothing was loaded; pass { strict = false } to load what "
        .. "fits", function(s) s["1.bais"], s["1.bias"] = s["1.bias"], nil end)
    end)
    it("shapes that differ, strict or not", function()
      local message = "load_state_dict: '2.weight' is [2, 1] in the state and [1, 2] in the model; nothing was loaded"
      check(message, function(s) s["2.weight"] = s["2.weight"]:reshape(2, 1) end)
      check(message, function(s) s["2.weight"] = s["2.weight"]:reshape(2, 1) end, { strict = false })
    end)
    it("misspelt options", function()
      check("load_state_dict: unknown option 'stric', did you mean 'strict'?; it knows strict", function() end, { stric = false })
    end)
    it("but takes what fits when told to", function()
      local source, model = perceptron(), perceptron()
      lt.save(path, { ["1.bias"] = source["1"].bias + 5, other = lt.zeros(2) })
      local weight = bytes_of(model["1"].weight)
      model:load(path, { strict = false })
      assert.close(model["1"].bias, source["1"].bias + 5, 1e-6)
      assert.equal(weight, bytes_of(model["1"].weight))
    end)
  end)

  describe("a full disk while saving", function()
    it("keeps the old file, leaves nothing beside it, and the model can be saved elsewhere", function()
      local model = trained()
      model:save(path)
      local old = scratch.read(path)
      model:parameters()[1]:detach():add_(1)
      local limits = ffi.new "uint64_t[2]"
      assert(ffi.C.getrlimit(RLIMIT_FSIZE, limits) == 0)
      assert(ffi.C.setrlimit(RLIMIT_FSIZE, ffi.new("uint64_t[2]", { 1000, limits[1] })) == 0)
      local ok, message = pcall(function() model:save(path) end)
      local new_ok, new_message = pcall(function() model:save(folder .. "/new.safetensors") end)
      ffi.C.setrlimit(RLIMIT_FSIZE, limits)
      assert.is_false(ok)
      assert.is_false(new_ok)
      assert.is_truthy(message:find("^[^:]*save_spec%.lua:%d+: .*/model%.safetensors: %d+ bytes are more than this process may write to a file "
        .. "%(ulimit %-f%); the file that was there is unchanged$"), message)
      assert.is_truthy(new_message:find "new%.safetensors: .*nothing was left behind$", new_message)
      assert.is_true(old == scratch.read(path))
      assert.same({ "model.safetensors", "rows.csv" }, scratch.list(folder))
      model:save(path)
      assert.is_false(old == scratch.read(path))
      assert.is_true(bits(lt.load_model(path)) == bits(model))
    end)
  end)

  describe("damaged and hostile files are refused at the user's line:", function()
    local function message_of(fn)
      local ok, message = pcall(fn)
      assert.is_false(ok)
      assert.is_truthy(message:find "^[^:]*save_spec%.lua:%d+: ", message)
      return (message:gsub("^[^:]*:%d+: ", ""))
    end

    it("cut short, at every length", function()
      local model = lt.nn.Sequential(lt.nn.Linear(3, 2))
      model:save(path)
      local whole, before = scratch.read(path), bits(model)
      for length = 0, #whole - 1 do
        scratch.write(path, whole:sub(1, length))
        local message = message_of(function() model:load(path) end)
        assert.equal(path .. ": ", message:sub(1, #path + 2))
        assert.is_true(bits(model) == before)
      end
    end)

    it("headers that lie", function()
      local function header(text, data)
        local n = ffi.new("int64_t[1]", #text)
        scratch.write(path, ffi.string(n, 8) .. text .. (data or ""))
        return message_of(function() return lt.load(path) end)
      end
      scratch.write(path, ("\255"):rep(8) .. "{}")
      assert.equal(path .. ": not a safetensors file (the header would have 18446744073709551615 bytes; up to 100000000 are possible); this "
        .. "looks like another kind of file, or a damaged one", message_of(function() lt.load(path) end))
      assert.equal(path .. ": tensor 'b' [4, 8] overlaps 'a' [0, 8]", header('{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},'
        .. '"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}', ("\0"):rep(8)))
      assert.equal(path .. ": tensor 'a': dimension 1 of its shape is not a whole number from 0 to 2^53 - 1",
        header('{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}', ("\0"):rep(4)))
      assert.equal(path .. ": header: byte 20: nested too deeply", header('{"a":' .. ("["):rep(100000)))
    end)

    it("tensors of types that ltrain lacks", function()
      local text = '{"a":{"dtype":"I16","shape":[2],"data_offsets":[0,4]}}'
      scratch.write(path, ffi.string(ffi.new("int64_t[1]", #text), 8) .. text .. "\0\0\0\0")
      assert.equal(path .. ": tensor 'a' is I16 with 1 dims; ltrain reads F64 F32 BF16 F16 I64 I32 U8 BOOL with up to 8 dims",
        message_of(function() lt.load(path) end))
    end)

    it("no file, and no text for a path", function()
      assert.equal(path .. ": no such file; check the path", message_of(function() lt.load_model(path) end))
      assert.equal("save: the path is a number; it must be a text", message_of(function() lt.save(3, {}) end))
    end)

    it("models that they do not hold", function()
      local function check(metadata, message)
        lt.save(path, { a = lt.zeros(1) }, metadata)
        assert.equal("load_model: " .. message, message_of(function() lt.load_model(path) end))
      end
      local remedy = "; build the model and call model:load"
      check({}, path .. " does not say which model it holds" .. remedy)
      check({ ["ltrain.model"] = "deepfm" }, path .. " has no config" .. remedy)
      check({ ["ltrain.model"] = "mlp", ["ltrain.config"] = "{" },
        path .. ": its config is damaged: " .. select(2, json.decode "{"))
      check({ ["ltrain.model"] = "mlp", ["ltrain.config"] = "3" }, path .. ": its config is damaged: it is no object")
      check({ ["ltrain.model"] = "gpt9", ["ltrain.config"] = "{}" }, path .. " holds a 'gpt9', which is no model of ltrain" .. remedy)
    end)

    it("names that reach for other files than models", function()
      scratch.write(folder .. "/evil.lua", "_G.ltrain_evil = true return function() end")
      for _, name in ipairs { "../../.." .. folder .. "/evil", "mlp/../../../../../../../.." .. folder .. "/evil", "cli..main" } do
        lt.save(path, { a = lt.zeros(1) }, { ["ltrain.model"] = name, ["ltrain.config"] = "{}" })
        assert.equal("load_model: " .. path .. " holds a '" .. name .. "', which is no model of ltrain; build the model and call model:load",
          message_of(function() lt.load_model(path) end))
      end
      assert.is_nil(rawget(_G, "ltrain_evil"))
    end)
  end)

  it("of plain tensors: every dtype and shape, metadata, order of names", function()
    local state = { b = lt.randn(2, 3), a = lt.tensor({ 1, 2 }, "int64"), c = lt.tensor(2.5), d = lt.zeros(0, 4),
      e = lt.randn(3, 4):transpose(1, 2), f = lt.randn(5, 8):narrow(2, 1, 3), g = lt.tensor({ true, false }, "bool"),
      h = lt.randn(4):to "bfloat16", i = lt.randn(4):to "float64" }
    lt.save(path, state, { note = "é" })
    local back, metadata = lt.load(path)
    assert.same({ note = "é" }, metadata)
    for _, name in ipairs { "a", "b", "c", "d", "e", "f", "g", "h", "i" } do
      assert.same(state[name].shape, back[name].shape)
      assert.equal(state[name].dtype, back[name].dtype)
      assert.is_true(bytes_of(state[name]) == bytes_of(back[name]), name)
    end
    fails("save: 'x' is a number; only tensors can be saved", function() lt.save(path, { x = 3 }) end)
    fails("save: metadata 'x' is a number; keys and values must be texts", function() lt.save(path, { a = lt.zeros(1) }, { x = 3 }) end)
    fails("save: the state is a nil; it must be a table of tensors by name", function() lt.save(path) end)
    assert.equal("é", select(2, lt.load(path)).note) -- refusals left the file
  end)
end)
