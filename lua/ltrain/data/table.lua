--- Tables: rows of texts as they were read. They are split, filtered, joined and put after one another; a schema then
--- encodes them. Texts are kept once each, so that all of this moves numbers of rows and codes, not texts.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local frames = require "ltrain.data.frame"
local rows = require "ltrain.data.rows"
local C, check, raise, fail = bridge.C, bridge.check, bridge.raise, bridge.fail

-- Sources of all columns for frames.compose.
local function all_columns(self, names)
  local sources = {}
  for k, name in ipairs(names or frames.names(self.about.frame)) do
    sources[k] = { name = name, frame = self.about.frame, column = k - 1, rows = self.plan.rows }
  end
  return sources
end

return function(Dataset)
  local methods = Dataset.methods

  local function need_table(self, what)
    if not self.about.frame then fail("%s: %s are no table", what, self.about.where) end
    if self.source then
      fail("%s: %s is encoded already; do this to the table, before the schema", what, self.about.where)
    end
    Dataset.choosing(self, what)
  end

  ---Names of the columns.
  ---@return string[]
  function methods:columns()
    if self.about.frame then return frames.names(self.about.frame) end
    local names = {}
    for k, part in ipairs(self.source.parts) do names[k] = part.name end
    return names
  end

  ---The values of a column as a list: texts of a table (false where missing), numbers or ids of encoded rows.
  ---@param name string
  function methods:column(name)
    local frame, column = self.about.frame, nil
    if not frame then fail("column: %s have no columns; the batches hold them", self.about.where) end
    for _, part in ipairs(self.source and self.source.parts or {}) do
      for k, known in ipairs(part.names) do
        if known == name then column = part.columns[k] end
      end
    end
    local read = frames.reader(frame, column or frames.column(frame, name, "column", self.about.where))
    local values, list = {}, self.plan.rows
    for i = 0, self.plan.n - 1 do values[i + 1] = read(list and tonumber(list[i]) or i) or false end
    return values
  end

  ---Encodes the rows of a table by a schema. A schema that is not fitted learns from these rows, so they must be
  ---training rows; the message it prints names them.
  ---@param schema table
  ---@param options table|nil { label = false } for rows that have no label
  ---@return table dataset of ids and numbers
  function methods:encode(schema, options)
    options = bridge.options("encode", options, { "label" })
    if not require("ltrain.data.schema").is(schema) then
      raise "encode: schema must be made by lt.data.schema { ... }"
    end
    need_table(self, "encode")
    local about, plan = self.about, self.plan
    local list, sources = schema:selection(options), {}
    local names = schema:column_names(list)
    for k, field in ipairs(list) do
      sources[k] = { name = names[k], frame = about.frame, rows = plan.rows,
        column = frames.column(about.frame, field.from, "encode", about.where) }
    end
    local frame = frames.compose(sources, plan.n)
    schema:apply(frame, list, plan.rows, about.where)
    return Dataset.from_frame(frame, { where = about.where, read = about.read, schema = schema,
      parts = schema:layout(list), unknown = schema:unknown() })
  end

  ---Adds the columns of another table, found by a key that is unique there. The order of rows stays.
  ---@param other table
  ---@param key string|string[] a column of both, or { name here, name there }
  ---@param options table|nil { missing = "error" | "empty" (keys the other lacks), prefix = "" (of the added names) }
  function methods:join(other, key, options)
    options = bridge.options("join", options, { "missing", "prefix" })
    if not Dataset.is(other) then fail("join: give a table read by lt.data.csv, got a %s", type(other)) end
    need_table(self, "join")
    need_table(other, "join")
    local mine, theirs = key, key
    if type(key) == "table" then mine, theirs = key[1], key[2] end
    local left, right = self.about.frame, other.about.frame
    local left_key = frames.column(left, mine, "join", self.about.where)
    local right_key = frames.column(right, theirs, "join", other.about.where)
    if other.plan.rows then right = frames.compose(all_columns(other), other.plan.n) end
    local n = self.plan.n
    local base = self.plan.rows and frames.compose(all_columns(self), n) or left
    local matched = ffi.new("int64_t[?]", n + 1)
    check(C.lt_frame_match(base, left_key, right, right_key, matched))
    if options.missing ~= nil and options.missing ~= "error" and options.missing ~= "empty" then
      fail("join: missing is '%s'; it can be 'error' or 'empty'", tostring(options.missing))
    end
    if options.missing ~= "empty" then
      for i = 0, n - 1 do
        if matched[i] < 0 then
          fail('join: row %d has the %s "%s", which %s lacks; pass { missing = "empty" } to leave its columns empty',
            i, mine, tostring(frames.reader(base, left_key)(i)), other.about.where)
        end
      end
    end
    local sources, known = {}, {}
    for k, name in ipairs(frames.names(base)) do
      sources[k] = { name = name, frame = base, column = k - 1 }
      known[name] = true
    end
    for k, name in ipairs(frames.names(right)) do
      local new = (options.prefix or "") .. name
      if k - 1 ~= right_key then
        if known[new] then
          fail('join: both tables have a column "%s"; pass { prefix = "..." } for those of %s', new, other.about.where)
        end
        sources[#sources + 1] = { name = new, frame = right, column = k - 1, rows = matched }
      end
    end
    return Dataset.from_frame(frames.compose(sources, n), { where = self.about.where, read = self.about.read })
  end

  -- Encoded columns in their places, under the names of the fields.
  local function encoded(self)
    local sources = {}
    for _, part in ipairs(self.source.parts) do
      for k, name in ipairs(part.names) do
        sources[part.columns[k] + 1] = { name = part.scalar and name .. " (" .. part.name .. ")" or name,
          frame = self.about.frame, column = part.columns[k], rows = self.plan.rows }
      end
    end
    return frames.compose(sources, self.plan.n)
  end

  ---The rows of both, this one's first: for the last fit on training and validation rows.
  ---@param other table
  function methods:concat(other)
    if not Dataset.is(other) then fail("concat: give a data set, got a %s", type(other)) end
    local list, n = Dataset.choosing(self, "concat")
    local more, m = Dataset.choosing(other, "concat")
    if self.about.frame ~= nil and rawequal(self.about.frame, other.about.frame) or
      self.about.frame == nil and rawequal(self.source, other.source) then
      local joined, total = rows.join(list, n, more, m)
      return Dataset.with(self, { rows = joined, n = total })
    end
    local one, two = self.about, other.about
    if not one.frame or not two.frame then raise "concat: tensors are joined by lt.cat before from_tensors" end
    if not self.source or not other.source then
      fail("concat: %s and %s are tables of different files; read them together, lt.data.csv { path, path }, or "
        .. "encode both by one schema", one.where, two.where)
    end
    if one.schema ~= two.schema or #self.source.parts ~= #other.source.parts then
      fail("concat: %s and %s were encoded by different schemas", one.where, two.where)
    end
    local frame, added = encoded(self), encoded(other)
    check(C.lt_frame_append(frame, added))
    return Dataset.from_frame(frame, { where = one.where .. " and " .. two.where, schema = one.schema,
      features = one.features, parts = self.source.parts })
  end
end
