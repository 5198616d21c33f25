--- lt.data.synthetic_clicks: a stand-in for big click logs, made in memory. 13 small fields of 100 values and 26 large
--- ones, popularity like Zipf's, labels from a hidden factorization machine: linear models learn a part, FM and DeepFM
--- the rest. Row r depends on (seed, r) alone, so training and test rows come from one log: test rows are those from
--- first_row = 1000000 on.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local frames = require "ltrain.data.frame"
local C = bridge.C

---@param options table|nil { rows = 1000000, first_row = 0, fields = 39, values = 2000000, seed = 0, reserved = 0,
--- small_fields = 13,
--- small_values = 100 }; reserved = 2 keeps ids 0 and 1 for padding and unseen values
---@return table dataset with :features()
return function(options)
  options = bridge.options("synthetic_clicks", options,
    { "rows", "first_row", "fields", "values", "seed", "reserved", "small_fields", "small_values" })
  local o = ffi.new "lt_clicks_options"
  C.lt_clicks_defaults(o)
  for _, name in ipairs { "rows", "first_row", "values", "seed", "reserved", "small_fields", "small_values" } do
    local v = options[name]
    if v ~= nil then
      if type(v) ~= "number" or v ~= math.floor(v) then
        bridge.fail("synthetic_clicks: %s is %s; it must be a whole number", name, tostring(v))
      end
      o[name] = v
    end
  end
  if options.fields then o.large_fields = options.fields - o.small_fields end
  o.threads = C.lt_threads()
  local sizes, out = ffi.new("int64_t[?]", 1024), ffi.new "lt_frame *[1]"
  bridge.try(C.lt_clicks_make, o, sizes, out)
  local frame = frames.own(out[0])
  local names, features, columns = frames.names(frame), {}, {}
  for k = 2, #names do
    features[k - 1] = { name = names[k], kind = "categorical", size = tonumber(sizes[k - 2]),
      reserved = tonumber(o.reserved) }
    columns[k - 1] = k - 1
  end
  table.remove(names, 1)
  return require("ltrain.data.dataset").from_frame(frame, { where = "synthetic clicks", features = features, parts = {
    { name = "label", scalar = true, columns = { 0 }, names = { "label" }, dtype = tonumber(C.LT_FLOAT32) },
    { name = "categorical", columns = columns, names = names, dtype = tonumber(C.LT_INT32) },
  } })
end
