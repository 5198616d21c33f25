-- The memory of an interactive session: compiles an entry, runs it, keeps its top-level locals alive for the next one.
-- A local survives as the very variable, not a copy: the entry ends in a closure over its locals, and the next entry's
-- upvalues of those names are joined to that closure's. So `local n = 0` and `function inc() n = n + 1 end` belong
-- together across entries, as they would in a file.

local M = {}
M.__index = M

local KEYWORDS = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or repeat return then true
  until while]]):gmatch("%a+") do
  KEYWORDS[word] = true
end

local MAX_NAMES = 50 -- a closure holds 60 upvalues
local CAPTURE, SHOW = "__ltrain_capture", "__ltrain_show"

---@param env table what names refer to
function M.new(env)
  return setmetatable({ env = env, cells = {} }, M)
end

-- Names of the source that pass `keep`, each once, in order.
local function names_of(source, keep)
  local list, seen = {}, {}
  for name in source:gmatch("[%a_][%w_]*") do
    if not seen[name] and not KEYWORDS[name] and #list < MAX_NAMES and keep(name) then
      seen[name] = true
      list[#list + 1] = name
    end
  end
  return list
end

-- Compiles `body` with the surviving locals in reach. Returns a function of one argument (the hook named `hook`).
function M:compile(source, body, hook)
  local known = names_of(source, function(name) return self.cells[name] end)
  local prefix = #known > 0 and "local " .. table.concat(known, ",") .. " " or ""
  local make, message = loadstring(prefix .. "return function(" .. hook .. ",...) " .. body .. "\nend", "=stdin")
  if not make then return nil, message end
  local entry = make()
  for i = 1, math.huge do
    local name = debug.getupvalue(entry, i)
    if not name then break end
    local cell = self.cells[name]
    if cell then debug.upvaluejoin(entry, i, cell.closure, cell.index) end
  end
  return setfenv(entry, self.env)
end

-- Remembers the locals that the closure at the end of an entry could see.
function M:capture(closure, known)
  for i = 1, math.huge do
    local name = debug.getupvalue(closure, i)
    if not name then return end
    if known[name] then self.cells[name] = { closure = closure, index = i } end
  end
end

-- Is the entry an expression, a statement, unfinished, or wrong?
---@param source string
---@return "expression"|"statement"|"unfinished"|"wrong" kind, string? message
function M.kind(source)
  local function cut(message) return message:find("near '<eof>'", 1, true) and not message:find("unfinished string", 1, true) end
  local value, complaint = loadstring("return " .. source .. "\n", "=stdin")
  if value then return "expression" end
  local ok, message = loadstring(source, "=stdin")
  if ok then return "statement" end
  return (cut(message) or cut(complaint)) and "unfinished" or "wrong", message -- `y +` is cut off as an expression only
end

-- The function that runs an entry and gives its values to `show`; or nil and a message.
---@param source string
---@param show fun(...)
function M:load(source, show)
  local text = source:match("^%s*=(.*)$") or source
  local kind, message = M.kind(text)
  if kind == "expression" and text:find("%S") then
    -- a call in show's argument, for a tail call would lose the line
    local entry, problem = self:compile(text, SHOW .. "(" .. text .. "\n)", SHOW)
    if entry then return function() entry(show) end end
    message = problem
  elseif kind == "statement" or kind == "expression" then
    local declared = names_of(text, function(name) return text:find("local[^=]*%f[%w_]" .. name .. "%f[^%w_]") end)
    local tail = #declared > 0
        and "\n;" .. CAPTURE .. "(function() return " .. table.concat(declared, ",") .. " end)"
      or ""
    local entry = self:compile(text, text .. tail, CAPTURE) -- fails when the entry ends in `return`
    if entry then
      local known = {}
      for _, name in ipairs(declared) do known[name] = true end
      return function()
        entry(function(closure) self:capture(closure, known) end)
      end
    end
    entry, message = self:compile(text, text, CAPTURE)
    if entry then return function() show(entry()) end end
  end
  return nil, message
end

return M
