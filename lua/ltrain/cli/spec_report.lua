-- The report of a spec run, as an output handler of busted: silent about what passes, one line for a skipped test with
-- its reason, name, place and message of a failure. Keeps the sums over repeated runs.

local busted = require "busted"

local token
local sums = { passed = 0, failed = 0, skipped = 0 }

local function message_text(message)
  if type(message) == "string" then return message end
  if message == nil then return "an error without a message" end
  local meta = getmetatable(message)
  if type(meta) == "table" and meta.__tostring then return tostring(message) end
  return require("ltrain.cli.show").text(message)
end

local function indented(text) return (text:gsub("%s+$", ""):gsub("\n", "\n     ")) end

local function place(item)
  local trace = item.element.trace or item.trace
  return trace and trace.short_src and (" (%s:%s)"):format(trace.short_src, trace.currentline) or ""
end

local function new_handler(options)
  local handler = require "busted.outputHandlers.base"()
  local told = { failures = 0, errors = 0, pendings = 0 }

  -- Prints what the base handler has collected since the last call.
  local function tell(kind, word)
    local list = handler[kind]
    for i = told[kind] + 1, #list do
      local item = list[i]
      local text = item.message
      if kind == "pendings" then
        text = text and text ~= "" and ": " .. message_text(text):gsub("^[^:\n]+:%d+: ", "") or ""
        print(("skip %s%s"):format(item.name, indented(text)))
      else
        print(("%s %s%s\n     %s"):format(word, item.name, place(item), indented(message_text(text))))
        if options.verbose and item.trace and item.trace.traceback then
          print("     " .. indented(item.trace.traceback:gsub("^%s+", "")))
        end
      end
    end
    told[kind] = #list
  end

  local function tell_all()
    tell("failures", "FAIL")
    tell("errors", "ERROR")
    tell("pendings", "skip")
    return nil, true
  end

  busted.subscribe({ "test", "start" }, function(element)
    if token then io.stdout:write("\n", token, " at ", (handler.getFullName(element):gsub("\n", " ")), "\n") end
    return nil, true
  end)
  busted.subscribe({ "test", "end" }, tell_all, { predicate = handler.cancelOnPending })
  busted.subscribe({ "suite", "reset" }, function()
    told = { failures = 0, errors = 0, pendings = 0 }
    return nil, true
  end)
  busted.subscribe({ "suite", "end" }, function()
    tell_all()
    sums.passed = sums.passed + handler.successesCount
    sums.failed = sums.failed + handler.failuresCount + handler.errorsCount
    sums.skipped = sums.skipped + handler.pendingsCount
    return nil, true
  end)
  return handler
end

return setmetatable({
  sums = function() return sums end,
  mark_with = function(text) token = text end, -- names the test at work on lines that begin with this text
}, { __call = function(_, options) return new_handler(options) end })
