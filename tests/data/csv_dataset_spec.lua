-- Data sets from files: reading straight into ids and numbers, tables, joins, and every way a file can be bad.
local lt = require "ltrain"
local data_sets = require "ltrain.spec"
local spec = dofile((debug.getinfo(1, "S").source:match("^@(.*/)") or "./") .. "places.lua")
local message, list = spec.message, spec.list

describe("csv data set", function()
  local folder
  before_each(function() folder = spec.folder() end)
  after_each(function() spec.remove(folder) end)

  local function put(name, text) return spec.write(folder .. "/" .. name, text) end
  local function gzip(path)
    assert(os.execute("gzip -k '" .. path .. "'") == 0)
    return path .. ".gz"
  end
  local function schema(declaration)
    declaration.verbose = false
    return lt.data.schema(declaration)
  end
  local function clicks() return schema { label = "clicked", numeric = { "age", "price" },
    categorical = { "user", "item" } } end
  local HEADER = "clicked,age,price,user,item\n"
  local function lines(first, last, user)
    return table.concat(list(last - first + 1, function(k)
      local i = first + k - 1
      return ("%d,%d,%.2f,%s%d,i%d\n"):format(i % 3 == 0 and 1 or 0, 20 + i % 50, i * 0.25, user or "u", i % 7, i % 11)
    end))
  end
  local function columns(dataset, names)
    local out = {}
    for i, name in ipairs(names) do out[i] = dataset:column(name) end
    return out
  end
  local ALL = { "age", "price", "user", "item" }
  local function labels(dataset)
    local all = {}
    for batch in dataset:batch(1000):iter() do
      for _, v in ipairs(batch.label:totable()) do all[#all + 1] = v end
    end
    return all
  end

  it("runs the script of the design: gz files, schema, shuffle, batch, prefetch, a model", function()
    local train_path = gzip(put("train.csv", HEADER .. lines(1, 500)))
    local valid_path = gzip(put("valid.csv", HEADER .. lines(501, 600) .. "1,20,1,unseen,i1\n"))
    local s = clicks()
    local train = lt.data.csv(train_path, { schema = s }):shuffle(100000):batch(128):prefetch()
    local valid = lt.data.csv(valid_path, { schema = s }):batch(64)
    local features = s:features()
    assert.same({ 9, 13 }, { features[1].size, features[2].size })
    assert.same({ 500, 101, 4, 2 }, { train:rows(), valid:rows(), train:len(), valid:len() })
    local weight = lt.zeros({ 2 }):requires_grad_()
    local rows = 0
    for batch in train:iter() do
      local loss = ((batch.numeric:matmul(weight) - batch.label) * (batch.numeric:matmul(weight) - batch.label)):sum()
      loss:backward()
      rows = rows + batch.size
    end
    assert.equal(500, rows)
    local last
    for batch in valid:iter() do last = batch.user:totable() end
    assert.equal(1, last[#last]) -- a user that training has not seen
    assert.same({ rows = 500, batches = 4 }, { rows = train:stats().rows, batches = train:stats().batches })
    assert.equal(500, train:stats().read.rows)
  end)

  it("gives the same rows through a table, from several files, and with any number of threads", function()
    local path = put("all.csv", HEADER .. lines(1, 300))
    local one, two = put("one.csv", HEADER .. lines(1, 120)), put("two.csv", HEADER .. lines(121, 300))
    local straight = columns(lt.data.csv(path, { schema = clicks() }), ALL)
    assert.same(list(300, function(i) return 20 + i % 50 end), straight[1])
    assert.same(straight, columns(lt.data.csv(path):encode(clicks()), ALL))
    assert.same(straight, columns(lt.data.csv({ one, two }, { schema = clicks() }), ALL))
    for threads = 0, 4 do
      assert.same(straight, columns(lt.data.csv(path, { schema = clicks(), threads = threads }), ALL))
      assert.same(straight, columns(lt.data.csv(path, { threads = threads }):encode(clicks()), ALL))
    end
  end)

  it("encodes later files by what the first one taught, each way of reading", function()
    local path, other = put("a.csv", HEADER .. lines(1, 50)),
      put("b.csv", HEADER .. lines(20, 40) .. lines(41, 45, "new"))
    local function declaration()
      return schema { label = "clicked", numeric = { { "age", transform = "standard" },
        { "bin", from = "price", buckets = 4 } },
        categorical = { "user", { "twice", from = "item", hash = 20 }, "item",
          { "upper", from = "user", transform = string.upper } } }
    end
    local names = { "age", "bin", "user", "twice", "item", "upper" }
    local s, t = declaration(), declaration()
    lt.data.csv(path, { schema = s })
    lt.data.csv(path):encode(t)
    local direct, by_table = lt.data.csv(other, { schema = s }), lt.data.csv(other):encode(t)
    assert.same(columns(by_table, names), columns(direct, names))
    assert.equal(s:hash(), t:hash())
    local unknown = {}
    for _, u in ipairs(direct:stats().unknown) do unknown[u.name] = u.unknown end
    assert.same({ user = 5, twice = 0, item = 0, upper = 5 }, unknown)
    assert.same(direct:stats().unknown, by_table:stats().unknown)
  end)

  it("keeps the rows that `where` takes, and learns from no others", function()
    local path = put("a.csv", HEADER .. lines(1, 40) .. "0,1,1,rare,i1\n" .. lines(42, 50))
    local s, t = clicks(), clicks()
    local train = lt.data.csv(path, { schema = s, where = { every = 10, is_not = 0 } })
    assert.equal(45, train:rows())
    assert.equal(9, s:features()[1].size) -- `rare` stands in row 40
    local test = lt.data.csv(path, { schema = s, where = { every = 10, is = 0 } })
    assert.same({ 1 }, { test:column("user")[5] })
    local same = lt.data.csv(path, { schema = t, where = function(i, row) return i % 10 ~= 0
      and row.user ~= "rare" end })
    assert.same(columns(train, ALL), columns(same, ALL))
    local picked = lt.data.csv(path, { where = function(_, row) return row.item == "i3" and row.clicked == "1" end })
    assert.same({ "i3", "i3" }, { unpack(picked:column "item", 1, 2) })
    assert.equal('filter: ' .. path .. ' has no column "itm"; did you mean "item"?',
      message(function() lt.data.csv(path, { where = function(_, row) return row.itm end }) end))
  end)

  it("reads other separators, headers, comments, missing values", function()
    local tabs = put("t.tsv", "a\tb\n1\tx y\n2\t\n")
    assert.same({ { "1", "2" }, { "x y", false } }, columns(lt.data.csv(tabs), { "a", "b" }))
    assert.same({ { "1", "2" } }, columns(lt.data.csv(put("s.csv", "1;x\n2;y\n"), { delimiter = ";", header = false }),
      { "1" }))
    local adult = put("adult.csv", "|note\n39, State-gov, <=50K\n50, ?, >50K.\n\n")
    local s = schema { label = { column = "income", is = ">50K", strip = "." }, numeric = { "age" },
      categorical = { "work" } }
    local d = lt.data.csv(adult, { schema = s, header = { "age", "work", "income" }, skip_lines = 1, trim = true,
      missing = "?" })
    assert.same({ { 39, 50 } }, columns(d, { "age" }))
    assert.same({ 0, 1 }, labels(d))
    assert.equal("", s:value("work", d:column("work")[2]))
    assert.same({ { "1" } }, columns(lt.data.csv(put("c.csv", "# made by hand\na\n#1\n1\n"), { comment = "#" }),
      { "a" }))
    assert.same({ { 'say "hi"' } }, columns(lt.data.csv(put("q.csv", 'a,b\n"say ""hi""",1\n')), { "a" }))
    assert.same({ { '"x' } }, columns(lt.data.csv(put("n.csv", 'a,b\n"x,1\n'), { quote = false }), { "a" }))
  end)

  it("takes the types off the names of RecBole's files", function()
    local path = put("u.inter", "user_id:token\trating:float\n7\t5\n8\t3\n")
    assert.same({ "user_id", "rating" }, lt.data.csv(path):columns())
    local s = schema { label = { "rating", at_least = 4 }, categorical = { "user_id" } }
    assert.same({ 1, 0 }, labels(lt.data.csv(path, { schema = s })))
    assert.same({ "user_id:token", "rating:float" }, lt.data.csv(path, { typed_header = false }):columns())
    assert.same({ "user_id:token", "b" }, lt.data.csv(put("v.inter", "user_id:token\tb\n7\t5\n")):columns())
    assert.equal("csv: " .. folder .. "/v.inter: typed_header = true, but not every name ends in a type such as :token",
      message(function() lt.data.csv(folder .. "/v.inter", { typed_header = true }) end))
  end)

  it("joins tables on a key", function()
    local ratings = lt.data.csv(put("r.csv", "user,item,rating\n1,a,5\n2,b,1\n1,b,4\n3,a,2\n"))
    local users = lt.data.csv(put("u.csv", "id,age\n3,33\n1,11\n2,22\n9,99\n"))
    local items = lt.data.csv(put("i.csv", "item,age\nb,1999\na,1990\n"))
    local all = ratings:join(users, { "user", "id" }):join(items, "item", { prefix = "item_" })
    assert.same({ "user", "item", "rating", "age", "item_age" }, all:columns())
    assert.same({ "11", "22", "11", "33" }, all:column "age")
    assert.same({ "1990", "1999", "1999", "1990" }, all:column "item_age")
    assert.same({ "22", "33" }, ratings:filter({ every = 2, is = 1 }):join(users:filter { every = 4, is_not = 3 },
      { "user", "id" }):column "age")
    local few = users:select_rows { 0, 1 }
    assert.equal('join: row 1 has the user "2", which ' .. folder
      .. '/u.csv lacks; pass { missing = "empty" } to leave its columns empty',
      message(function() ratings:join(few, { "user", "id" }) end))
    local gaps = ratings:join(few, { "user", "id" }, { missing = "empty" })
    assert.same({ "11", false, "11", "33" }, gaps:column "age")
    local column = gaps:encode(schema { numeric = { { "age", missing = -1 } } }):column "age"
    assert.same({ 11, -1, 11, 33 }, column)
    assert.equal('join: both tables have a column "age"; pass { prefix = "..." } for those of ' .. folder .. "/i.csv",
      message(function() ratings:join(users, { "user", "id" }):join(items, "item") end))
    assert.equal('join: ' .. folder .. '/r.csv has no column "usr"; did you mean "user"?',
      message(function() ratings:join(users, "usr") end))
    local twice = lt.data.csv(put("t.csv", "id,age\n1,1\n2,2\n1,3\n"))
    assert.equal('join: "1" is the "id" of rows 0 and 2; keys of the joined table must be unique',
      message(function() ratings:join(twice, { "user", "id" }) end))
  end)

  it("puts encoded files and parts of one table after one another", function()
    local one, two = put("one.csv", HEADER .. lines(1, 30)), put("two.csv", HEADER .. lines(31, 40))
    local s = clicks()
    local train = lt.data.csv(one, { schema = s })
    local both = train:concat(lt.data.csv(two, { schema = s }))
    assert.same(list(40, function(i) return i * 0.25 end), both:column "price")
    assert.same(list(40, function(i) return i % 3 == 0 and 1 or 0 end), labels(both))
    assert.equal(30, train:rows())
    assert.equal("concat: " .. one .. " and " .. two .. " were encoded by different schemas",
      message(function() train:concat(lt.data.csv(two, { schema = clicks() })) end))
    assert.equal("concat: " .. one .. " and " .. two .. " are tables of different files; read them together, "
      .. "lt.data.csv { path, path }, or encode both by one schema",
      message(function() lt.data.csv(one):concat(lt.data.csv(two)) end))
  end)

  it("learns from a path, and reads rows without labels to predict", function()
    local path = put("a.csv", HEADER .. lines(1, 30))
    local s = clicks():fit(path)
    local d = lt.data.csv(put("p.csv", "age,price,user,item\n20,1.5,u1,i1\n"), { schema = s, label = false })
    for batch in d:batch(5):iter() do
      assert.is_nil(batch.label)
      assert.same({ { 20, 1.5 } }, batch.numeric:totable())
    end
    assert.equal('csv: ' .. folder .. '/p.csv has no column "clicked"; its columns are age, price, user, item',
      message(function() lt.data.csv(folder .. "/p.csv", { schema = s }) end))
  end)

  it("leaves bad rows out when told to, and says how many", function()
    local path = put("a.csv", HEADER .. lines(1, 3) .. "1,x,1,u,i\n1,2\n" .. lines(4, 5))
    local d = lt.data.csv(path, { schema = clicks(), on_error = "skip", verbose = false })
    assert.equal(5, d:rows())
    local read = d:stats().read
    assert.same({ 5, 2 }, { read.rows, read.bad })
    assert.same({ "csv: " .. path .. ' line 5, column 2 ("age"): "x" is not a number; correct it, list it in '
      .. 'missing, or use the column as a category',
      "csv: " .. path .. ' line 6: 2 columns where the header has 5; quote values that hold the delimiter ",", or '
        .. 'pass on_error = "skip" to leave such rows out' },
      read.reports)
  end)

  describe("refuses", function()
    local function refused(text, bytes, options, name)
      local path = put(name or "bad.csv", bytes)
      options = options or {}
      options.schema = options.schema or clicks()
      if options.schema == "none" then options.schema = nil end
      assert.equal((text:gsub("PATH", (path:gsub("%%", "%%%%")))), message(function() lt.data.csv(path, options) end))
    end

    it("a row of another width", function()
      refused('csv: PATH line 3: 6 columns where the header has 5; quote values that hold the delimiter ",", or '
        .. 'pass on_error = "skip" to leave such rows out',
        HEADER .. lines(1, 1) .. "1,2,3,4,5,6\n")
    end)

    it("what is no number", function()
      refused('csv: PATH line 2, column 3 ("price"): "1,5" is not a number; correct it, list it in missing, or use '
        .. 'the column as a category',
        HEADER .. '1,2,"1,5",u,i\n')
    end)

    it("a missing label, a missing number", function()
      refused('csv: PATH line 2, column 1 ("clicked"): no value, and every row needs one; complete the row, or '
        .. 'pass on_error = "skip" to leave such rows out',
        HEADER .. ",2,3,u,i\n")
      refused('csv: PATH line 2, column 2 ("age"): no value, and every row needs one; complete the row, or pass '
        .. 'on_error = "skip" to leave such rows out'
        .. '; or let the schema fill it: { "age", missing = 0 }', HEADER .. "1,,3,u,i\n")
    end)

    it("a column that the file does not have", function()
      refused('csv: PATH has no column "clicked"; did you mean "clicks"?', "clicks,age,price,user,item\n"
        .. lines(1, 2))
    end)

    it("an empty file, a header without rows", function()
      refused("csv: PATH is empty (0 bytes)", "")
      refused("csv: PATH has a header but no rows", HEADER)
    end)

    it("a file that was cut", function()
      local whole = spec.read(gzip(put("w.csv", HEADER .. lines(1, 2000))))
      local path = put("cut.csv.gz", whole:sub(1, #whole - 100))
      local text = message(function() lt.data.csv(path, { schema = clicks() }) end)
      assert.equal(("csv: %s: truncated at compressed byte %d (N bytes of text were read); the copy is incomplete, "
        .. "fetch it again"):format(
        path, #whole - 100), (text:gsub("%(%d+ bytes", "(N bytes")))
      local twisted = whole:sub(1, #whole - 6) .. string.char((whole:byte(#whole - 5) + 1) % 256)
        .. whole:sub(#whole - 4)
      assert.has_error(function() lt.data.csv(put("sum.csv.gz", twisted), { schema = clicks() }) end)
    end)

    it("a file without the header it should have", function()
      refused('csv: PATH line 1 looks like data ("0", ...), not like the names of columns: "clicked" is not in it; '
        .. 'pass header = { ... } with the names',
        lines(1, 3))
    end)

    it("a file that is not there", function()
      assert.equal("csv: " .. folder .. "/none.csv: cannot be opened: No such file or directory",
        message(function() lt.data.csv(folder .. "/none.csv", { schema = clicks() }) end))
    end)

    it("options that do not exist, or cannot be", function()
      refused("csv: unknown option 'shema', did you mean 'schema'?; it knows schema, delimiter, quote, header, "
        .. "skip_lines, comment, trim, missing, "
        .. "on_error, threads, where, typed_header, label, verbose, max_line_bytes, dictionary_bytes", HEADER,
          { shema = 1 })
      refused("csv: on_error is 'ignore'; it can be 'error' or 'skip'", HEADER .. lines(1, 1), { on_error = "ignore" })
      refused("csv: delimiter is ', '; give one character", HEADER .. lines(1, 1), { delimiter = ", " })
      refused("csv: header must be a list of texts; entry 2 is a number", lines(1, 1), { header = { "a", 2 } })
      refused("csv: schema must be made by lt.data.schema { ... }", HEADER .. lines(1, 1),
        { schema = { label = "clicked" } })
      refused("csv: label = false has a meaning with a schema only", HEADER .. lines(1, 1),
        { label = false, schema = "none" })
      assert.equal("csv: the path is a nil; give a file name or a list of them", message(function() lt.data.csv() end))
    end)
  end)

  it("reads Adult as it is", function()
    local path = data_sets.need "adult"
    local names = { "age", "workclass", "fnlwgt", "education", "education_num", "marital", "occupation", "relationship",
      "race", "sex",
      "gain", "loss", "hours", "country", "income" }
    local s = schema { label = { column = "income", is = ">50K", is_not = "<=50K", strip = "." },
      numeric = { { "age", buckets = 10 }, { "gain", buckets = "log2" } }, categorical = { "workclass", "country" } }
    local options = { header = names, trim = true, missing = "?", schema = s }
    local train = lt.data.csv(path .. "/adult.data", options)
    options.skip_lines = 1
    local test = lt.data.csv(path .. "/adult.test", options)
    assert.same({ 32561, 16281 }, { train:rows(), test:rows() })
    local positive = 0
    for _, v in ipairs(labels(test)) do positive = positive + v end
    assert.equal(3846, positive) -- grep -c '>50K' adult.test
    assert.same({ 11, 44 }, { s:features()[1].size, s:features()[2].size })
  end)

  it("reads MovieLens-100K with its people and films", function()
    local path = data_sets.need "ml-100k"
    local all = lt.data.csv(path .. "/ml-100k.inter"):join(lt.data.csv(path .. "/ml-100k.user"), "user_id")
      :join(lt.data.csv(path .. "/ml-100k.item"), "item_id")
    local parts = all:split { train = { every = 10, is_not = { 8, 9 } }, valid = { every = 10, is = 8 },
      test = { every = 10, is = 9 } }
    local s = schema { label = { "rating", at_least = 4 },
      categorical = { "user_id", "item_id", { "age", transform = function(a)
      return math.floor(a / 5)
    end }, "gender", "occupation", { "year", from = "release_year" }, { "genre", from = "class" } } }
    local train, test = parts.train:encode(s), parts.test:encode(s)
    assert.same({ 80000, 10000, 10000 }, { train:rows(), parts.valid:rows(), test:rows() })
    assert.same({ 945, 4, 23 }, { s:features()[1].size, s:features()[4].size, s:features()[5].size })
    assert.same({ "196", "49", "1996" }, { all:column("user_id")[1], all:column("age")[1],
      all:column("release_year")[1] })
  end)
end)
