--- Shape operators made of others: views by slice, select, reshape and permute, and tensors like another one. They
--- record gradients because their parts do. Each is lt.name(x, ...) and, where the first argument is a tensor,
--- x:name(...); arguments are positional or, as the last one, a table of names.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local f = require("ltrain.op").functions
local raise = bridge.raise

local M = {}

local function is_tensor(v) return ffi.istype(bridge.handle, v) end

-- The arguments of `where` by name: the last one given may be a table of names that fills in those missing.
local function take(where, names, ...)
  local given, n = { ... }, #names
  while n > 0 and given[n] == nil do n = n - 1 end
  local last = given[n]
  if n > 0 and type(last) == "table" and not is_tensor(last) and type(next(last)) == "string" then
    local options = bridge.options(where, last, names)
    given[n] = nil
    for i, name in ipairs(names) do
      if options[name] ~= nil then
        if given[i] ~= nil then raise(("%s: %s is given twice, by position and by name"):format(where, name)) end
        given[i] = options[name]
      end
    end
  end
  if not is_tensor(given[1]) then
    raise(("%s: %s must be a tensor, got a %s"):format(where, names[1], type(given[1])))
  end
  return unpack(given, 1, #names)
end

local function whole(where, name, v)
  if type(v) ~= "number" or v ~= math.floor(v) or math.abs(v) > 2 ^ 53 then
    raise(("%s: %s must be a whole number, got %s"):format(where, name, tostring(v)))
  end
  return v
end

-- 1-based or negative dim -> 1-based.
local function dim_of(where, x, v)
  local n = x:dim()
  whole(where, "dim", v)
  if v == 0 or v > n or v < -n then
    raise(("%s: dim %d; %s"):format(where, v, n == 0 and "the tensor is a number and has no dims"
      or ("legal are 1 to %d, or -%d to -1 from the end"):format(n, n)))
  end
  return v > 0 and v or n + 1 + v
end

local function list_of(v) return type(v) == "table" and v or { v } end

-- ---- parts ----

local MOST = 4000 -- values that a Lua function can return

local function pieces(where, x, sizes, dim)
  local parts, at = {}, 1
  if #sizes > MOST then
    raise(("%s: %d pieces; at most %d are returned at a time: take x:slice(dim, first, last) in a loop"):format(
      where, #sizes, MOST))
  end
  for i, size in ipairs(sizes) do
    parts[i] = f.slice(x, dim, at, at + size - 1)
    at = at + size
  end
  return unpack(parts)
end

-- n positions in pieces of `size`, the last one shorter.
local function even(n, size)
  local sizes = {}
  for at = 1, math.max(n, 1), size do sizes[#sizes + 1] = math.min(size, n - at + 1) end
  return sizes
end

---Views of x in pieces along a dim: of one size (the last may be shorter), or of the listed sizes.
---@param x tensor
---@param size integer|integer[]
---@param dim integer|nil default 1
---@return tensor ... one for each piece
function M.split(x, size, dim)
  x, size, dim = take("split", { "x", "size", "dim" }, x, size, dim)
  dim = dim_of("split", x, dim or 1)
  local n = x:size(dim)
  if type(size) == "table" then
    local sum = 0
    for _, s in ipairs(size) do
      if whole("split", "size", s) < 0 then raise(("split: size %d; a size must not be negative"):format(s)) end
      sum = sum + s
    end
    if sum ~= n then
      raise(("split: sizes %s sum to %d; they must sum to the %d positions of dim %d"):format(
        table.concat(size, ", "), sum, n, dim))
    end
    return pieces("split", x, size, dim)
  end
  if whole("split", "size", size) < 1 then raise(("split: size %d; a piece has at least 1 position"):format(size)) end
  return pieces("split", x, even(n, size), dim)
end

---Views of x in so many pieces along a dim: all of one size but the last, which may be shorter; fewer when that uses
---x up.
---@param x tensor
---@param chunks integer
---@param dim integer|nil default 1
---@return tensor ... one for each piece
function M.chunk(x, chunks, dim)
  x, chunks, dim = take("chunk", { "x", "chunks", "dim" }, x, chunks, dim)
  dim = dim_of("chunk", x, dim or 1)
  if whole("chunk", "chunks", chunks) < 1 then raise(("chunk: %d chunks; there must be at least 1"):format(chunks)) end
  local n = x:size(dim)
  return pieces("chunk", x, even(n, math.max(1, math.ceil(n / chunks))), dim)
end

---Views of each position of a dim, without that dim.
---@param x tensor
---@param dim integer|nil default 1
---@return tensor ... one for each position
function M.unbind(x, dim)
  x, dim = take("unbind", { "x", "dim" }, x, dim)
  dim = dim_of("unbind", x, dim or 1)
  local parts, n = {}, x:size(dim)
  if n > MOST then
    raise(("unbind: %d positions; at most %d are returned at a time: take x:select(dim, i) in a loop"):format(n, MOST))
  end
  for i = 1, n do parts[i] = f.select(x, dim, i) end
  return unpack(parts)
end

-- ---- dims ----

---x with dims start_dim to end_dim made one; a view where strides allow. A number becomes a tensor of one element.
---@param x tensor
---@param start_dim integer|nil default 1
---@param end_dim integer|nil default -1
---@return tensor
function M.flatten(x, start_dim, end_dim)
  local first, last
  x, first, last = take("flatten", { "x", "start_dim", "end_dim" }, x, start_dim, end_dim)
  if x:dim() == 0 then return f.reshape(x, { 1 }) end
  first, last = dim_of("flatten", x, first or 1), dim_of("flatten", x, last or -1)
  if last < first then raise(("flatten: dims %d to %d; the first must not be behind the last"):format(first, last)) end
  local shape, merged = {}, 1
  for d, size in ipairs(x.shape) do
    if d >= first and d <= last then merged = merged * size end
    if d == last then shape[#shape + 1] = merged
    elseif d < first or d > last then shape[#shape + 1] = size end
  end
  return f.reshape(x, shape)
end

---A view with dims moved to other places, the rest keeping their order.
---@param x tensor
---@param source integer|integer[]
---@param destination integer|integer[]
---@return tensor
function M.movedim(x, source, destination)
  x, source, destination = take("movedim", { "x", "source", "destination" }, x, source, destination)
  source, destination = list_of(source), list_of(destination)
  if #source ~= #destination then
    raise(("movedim: %d dims to %d places; give as many places as dims"):format(#source, #destination))
  end
  local order, taken = {}, {}
  for i, s in ipairs(source) do
    local from, to = dim_of("movedim", x, s), dim_of("movedim", x, destination[i])
    if taken[from] or order[to] then
      raise(("movedim: dim %d is given twice"):format(taken[from] and from or to))
    end
    taken[from], order[to] = true, from
  end
  local from = 1
  for to = 1, x:dim() do
    if not order[to] then
      while taken[from] do from = from + 1 end
      order[to] = from
      from = from + 1
    end
  end
  return f.permute(x, order)
end

---x with positions moved on by `shift` along a dim, those pushed out coming in at the other end. Lists move several.
---@param x tensor
---@param shift integer|integer[]
---@param dim integer|integer[]|nil default 1
---@return tensor
function M.roll(x, shift, dim)
  x, shift, dim = take("roll", { "x", "shift", "dim" }, x, shift, dim)
  local shifts, dims = list_of(shift), list_of(dim or 1)
  if #shifts ~= #dims then raise(("roll: %d shifts for %d dims; give one for each"):format(#shifts, #dims)) end
  for i, d in ipairs(dims) do
    d = dim_of("roll", x, d)
    local n = x:size(d)
    local by = n > 0 and whole("roll", "shift", shifts[i]) % n or 0
    if by > 0 then x = f.cat({ f.slice(x, d, n - by + 1, n), f.slice(x, d, 1, n - by) }, d) end
  end
  return x
end

---x with each position of a dim repeated in place: {a, b} gives {a, a, b, b}.
---@param x tensor
---@param repeats integer
---@param dim integer|nil default 1
---@return tensor
function M.repeat_interleave(x, repeats, dim)
  x, repeats, dim = take("repeat_interleave", { "x", "repeats", "dim" }, x, repeats, dim)
  dim = dim_of("repeat_interleave", x, dim or 1)
  if whole("repeat_interleave", "repeats", repeats) < 0 then
    raise(("repeat_interleave: %d repeats; the count must not be negative"):format(repeats))
  end
  local stretched, shape = x.shape, x.shape
  table.insert(stretched, dim + 1, repeats)
  shape[dim] = shape[dim] * repeats
  return f.reshape(f.expand(f.unsqueeze(x, dim + 1), stretched), shape)
end

---Of a matrix (or matrices) a diagonal, as a view; of one line the matrix with it on the diagonal.
---@param x tensor
---@param diagonal integer|nil default 0, the main one; positive above, negative below
---@return tensor
function M.diag(x, diagonal)
  x, diagonal = take("diag", { "x", "diagonal" }, x, diagonal)
  if x:dim() == 1 then return f.diag_embed(x, diagonal or 0) end
  return f.diagonal(x, diagonal or 0)
end

---The positions (0-based, int64) that would sort x along a dim; stable.
---@param x tensor
---@param dim integer|nil default -1
---@param descending boolean|nil default false
---@return tensor
function M.argsort(x, dim, descending)
  x, dim, descending = take("argsort", { "x", "dim", "descending" }, x, dim, descending)
  local _, ids = f.sort(x, dim or -1, descending or false)
  return ids
end

-- ---- like another tensor ----

local LIKE = { "x", "dtype" }
local function like(where, make, x, dtype)
  x, dtype = take(where, LIKE, x, dtype)
  return make(x.shape, dtype or x.dtype)
end
local function ones(shape, dtype) return f.full(shape, 1, dtype) end
---Zeros in the shape of x, and its dtype unless another is named.
function M.zeros_like(x, dtype) return like("zeros_like", f.zeros, x, dtype) end
---Ones in the shape of x, and its dtype unless another is named.
function M.ones_like(x, dtype) return like("ones_like", ones, x, dtype) end
---A tensor whose values are not set, in the shape of x, and its dtype unless another is named.
function M.empty_like(x, dtype) return like("empty_like", f.empty, x, dtype) end
---Uniform random numbers, 0 <= r < 1, in the shape of x, and its dtype unless another is named.
function M.rand_like(x, dtype) return like("rand_like", f.rand, x, dtype) end
---Normal random numbers in the shape of x, and its dtype unless another is named.
function M.randn_like(x, dtype) return like("randn_like", f.randn, x, dtype) end
---The value in the shape and dtype of x.
---@param x tensor
---@param value number
function M.full_like(x, value)
  x, value = take("full_like", { "x", "value" }, x, value)
  return f.full(x.shape, value, x.dtype)
end

M.methods = {}
for name, fn in pairs(M) do
  if name ~= "methods" then M.methods[name] = fn end
end

---A tensor of ones: lt.ones { 2, 3 }, lt.ones(2, 3).
---@param shape integer|integer[]
---@param dtype string|nil default "float32"
---@return tensor
function M.ones(...)
  local given = { ... }
  local options = given[#given]
  local dtype
  if type(options) == "string" then
    dtype = table.remove(given)
  elseif type(options) == "table" and type(next(options)) == "string" then
    local named = bridge.options("ones", table.remove(given), { "shape", "dtype" })
    dtype = named.dtype
    if named.shape then given = { named.shape } end
  end
  return f.full(type(given[1]) == "table" and given[1] or given, 1, dtype or "float32")
end

return M
