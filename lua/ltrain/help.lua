--- help(x) explains an operator, a function, a module of ltrain or a tensor. Operators speak through the registry's
--- signature and text, Lua functions through the comment above their definition, modules through the banner of their
--- file, so that there is no second place where documentation could go stale.
local M = {}

-- Lines of a source file, or nil for code that came from elsewhere.
local function lines_of(source)
  local file = source:sub(1, 1) == "@" and io.open(source:sub(2))
  if not file then return nil end
  local lines = {}
  for line in file:lines() do lines[#lines + 1] = line end
  file:close()
  return lines
end

local function argument_line(rest)
  local name, kind, text = rest:match "^(%S+)%s+(%S+)%s*(.*)$"
  if not name then return "  " .. rest end
  return ("  %s: %s%s"):format(name, kind, text ~= "" and "   " .. text or "")
end

-- Comment lines as text: annotations of arguments and results become lines of their own.
local function comment_text(comments)
  local out = {}
  for _, line in ipairs(comments) do
    local text = line:match "^%s*%-%-%-?%s?(.*)$"
    local tag, rest = text:match "^@(%w+)%s*(.*)$"
    if tag == "param" then
      out[#out + 1] = argument_line(rest)
    elseif tag == "return" then
      out[#out + 1] = "  returns " .. rest
    elseif not tag then
      out[#out + 1] = text
    end
  end
  return table.concat(out, "\n")
end

-- The comment block that ends right above line `at`.
local function block_above(lines, at)
  local first = at
  while first > 1 and lines[first - 1]:find "^%s*%-%-" do first = first - 1 end
  return { unpack(lines, first, at - 1) }
end

local function function_text(f, name)
  local info = debug.getinfo(f, "S")
  if info.what == "C" then return (name or "a function") .. ": built into LuaJIT or written in C" end
  local lines = lines_of(info.source)
  local head = lines and lines[info.linedefined]
  if not head then return (name or "a function") .. ": defined in " .. info.short_src end
  local defined, arguments = head:match "function%s*([%w_.:]*)%s*(%b())"
  local title = (name or (defined and defined ~= "" and defined) or "function") .. (arguments or "(...)")
  local text = comment_text(block_above(lines, info.linedefined))
  local place = ("(%s:%d)"):format(info.short_src:match "[^/]*/[^/]*$" or info.short_src, info.linedefined)
  return title .. "   " .. place .. (text ~= "" and "\n" .. text or "\nno text")
end

-- The comment at the top of a file.
local function banner(path)
  local lines, comments = lines_of("@" .. path), {}
  for _, line in ipairs(lines or {}) do
    if not line:find "^%-%-" then break end
    comments[#comments + 1] = line
  end
  return comment_text(comments)
end

local function operator_text(spec)
  local bit, C = require "bit", require("ltrain.ffi").C
  local notes = {}
  if bit.band(spec.flags, tonumber(C.LT_OP_INPLACE)) ~= 0 then
    notes[#notes + 1] = ("in place: x:%s_(...)"):format(spec.name)
  end
  if bit.band(spec.flags, tonumber(C.LT_OP_NO_GRADIENT)) ~= 0 then notes[#notes + 1] = "has no gradient" end
  return spec.text .. "\n" .. spec.doc .. (#notes > 0 and "\n" .. table.concat(notes, "; ") or "")
end

-- Names of a table's functions and tables, sorted; or what its metatable lists as members.
local function members_text(t)
  local names, meta = {}, getmetatable(t)
  local listed = type(meta) == "table" and meta.__members
  if listed then return "holds " .. table.concat(type(listed) == "function" and listed(t) or listed, ", ") end
  for key, value in pairs(t) do
    local told = type(value) == "function" or type(value) == "table"
    if type(key) == "string" and key:sub(1, 1) ~= "_" and told then names[#names + 1] = key end
  end
  table.sort(names)
  return #names > 0 and "holds " .. table.concat(names, ", ") or ""
end

-- Options of an optimizer with their defaults.
local function options_text(t)
  local show, parts = require "ltrain.cli.show", {}
  for i, key in ipairs(t.options) do
    parts[i] = t.defaults[key] ~= nil and key .. " = " .. show.text(t.defaults[key]) or key
  end
  return "options: " .. table.concat(parts, ", ")
end

local function table_text(t)
  local maker = rawget(t, "new") or rawget(t, "init") or rawget(t, "__init") or rawget(t, "forward")
  local class = rawget(t, "__class_name")
  for name, loaded in pairs(package.loaded) do
    if loaded == t and name:find "^ltrain" then
      local path = package.searchpath(name, package.path)
      local made = class and rawget(t, "init") and function_text(t.init)
      local options = rawget(t, "options") and rawget(t, "defaults") and options_text(t)
      return name .. "\n" .. (path and banner(path) or "") .. "\n" .. (made or options or members_text(t))
    end
  end
  if class and type(maker) == "function" then
    local path = debug.getinfo(maker, "S").source:sub(2)
    return class .. "\n" .. banner(path) .. "\n" .. function_text(maker)
  end
  local meta = getmetatable(t)
  local instance_of = type(meta) == "table" and rawget(meta, "__class_name")
  if instance_of then
    return ("an instance of %s; its methods: m:<Tab>, help 'nn.Module'\n%s"):format(instance_of, tostring(t))
  end
  return "a table; " .. members_text(t)
end

-- "nn.Linear", "softmax", "x:sum", "model:fit": the value behind a name. Methods are looked for without their object.
local function resolve(name)
  local loaded, lt = pcall(require, "ltrain")
  if not loaded then return nil end
  local value = lt
  for part in name:gsub("^lt[.:]", ""):gsub("^[%w_]+:", ""):gmatch "[^.:]+" do
    local found, member = pcall(function() return value[part] end)
    if not found then member = nil end
    if member == nil and value == lt then member = rawget(lt.Tensor, part) or lt.nn.Module[part] end
    if member == nil then return nil end
    value = member
  end
  return value
end

---What `help` prints.
---@param x any a function, module, class or tensor, or a name as "nn.Linear"
---@return string
function M.text(x)
  local name
  if type(x) == "string" then
    name = x
    x = resolve(name)
    if x == nil then
      local known = getmetatable(require "ltrain").__members()
      return ("help: nothing is called '%s'%s; help(lt) lists what there is"):format(name, require("ltrain.ffi").suggest(name, known))
    end
  end
  local op = package.loaded["ltrain.op"]
  if type(x) == "function" then
    local spec = op and op.of[x]
    return spec and operator_text(spec) or function_text(x, name)
  end
  if type(x) == "table" then return table_text(x) end
  local lt = package.loaded["ltrain"]
  if type(x) == "cdata" and lt and lt.is_tensor(x) then
    return ("a tensor: %s [%s]; its methods: x:<Tab>, help 'sum'"):format(x.dtype, table.concat(x.shape, ", "))
  end
  if x == nil then return "help(x) explains functions, modules, tensors and names: help(lt.add), help 'nn.Linear'" end
  return ("a %s"):format(type(x))
end

return setmetatable(M, { __call = function(_, x) print(M.text(x)) end })
