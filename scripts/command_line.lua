--- What the training scripts share: their arguments, and an end with a message instead of a traceback.
local bridge = require "ltrain.ffi"

local M = {}

---Ends the program: what a person typed, or data that is not there, is no error of the script.
function M.fail(format, ...)
  io.stdout:flush()
  io.stderr:write("ltrain: ", format:format(...), "\n")
  os.exit(2)
end

-- Whole number of at least 1.
local function count(name, text)
  local n = tonumber(text)
  if not n or n < 1 or n ~= math.floor(n) or n == math.huge then M.fail("%s is %s; it must be a whole number of at least 1", name, text) end
  return n
end

---Reads `--name value` for each of `valued`, `--quiet`, and up to `most` other words.
---@param words string[]
---@param usage string
---@param valued string[] as { "--seeds", "--data" }; seeds is read as a number, 3 when it is not given
---@param most integer
---@return table options by name without dashes
---@return string[] others
function M.parse(words, usage, valued, most)
  local options, others, known, i = { seeds = "3" }, {}, { "--quiet", unpack(valued) }, 1
  while words[i] do
    local word, takes = words[i], false
    for _, name in ipairs(valued) do takes = takes or name == word end
    if takes then
      i = i + 1
      if not words[i] then M.fail("%s needs a value after it; %s", word, usage) end
      options[word:sub(3)] = words[i]
    elseif word == "--quiet" then options.quiet = true
    elseif word == "--help" or word == "-h" then
      print(usage)
      os.exit(0)
    elseif word:sub(1, 1) == "-" then
      M.fail("unknown option %s%s; %s", word, bridge.suggest(word, known, "%s"), usage)
    elseif #others == most then M.fail("%s is one word too many; %s", word, usage)
    else others[#others + 1] = word end
    i = i + 1
  end
  options.seeds = count("--seeds", options.seeds)
  return options, others
end

return M
