-- Delimited text that is good: quotes, line ends, blanks, missing values, packings, columns of every type.
local ffi = require "ffi"
local C = ffi.C
local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local scratch, reading = dofile(here .. "scratch.lua"), dofile(here .. "reading.lua")

local folder
local function file(text, name) return scratch.write(folder .. "/" .. (name or "t.csv"), text) end
local function texts(n)
  local columns = {}
  for i = 1, n do columns[i] = { tostring(i), "text" } end
  return columns
end
local function rows(text, options, columns)
  return reading.rows((reading.read(file(text), options, columns)))
end
local NO_HEADER = { header = 0 }

describe("csv", function()
  before_each(function() folder = scratch.folder() end)
  after_each(function() scratch.remove(folder) end)

  it("reads quoted fields: doubled quotes, delimiters and line ends inside", function()
    assert.same({ { 'say "hi"', "a,b", "two\nlines" }, { "", "x", '"' } },
      rows('"say ""hi""","a,b","two\nlines"\n"",x,""""\n', NO_HEADER, texts(3)))
  end)

  it("takes quotes inside an unquoted field as text", function()
    assert.same({ { '5" disk', "x" }, { 'a"b"c', "" } }, rows('5" disk,x\na"b"c,\n', NO_HEADER, texts(2)))
  end)

  it("takes quotes as text everywhere with quote = 0", function()
    assert.same({ { '"a', 'b"' } }, rows('"a,b"\n', { header = 0, quote = 0 }, texts(2)))
  end)

  it("accepts LF, CRLF, and a last line without an end or with a bare CR", function()
    for _, text in ipairs { "a,b\nc,d\n", "a,b\r\nc,d\r\n", "a,b\nc,d", "a,b\r\nc,d\r", '"a",b\r\n"c","d"\r' } do
      assert.same({ { "a", "b" }, { "c", "d" } }, rows(text, NO_HEADER, texts(2)))
    end
  end)

  it("drops a byte order mark and blank lines at the end", function()
    local columns = { { "a", "float32" }, { "b", "text" } }
    assert.same({ { 1, "x" } }, rows("\239\187\191a,b\n1,x\n\n\r\n\n", nil, columns))
  end)

  it("skips lines before the header, comments anywhere, also with quotes in them", function()
    local text = '|a title, "open\nmore\na,b\n# it\'s "quoted, "x\n1,2\n#,"\n3,4\n'
    assert.same({ { 1, 2 }, { 3, 4 } },
      rows(text, { skip_lines = 2, comment = "#" }, { { "a", "float32" }, { "b", "float32" } }))
  end)

  it("trims blanks when asked, outside quotes only, and not tabs that delimit", function()
    assert.same({ { "a b", " c ", "" } }, rows('  a b ,  " c "  , \n', { header = 0, trim = 1 }, texts(3)))
    assert.same({ { " a ", " c" } }, rows(" a , c\n", NO_HEADER, texts(2)))
    assert.same({ { "a", "", "b" } }, rows(" a \t\t b\n", { header = 0, trim = 1, delimiter = "\t" }, texts(3)))
  end)

  it("reads columns by name, in the schema's order, and ignores the others", function()
    local frame = reading.read(file "id,junk,price,name\n7,\1,2.5,x\n8,,,y\n", nil,
      { { "name", "text" }, { "id", "int64" }, { "price", "float64", fill = -1 } })
    assert.same({ "x", "y" }, reading.list(frame, "name"))
    assert.same({ 2.5, -1 }, reading.list(frame, "price"))
    assert.equal("7LL", tostring(reading.list(frame, "id")[1]))
  end)

  it("replaces names of the header by given ones", function()
    assert.same({ { 2 } }, rows("a,a\n1,2\n", { names = { "x", "y" } }, { { "y", "int32" } }))
  end)

  it("knows missing markers, quoted ones too, in numbers and texts", function()
    local got = rows('1,a\n?,"NA"\n"NA",?\n,""\n', { header = 0, missing = { "?", "NA" } },
      { { "1", "float32", fill = -5 }, { "2", "text" } })
    assert.same({ { 1, "a" }, { -5, "" }, { -5, "" }, { -5, "" } }, got)
    assert.same({ { 9 }, { 1 } }, rows("-1\n1\n", { header = 0, missing = { "-1" } }, { { "1", "float32", fill = 9 } }))
    local nan = rows("1,2\n,3\n", NO_HEADER, { { "1", "float32" } })[2][1]
    assert.is_true(nan ~= nan)
  end)

  it("keeps whole numbers exact up to the ends of int64", function()
    local text = "9223372036854775807\n-9223372036854775808\n9007199254740993\n+5\n007\n"
    local list = reading.list((reading.read(file(text), NO_HEADER, { { "1", "int64" } })), 0)
    for i, want in ipairs { 9223372036854775807LL, -9223372036854775807LL - 1, 9007199254740993LL, 5LL, 7LL } do
      assert.is_true(list[i] == want, tostring(list[i]))
    end
  end)

  it("gives the codes of texts by falling count, then by bytes", function()
    local frame = reading.read(file "b\na\nb\nc\n\xc3\xa4\na\nb\n\n", NO_HEADER, texts(1))
    local order = {}
    for code = 0, 3 do order[#order + 1] = { reading.text(frame, 0, code) } end
    assert.same({ { "b", 3 }, { "a", 2 }, { "c", 1 }, { "\xc3\xa4", 1 } }, order)
  end)

  it("tells texts apart that differ in length, in a control byte, or late", function()
    local long = ("x"):rep(40)
    local list = { "a", "aa", "aaaaaaa", "aaaaaaa\7", "aaaaaaaa", "aaaaaaaaa", "\1", "ab" }
    for i, tail in ipairs { "", "y", "z" } do list[8 + i] = long .. tail end
    local frame = reading.read(file(table.concat(list, "\n") .. "\n"), NO_HEADER, texts(1))
    assert.same(list, reading.list(frame, 0))
    assert.equal(#list, tonumber(reading.info(frame, 0).values))
  end)

  it("reads several files as one, each with its header", function()
    local a, b = file("x,y\n1,a\n", "a.csv"), file("x,y\n2,b\n3,a", "b.csv")
    local frame = reading.read({ a, b, a }, nil, { { "x", "int32" }, { "y", "text" } })
    assert.same({ { 1, "a" }, { 2, "b" }, { 3, "a" }, { 1, "a" } }, reading.rows(frame))
  end)

  it("unpacks by the first bytes, whatever the name", function()
    local plain = file("x\n" .. ("1\n"):rep(70000), "t")
    for _, command in ipairs { "gzip", "xz", "zstd", "bzip2" } do
      local shell = ("command -v %s >/dev/null && %s -c %s >%s/packed"):format(command, command, plain, folder)
      if os.execute(shell) == 0 then
        local frame = reading.read(folder .. "/packed", nil, { { "x", "int32" } })
        assert.equal(70000, tonumber(C.lt_frame_rows(frame)), command)
      end
    end
  end)

  it("reads a pipe that writes slowly", function()
    local path = folder .. "/pipe"
    os.execute("mkfifo " .. path)
    os.execute(("(printf 'x,y\\n1,'; sleep 0.1; printf 'a\\n2,'; sleep 0.1; printf 'b\\n') >%s &"):format(path))
    assert.same({ { 1, "a" }, { 2, "b" } },
      reading.rows((reading.read(path, { threads = 1 }, { { "x", "int32" }, { "y", "text" } }))))
  end)

  it("leaves bad rows out when told to, counts them and keeps the first reports", function()
    local path = file "a,b\n1,x\n2\nz,y\n\n3,w\n4,\"v\"u\n5,t\n"
    local frame, csv = reading.read(path, { skip_bad = 1 }, { { "a", "float32" }, { "b", "text" } })
    assert.same({ { 1, "x" }, { 3, "w" }, { 5, "t" } }, reading.rows(frame))
    local stats = reading.status(csv)
    assert.same({ 3, 4 }, { tonumber(stats.rows), tonumber(stats.bad) })
    assert.same({
      "csv: " .. path .. ' line 3: 1 column where the header has 2; quote values that hold the delimiter ",", or pass '
        .. 'on_error = "skip" to leave such rows out',
      "csv: " .. path .. ' line 4, column 1 ("a"): "z" is not a number; correct it, list it in missing, or use the '
        .. "column as a category",
      "csv: " .. path .. ' line 5: blank, and rows follow it; remove it, or pass on_error = "skip" to leave such rows '
        .. "out",
      "csv: " .. path .. ' line 7, column 2 ("b"): text behind the closing quote in "v"u; write a quote inside a '
        .. 'quoted value twice ("")',
    }, reading.reports(csv))
  end)

  it("leaves texts of bad rows out of the dictionary", function()
    local frame = reading.read(file "a,b\n1,x\nz,bad\n2,x\n", { skip_bad = 1 }, { { "a", "float32" }, { "b", "text" } })
    assert.equal(1, tonumber(reading.info(frame, 1).values))
    assert.same({ "x", 2 }, { reading.text(frame, 1, 0) })
  end)

  it("counts without keeping rows", function()
    local frame, csv = reading.read(file "x\nx\ny\n", { header = 0, count_only = 1 }, texts(1))
    assert.equal(0, tonumber(C.lt_frame_rows(frame)))
    assert.equal(3, tonumber(reading.status(csv).rows))
    assert.same({ "x", 2 }, { reading.text(frame, 0, 0) })
  end)

  it("reads the real files at hand", function()
    local adult = require("ltrain.spec").data "adult/adult.data"
    if not adult then return pending "data set adult is not here" end
    local names = { "age", "workclass", "fnlwgt", "education", "education_num", "marital", "occupation", "relation",
      "race", "sex", "gain", "loss", "hours", "country", "label" }
    local columns = { { "age", "float32" }, { "workclass", "text" }, { "label", "text", required = true } }
    local train = reading.read(adult, { header = 0, names = names, trim = 1, missing = { "?" } }, columns)
    assert.equal(32561, tonumber(C.lt_frame_rows(train)))
    assert.same({ 39, "State-gov", "<=50K" }, reading.rows(train)[1])
    assert.equal(9, tonumber(reading.info(train, 1).values))
    local options = { header = 0, names = names, trim = 1, skip_lines = 1 }
    local test = reading.read((adult:gsub("data$", "test")), options, columns)
    assert.equal(16281, tonumber(C.lt_frame_rows(test)))
  end)
end)
