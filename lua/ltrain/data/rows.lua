--- Lists of row numbers: by rule, by predicate, by fractions, in shuffled order. A list is int64_t[n] and n; nil stands
--- for all rows in order.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local frames = require "ltrain.data.frame"
local C, check, fail = bridge.C, bridge.check, bridge.fail

local M = {}
local new_list = ffi.typeof "int64_t[?]"

-- { every = 10, is = 9 }: i % 10 == 9. `is` may be a list; is_not = 9 means all the others.
local function rule(where, what)
  bridge.options(what, where, { "every", "is", "is_not" })
  local every, is, is_not = where.every, where.is, where.is_not
  if type(every) ~= "number" or every < 1 or every ~= math.floor(every) then
    fail("%s: every is %s; it must be a whole number of at least 1", what, tostring(every))
  end
  if (is == nil) == (is_not == nil) then fail("%s: a rule { every = %d } needs either is or is_not", what, every) end
  local wanted, list = ffi.new("uint8_t[?]", every), is == nil and is_not or is
  for _, k in ipairs(type(list) == "table" and list or { list }) do
    if type(k) ~= "number" or k < 0 or k >= every or k ~= math.floor(k) then
      fail("%s: %s is no remainder of a division by %d; they are 0 to %d", what, tostring(k), every, every - 1)
    end
    wanted[k] = 1
  end
  local value = is == nil and 0 or 1
  return function(i) return wanted[i % every] == value end
end

---A test(i, row) from a rule or a function.
function M.test(where, what)
  if type(where) == "function" then return where end
  if type(where) == "table" then return rule(where, what) end
  fail("%s: rows are chosen by a function(i, row) or a rule like { every = 10, is = 9 }, got a %s", what, type(where))
end

-- row.user in a predicate: the value of that column in the current row.
local function row_view(frame, what, where)
  local readers, at = {}, { 0 }
  local view = setmetatable({}, { __index = function(_, name)
    local reader = readers[name]
    if not reader then
      reader = frames.reader(frame, frames.column(frame, name, what, where))
      readers[name] = reader
    end
    return (reader(at[1]))
  end })
  return view, at
end

---The rows of a list that a test takes.
---@param rows any int64_t[n] or nil
---@param frame any for row.column in predicates; nil: not there
function M.pick(rows, n, test, frame, what, where)
  local view, at
  if frame then view, at = row_view(frame, what, where) end
  local picked, count = new_list(n + 1), 0
  for i = 0, n - 1 do
    local row = rows and tonumber(rows[i]) or i
    if at then at[1] = row end
    if test(i, view) then
      picked[count] = row
      count = count + 1
    end
  end
  local list = new_list(count + 1)
  ffi.copy(list, picked, count * 8)
  return list, count
end

---The rows at these positions (a Lua list, from 0).
function M.at(rows, n, positions, what)
  local list = new_list(#positions + 1)
  for k, i in ipairs(positions) do
    if type(i) ~= "number" or i < 0 or i >= n or i ~= math.floor(i) then
      fail("%s: entry %d is %s; rows are 0 to %d", what, k, tostring(i), n - 1)
    end
    list[k - 1] = rows and rows[i] or i
  end
  return list, #positions
end

---Rows first .. first + count - 1 of a list (positions from 0).
function M.range(rows, first, count)
  local list = new_list(count + 1)
  for i = 0, count - 1 do list[i] = rows and rows[first + i] or first + i end
  return list, count
end

---Two lists one after the other; `times` copies of one.
function M.join(a, n, b, m)
  local list = new_list(n + m + 1)
  for i = 0, n - 1 do list[i] = a and a[i] or i end
  for i = 0, m - 1 do list[n + i] = b and b[i] or i end
  return list, n + m
end
function M.times(rows, n, times)
  local list = new_list(n * times + 1)
  for k = 0, times - 1 do
    for i = 0, n - 1 do list[k * n + i] = rows and rows[i] or i end
  end
  return list, n * times
end

---The list in the order of (seed, epoch), positions first .. first + count - 1.
function M.shuffled(rows, n, seed, epoch, first, count)
  local out = ffi.new "lt_permutation *[1]"
  check(C.lt_permutation_new(n, seed, epoch, out))
  local list = new_list(count + 1)
  C.lt_permutation_fill(out[0], first, count, list)
  C.lt_permutation_free(out[0])
  for i = 0, count - 1 do
    if rows then list[i] = rows[list[i]] end
  end
  return list, count
end

---Disjoint parts of a list, each with its fraction of the rows, drawn by the seed and kept in their order.
---@param fractions table { { name, fraction }, ... }
function M.fractions(rows, n, fractions, seed)
  local order = M.shuffled(nil, n, seed, 0, 0, n)
  local part_of, parts, start, sum = ffi.new("uint8_t[?]", n + 1), {}, 0, 0
  for k, entry in ipairs(fractions) do
    sum = sum + entry[2]
    local stop = math.floor(n * sum + 0.5)
    for i = start, stop - 1 do part_of[order[i]] = k end
    start = stop
  end
  for k, entry in ipairs(fractions) do
    parts[entry[1]] = { M.pick(rows, n, function(i) return part_of[i] == k end) }
  end
  return parts
end

return M
