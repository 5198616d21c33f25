--- Sums of products by letters (Einstein's notation): lt.einsum("bij,bjk->bik", a, b). The equation is read into dims
--- by letter, repeated letters take diagonals, letters that nobody needs any more are summed, and pairs of operands,
--- from left to right, become one batched matrix product each. Gradients come from those parts.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local f = require("ltrain.op").functions
local raise = bridge.raise

local function fail(equation, ...) raise(("einsum: '%s': %s"):format(equation, string.format(...))) end

-- "ij...k" -> { "i", "j", "...", "k" }
local function letters(equation, term, what)
  local list, at = {}, 1
  while at <= #term do
    local c = term:sub(at, at)
    if term:sub(at, at + 2) == "..." then
      for _, other in ipairs(list) do
        if other == "..." then fail(equation, "%s has two ellipses; one is the most", what) end
      end
      list[#list + 1] = "..."
      at = at + 3
    elseif c:match "%a" then
      list[#list + 1] = c
      at = at + 1
    else
      fail(equation, "unexpected '%s' in %s; terms are letters and '...'", c, what)
    end
  end
  return list
end

---@return string[][] terms, string[]|nil result letters of each operand; of the result when the equation names it
local function parse(equation)
  local text = equation:gsub("%s", "")
  local left, right = text, nil
  local arrow = text:find("->", 1, true)
  if arrow then
    left, right = text:sub(1, arrow - 1), text:sub(arrow + 2)
    if right:find("->", 1, true) then fail(equation, "has two '->'") end
    if right:find(",", 1, true) then fail(equation, "the result is one term, and there is a ',' behind '->'") end
  end
  local terms = {}
  for term in (left .. ","):gmatch "([^,]*)," do
    terms[#terms + 1] = letters(equation, term, "term " .. #terms + 1)
  end
  return terms, right and letters(equation, right, "the result")
end

-- The operand's dims by label: letters stay, the dims of an ellipsis become "...1" (its last), "...2", ...
local function label(equation, term, x, k)
  local named, ellipsis = 0, false
  for _, l in ipairs(term) do
    if l == "..." then ellipsis = true else named = named + 1 end
  end
  local ndim = x:dim()
  if named > ndim or (named < ndim and not ellipsis) then
    fail(equation, "term %d names %d dims and operand %d is [%s]; %s", k, named, k, table.concat(x.shape, ", "),
      ellipsis and "it needs at least that many" or "name each dim, or put '...' for the rest")
  end
  local labels = {}
  for _, l in ipairs(term) do
    if l ~= "..." then labels[#labels + 1] = l
    else
      for rest = ndim - named, 1, -1 do labels[#labels + 1] = "..." .. rest end
    end
  end
  return labels
end

local function position(labels, l)
  for d, other in ipairs(labels) do
    if other == l then return d end
  end
end

-- A letter that stands twice in one operand takes the diagonal of its two dims.
local function take_diagonals(equation, v, k)
  local d = 1
  while d <= #v.labels do
    local twin
    for e = d + 1, #v.labels do
      if v.labels[e] == v.labels[d] then twin = e break end
    end
    if twin then
      local l = v.labels[d]
      local n, m = v.x:size(d), v.x:size(twin)
      if n ~= m then
        fail(equation, "letter '%s' has sizes %d and %d in operand %d; they must agree", l, n, m, k)
      end
      v.x = f.diagonal(v.x, 0, d, twin)
      table.remove(v.labels, twin)
      table.remove(v.labels, d)
      v.labels[#v.labels + 1] = l
    else
      d = d + 1
    end
  end
end

-- Sizes by label. Letters must agree; dims of ellipses broadcast.
local function measure(equation, operands)
  local sizes, seen = {}, {}
  for k, v in ipairs(operands) do
    for d, l in ipairs(v.labels) do
      local n, known, is_letter = v.x:size(d), sizes[l], #l == 1
      if known and known ~= n and (is_letter or (known ~= 1 and n ~= 1)) then
        fail(equation, "%s has sizes %d in operand %d and %d in operand %d; they must agree%s",
          is_letter and "letter '" .. l .. "'" or "dim " .. l:sub(4) .. " from the end of '...'",
          known, seen[l], n, k, is_letter and "" or " or be 1")
      end
      if not known or known == 1 then sizes[l], seen[l] = n, k end
    end
  end
  return sizes
end

-- Without '->' the result has the ellipsis, then the letters that stand once, in alphabetical order.
local function implied(operands, sizes)
  local counts, once, result = {}, {}, {}
  for _, v in ipairs(operands) do
    for _, l in ipairs(v.written) do counts[l] = (counts[l] or 0) + 1 end
  end
  for rest = 8, 1, -1 do
    if sizes["..." .. rest] then result[#result + 1] = "..." .. rest end
  end
  for l, n in pairs(counts) do
    if n == 1 and #l == 1 then once[#once + 1] = l end
  end
  table.sort(once)
  for _, l in ipairs(once) do result[#result + 1] = l end
  return result
end

local function named(equation, term, sizes)
  local result, seen = {}, {}
  for _, l in ipairs(term) do
    if l == "..." then
      for rest = 8, 1, -1 do
        if sizes["..." .. rest] then result[#result + 1] = "..." .. rest end
      end
    else
      if seen[l] then fail(equation, "the result has letter '%s' twice; each stands there once", l) end
      if not sizes[l] then fail(equation, "the result's letter '%s' is in no operand", l) end
      seen[l] = true
      result[#result + 1] = l
    end
  end
  for rest = 1, 8 do
    if sizes["..." .. rest] and not position(result, "..." .. rest) then
      fail(equation, "the result has no '...', but operands do; write it there too")
    end
  end
  return result
end

-- Sums the dims whose label `needed` does not know.
local function sum_out(v, needed)
  local dims, labels = {}, {}
  for d, l in ipairs(v.labels) do
    if needed[l] then labels[#labels + 1] = l else dims[#dims + 1] = d end
  end
  if #dims > 0 then v.x, v.labels = f.sum(v.x, dims), labels end
end

local function arranged(v, order)
  local dims, moved = {}, false
  for i, l in ipairs(order) do
    dims[i] = position(v.labels, l)
    moved = moved or dims[i] ~= i
  end
  return moved and f.permute(v.x, dims) or v.x
end

local function joined(...)
  local all = {}
  for _, list in ipairs { ... } do
    for _, v in ipairs(list) do all[#all + 1] = v end
  end
  return all
end
local function sizes_of(x, first, count)
  local shape, list = x.shape, {}
  for d = first, first + count - 1 do list[#list + 1] = shape[d] end
  return list
end
local function product(list)
  local n = 1
  for _, v in ipairs(list) do n = n * v end
  return n
end

-- a [batch..., rows..., summed...] times b [batch..., summed..., columns...].
local function contract(a, b, needed)
  local batch, summed, rows, columns = {}, {}, {}, {}
  for _, l in ipairs(a.labels) do
    local list = not position(b.labels, l) and rows or needed[l] and batch or summed
    list[#list + 1] = l
  end
  for _, l in ipairs(b.labels) do
    if not position(a.labels, l) then columns[#columns + 1] = l end
  end
  local x, y = arranged(a, joined(batch, rows, summed)), arranged(b, joined(batch, summed, columns))
  local nb, labels = #batch, joined(batch, rows, columns)
  local m, k = sizes_of(x, nb + 1, #rows), sizes_of(y, nb + 1, #summed)
  local n = sizes_of(y, nb + #summed + 1, #columns)
  local xb, yb = sizes_of(x, 1, nb), sizes_of(y, 1, nb)
  if #summed == 0 then -- an outer product: dims of size 1 and broadcasting
    local ones = {}
    for i = 1, #columns do ones[i] = 1 end
    x = #columns > 0 and f.reshape(x, joined(xb, m, ones)) or x
    ones = {}
    for i = 1, #rows do ones[i] = 1 end
    y = #rows > 0 and f.reshape(y, joined(yb, ones, n)) or y
    return { x = f.mul(x, y), labels = labels }
  end
  local z = f.matmul(f.reshape(x, joined(xb, { product(m), product(k) })),
    f.reshape(y, joined(yb, { product(k), product(n) })))
  return { x = f.reshape(z, joined(sizes_of(z, 1, nb), m, n)), labels = labels }
end

---Sum of products of tensors whose dims carry letters: "ij,jk->ik" is a matrix product, "ii->i" a diagonal, "ij->" a
---sum. A letter stands for one size everywhere; "..." for any dims, which broadcast. Without "->" the result has the
---letters that stand once, in alphabetical order.
---@param equation string
---@param ... tensor one for each term; or a list of them
---@return tensor
return function(equation, ...)
  if type(equation) ~= "string" then
    raise(("einsum: the equation must be a string, got a %s"):format(type(equation)))
  end
  local tensors = { ... }
  if type(tensors[1]) == "table" then tensors = tensors[1] end
  local terms, result = parse(equation)
  if #terms ~= #tensors then
    fail(equation, "has %d terms, and %d tensors are given", #terms, #tensors)
  end
  local operands = {}
  for k, x in ipairs(tensors) do
    if not ffi.istype(bridge.handle, x) then fail(equation, "operand %d must be a tensor, got a %s", k, type(x)) end
    local labels = label(equation, terms[k], x, k)
    operands[k] = { x = x, labels = labels, written = { unpack(labels) } } -- labels follow the dims of x
    take_diagonals(equation, operands[k], k)
  end
  local sizes = measure(equation, operands)
  result = result and named(equation, result, sizes) or implied(operands, sizes)
  local function needed_after(k) -- labels of the result and of operands k, k + 1, ...
    local needed = {}
    for _, l in ipairs(result) do needed[l] = true end
    for i = k, #operands do
      for _, l in ipairs(operands[i].labels) do needed[l] = true end
    end
    return needed
  end
  local value = operands[1]
  sum_out(value, needed_after(2))
  for k = 2, #operands do
    local needed = needed_after(k + 1)
    local own = needed_after(k + 1)
    for _, l in ipairs(value.labels) do own[l] = true end
    sum_out(operands[k], own)
    value = contract(value, operands[k], needed)
  end
  return arranged(value, result)
end
