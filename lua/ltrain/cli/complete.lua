-- Completion for the REPL: names, fields and methods reached through dots and colons from the session's variables, and
-- module names inside require. Values are looked up, never called: `lt.nn.<Tab>` walks tables and their __index, a
-- metatable's __members (a list of names, or a function of the value giving one) speaks for values whose fields cannot
-- be listed, tensors offer their methods.

local host = require "ltrain.host"

local M = {}

-- Adds the string keys that a table, its __index tables and its __members offer.
local function add_fields(names, value, depth)
  if depth > 8 then return end
  if type(value) == "table" then
    local key = next(value)
    while key ~= nil do
      if type(key) == "string" and key:find("^[%a_][%w_]*$") then names[key] = true end
      key = next(value, key)
    end
  end
  if type(value) == "cdata" then
    local lt, op = package.loaded["ltrain"], package.loaded["ltrain.op"]
    if not lt or not op or not lt.is_tensor(value) then return end
    add_fields(names, lt.Tensor, depth + 1)
    for _, name in ipairs(op.method_names()) do names[name] = true end
    return
  end
  local meta = debug.getmetatable(value)
  if type(meta) ~= "table" then return end
  local members = rawget(meta, "__members")
  if type(members) == "function" then members = members(value) end
  if type(members) == "table" then
    for _, name in ipairs(members) do names[name] = true end
  end
  local index = rawget(meta, "__index")
  if type(index) == "table" then add_fields(names, index, depth + 1) end
end

-- value[name], nil where that cannot be asked.
local function member_of(value, name)
  local found, member = pcall(function() return value[name] end)
  if found then return member end
end

-- Module names below lua/ and models/ that begin with `word`.
local function add_modules(names, word)
  local folder, prefix = word:match("^(.*)%.([^.]*)$")
  folder, prefix = folder or "", prefix or word
  local places = { host.home .. "/lua/" .. folder:gsub("%.", "/") }
  if folder == "ltrain.models" then places = { host.home .. "/models" } end
  if folder == "ltrain" then names["ltrain.models"] = true end
  for _, place in ipairs(places) do
    for _, entry in ipairs(host.list(place) or {}) do
      local name = entry:match("^(.*)%.lua$") or (not entry:find(".", 1, true) and entry)
      if name and name ~= "init" and name:sub(1, #prefix) == prefix then
        names[(folder ~= "" and folder .. "." or "") .. name] = true
      end
    end
  end
end

-- The candidates for the end of `line`, sorted, and how many of their bytes are typed already.
---@param line string the text before the cursor
---@param lookup fun(name: string): any value of a variable
---@param variables fun(): table<string, boolean> all variables
---@return string[] candidates whole words
---@return integer typed
function M.candidates(line, lookup, variables)
  local names = {}
  local word = line:match("require%s*%(?%s*[\"']([%w_.]*)$")
  if word then
    add_modules(names, word)
  else
    local path = line:match("[%w_.:]*$")
    local parent, separator, last = path:match("^(.*)([.:])([%w_]*)$")
    word = last or path
    if parent then
      local value
      for name in parent:gmatch("[^.:]+") do
        if value == nil then value = lookup(name) else value = member_of(value, name) end
        if value == nil then return {}, 0 end
      end
      if value == nil then return {}, 0 end
      add_fields(names, value, 0)
      if separator == ":" then -- methods only
        for name in pairs(names) do
          if type(value) ~= "cdata" and type(member_of(value, name)) ~= "function" then names[name] = nil end
        end
      end
    elseif path:find("^%d") or path == "" then
      return {}, 0
    else
      names = variables()
    end
  end
  local list = {}
  for name in pairs(names) do
    local hidden = name:sub(1, 2) == "__" and word == ""
    if name:sub(1, #word) == word and not hidden then list[#list + 1] = name end
  end
  table.sort(list)
  return list, #word
end

-- What the line editor asks for: text to insert now, and the candidates when there is nothing to insert.
function M.complete(line, lookup, variables)
  local list, typed = M.candidates(line, lookup, variables)
  local common = list[1]
  for _, name in ipairs(list) do
    local n = 0
    while n < #common and common:byte(n + 1) == name:byte(n + 1) do n = n + 1 end
    common = common:sub(1, n)
  end
  return common and common:sub(typed + 1) or "", list
end

return M
