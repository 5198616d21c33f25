-- Delimited text that is bad: the exact message for each way, with file, line, column, value and remedy.
local ffi = require "ffi"
local C = ffi.C
local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local scratch, reading = dofile(here .. "scratch.lua"), dofile(here .. "reading.lua")

local SKIP = 'or pass on_error = "skip" to leave such rows out'
local BAD_NUMBER = " is not a number; correct it, list it in missing, or use the column as a category"
local NO_HEADER = { header = 0 }
local folder, path

-- Reading `text` must fail with "csv: PATH" .. message, whatever the cutting and the threads.
local function refused(message, text, options, columns)
  scratch.write(path, text)
  for _, cut in ipairs { { 512 * 1024, 0 }, { 64, 0 }, { 64, 2 } } do
    local with = { block_bytes = cut[1], threads = cut[2] }
    for name, value in pairs(options or {}) do with[name] = value end
    assert.equal("csv: " .. path .. message, reading.refusal(path, with, columns))
  end
end

local TWO = { { "a", "float32" }, { "b", "text" } }

describe("csv refuses", function()
  before_each(function()
    folder = scratch.folder()
    path = folder .. "/t.csv"
  end)
  after_each(function() scratch.remove(folder) end)

  it("a wrong number of columns", function()
    refused(' line 3: 3 columns where the header has 2; quote values that hold the delimiter ",", ' .. SKIP,
      "a,b\n1,x\n2,y,z\n", nil, TWO)
    refused(" line 2: 1 column where the first row has 3; quote values that hold the delimiter tab, " .. SKIP,
      "a\tb\tc\nd\n", { header = 0, delimiter = "\t" }, { { "1", "text" } })
    refused(' line 1: 2 columns where columns names 3; quote values that hold the delimiter ",", ' .. SKIP,
      "1,x\n", { header = 0, names = { "a", "b", "c" } }, TWO)
  end)

  it("an unparsable number, after quoted lines too", function()
    refused(' line 5, column 1 ("a"): "12x"' .. BAD_NUMBER,
      'a,b\n1,"two\nlines"\n2,x\n12x,y\n', nil, TWO)
    refused(' line 2, column 1 ("a"): "0x10"' .. BAD_NUMBER,
      "a,b\n0x10,y\n", nil, TWO)
    refused(' line 2, column 1 ("a"): "1_000"' .. BAD_NUMBER,
      "a,b\n1_000,y\n", nil, TWO)
    refused(' line 2, column 1 ("a"): "a long text with a\\nline end and more than sixty bytes i..."' .. BAD_NUMBER,
      'a,b\n"a long text with a\nline end and more than sixty bytes in it",y\n', nil, TWO)
  end)

  it("infinities and nan by name", function()
    for _, word in ipairs { "inf", "-Infinity", "NaN" } do
      refused((' line 2, column 1 ("a"): "%s" is not a finite number; correct it, or list it in missing'):format(word),
        "a,b\n" .. word .. ",y\n", nil, TWO)
    end
  end)

  it("numbers beyond their type", function()
    for _, case in ipairs {
      { "float32", "1e39" }, { "float64", "1e400" }, { "int64", "9223372036854775808" }, { "int32", "2147483648" },
    } do
      refused((' line 1, column 1 ("1"): "%s" does not fit %s; correct it, or use the column as a category')
        :format(case[2], case[1]), case[2] .. "\n", NO_HEADER, { { "1", case[1] } })
    end
    refused(' line 1, column 1 ("1"): "2.5" is not a whole number; correct it, or read the column as float32',
      "2.5\n", NO_HEADER, { { "1", "int64" } })
  end)

  it("a missing label", function()
    local columns = { { "label", "float32", required = true }, { "b", "text" } }
    refused(' line 3, column 2 ("label"): no value, and every row needs one; complete the row, ' .. SKIP,
      "b,label\nx,1\ny,\n", nil, columns)
    refused(' line 2, column 2 ("label"): no value, and every row needs one; complete the row, ' .. SKIP,
      "b,label\nx,?\n", { missing = { "?" } }, { { "label", "text", required = true } })
  end)

  it("a column that is not there, and names the nearest", function()
    refused(' has no column "prize"; did you mean "price"?', "id,price\n1,2\n", nil, { { "prize", "float32" } })
    refused(' has no column "zzzzz"; its columns are id, price', "id,price\n1,2\n", nil, { { "zzzzz", "float32" } })
    refused(' has one column, "id;price", and none is "price"; pass delimiter = ";" to split it', "id;price\n1;2\n", nil, { { "price", "float32" } })
    refused(' has one column, "id\\tprice", and none is "price"; pass delimiter = "\\t" to split it', "id\tprice\n1\t2\n", nil,
      { { "price", "float32" } })
  end)

  it("a name that two columns have", function()
    refused(' names columns 1 and 3 "a"; pass header = { ... } with other names, and skip_lines = 1',
      "a,b,a\n1,2,3\n", nil, { { "a", "float32" } })
  end)

  it("an empty file, and files without rows", function()
    refused(" is empty (0 bytes)", "", nil, TWO)
    refused(" has a header but no rows", "a,b\n", nil, TWO)
    refused(" has a header but no rows", "a,b", nil, TWO)
    refused(" has 1 lines; skip_lines = 2 leaves nothing to read", "a,b\n", { skip_lines = 2 }, TWO)
    refused(" has no rows (6 bytes of blank or comment lines)", "\n\n# x\n", { comment = "#" }, TWO)
  end)

  it("a header that looks like data", function()
    refused(' line 1 looks like data ("39", ...), not like the names of columns: "age" is not in it; '
      .. "pass header = { ... } with the names", "39,State-gov\n40,x\n", nil, { { "age", "float32" } })
  end)

  it("a header that is taken for data", function()
    refused(' line 1, column 1 ("age"): "age" is not a number; if line 1 is a header, pass header = true',
      "age,b\n1,x\n", { header = 0, names = { "age", "b" } }, { { "age", "float32" } })
  end)

  it("an unterminated quote, naming the line where it opens", function()
    refused(" line 3: the quote that opens here never closes; close it, or pass quote = false if quotes are plain text",
      'a,b\n1,x\n2,"y\n3,z\n4,w\n', nil, TWO)
    refused(" line 1: the quote that opens here never closes; close it, or pass quote = false if quotes are plain text",
      'a,"b\n1,x\n', nil, TWO)
  end)

  it("text behind a closing quote", function()
    refused(' line 2, column 2 ("b"): text behind the closing quote in "x" y; write a quote inside a quoted value '
      .. 'twice ("")', 'a,b\n1,"x" y\n', nil, TWO)
  end)

  it("a NUL byte", function()
    refused(" line 3: a NUL byte; the file is damaged, or UTF-16 (then convert it with iconv -f utf-16 -t utf-8)",
      "a,b\n1,x\n2,y\0z\n", nil, TWO)
  end)

  it("UTF-16", function()
    refused(" is UTF-16 text; convert it with iconv -f utf-16 -t utf-8", "\255\254a\0,\0b\0\n\0", nil, TWO)
  end)

  it("a carriage return inside a line", function()
    refused(" line 2: a carriage return inside the line; convert the file's line ends with tr '\\r' '\\n'",
      "a,b\n1,x\r2,y\n", nil, TWO)
    refused(" line 1: a carriage return inside the line; convert the file's line ends with tr '\\r' '\\n'",
      "a,b\r1,x\r", nil, TWO)
  end)

  it("a line that is too long", function()
    local options = { max_line_bytes = 100 }
    refused(" line 2: longer than 100 bytes; is this delimited text? if so, raise max_line_bytes",
      "a,b\n1," .. ("x"):rep(2000) .. "\n2,y\n", { max_line_bytes = 100, block_bytes = 64 }, TWO)
    refused(" line 1: longer than 100 bytes; is this delimited text? if so, raise max_line_bytes",
      ("x"):rep(200000), options, TWO)
    refused(" line 3: the quote that opens here never closes; close it, or pass quote = false if quotes are plain text",
      'a,b\n1,x\n2,"' .. ("y\n"):rep(1000), { max_line_bytes = 100, block_bytes = 64 }, TWO)
  end)

  it("a blank line among rows", function()
    refused(" line 3: blank, and rows follow it; remove it, " .. SKIP, "a,b\n1,x\n\n\n2,y\n", nil, TWO)
    refused(" line 202: blank, and rows follow it; remove it, " .. SKIP,
      "a,b\n" .. ("1,x\n"):rep(200) .. ("\n"):rep(300) .. "2,y\n", nil, TWO)
  end)

  it("whole-number ids out of range", function()
    local out = ffi.new "lt_vocabulary *[1]"
    scratch.ok(C.lt_vocabulary_whole("user", 10, out))
    local ids = ffi.gc(out[0], C.lt_vocabulary_release)
    refused(' line 3, column 1 ("user"): id 10 is outside 0 to 9; correct it, or raise the number of ids',
      "user\n9\n10\n", nil, { { "user", "text", encoder = ids, required = true } })
    refused(' line 2, column 1 ("user"): "x"' .. BAD_NUMBER,
      "user\nx\n", nil, { { "user", "text", encoder = ids } })
  end)

  it("files read together that differ", function()
    local other = scratch.write(folder .. "/u.csv", "b,a\n1,2\n")
    scratch.write(path, "a,b\n1,2\n")
    assert.equal(('csv: "a" is column 1 in %s and column 2 in %s; files read together need the same columns')
      :format(path, other), reading.refusal({ path, other }, nil, TWO))
    scratch.write(other, "a,b,c\n1,2,3\n")
    assert.equal(("csv: %s has 2 columns and %s has 3; files read together need the same columns")
      :format(path, other), reading.refusal({ path, other }, nil, TWO))
    scratch.write(other, "a,b\n")
    assert.equal(("csv: %s has a header but no rows"):format(other),
      reading.refusal({ path, other, path }, nil, TWO))
    scratch.write(other, "a,b\n1,2\nx,3\n")
    assert.equal(('csv: %s line 3, column 1 ("a"): "x" is not a number; correct it, list it in missing, or use the '
      .. "column as a category"):format(other), reading.refusal({ path, other }, nil, TWO))
    assert.equal(("csv: %s/none.csv: cannot be opened: No such file or directory"):format(folder),
      reading.refusal({ path, folder .. "/none.csv" }, nil, TWO))
  end)

  it("what is no text file", function()
    assert.equal(("csv: %s: a folder; name a file in it"):format(folder), reading.refusal(folder, nil, TWO))
    scratch.write(path, "PK\3\4 and so on")
    assert.equal(("csv: %s: a zip archive, not one packed file; unpack it first"):format(path),
      reading.refusal(path, nil, TWO))
  end)

  it("a truncated gz, after the rows before it were delivered", function()
    scratch.write(path, "a,b\n" .. ("1,x\n"):rep(100000))
    os.execute(("gzip -n -c %s | head -c 300 >%s/cut.gz"):format(path, folder))
    local message = reading.refusal(folder .. "/cut.gz", { block_bytes = 4096 }, TWO)
    local text = tonumber(message:match "%((%d+) bytes of text were read%)")
    assert.is_true(text > 1000 and text < 400004)
    assert.equal(("csv: %s/cut.gz: truncated at compressed byte 300 (%d bytes of text were read); the copy is "
      .. "incomplete, fetch it again"):format(folder, text), message)
    local csv, out, rows = reading.open(folder .. "/cut.gz", { threads = 2 }, { TWO[1] }), ffi.new "lt_frame *[1]", 0
    while C.lt_csv_next(csv, out) >= 0 do
      rows = rows + tonumber(C.lt_frame_rows(out[0]))
      C.lt_frame_release(out[0])
    end
    assert.equal(message, ffi.string(C.lt_last_error()))
    assert.equal(math.floor((text - 4) / 4), rows)
  end)

  it("options that make no sense", function()
    scratch.write(path, "a,b\n1,2\n")
    for message, options in pairs {
      ["csv: delimiter is byte 46; give one ASCII character that no number holds"] = { delimiter = "." },
      ["csv: quote is byte 44; give an ASCII character other than the delimiter"] = { quote = "," },
      ["csv: -1 threads; give 0 to 256"] = { threads = -1 },
      ["csv: skip_lines is -2; give 0 or more"] = { skip_lines = -2 },
      ["csv: block_bytes 1 and max_line_bytes 16777216; give 64 to 2^30"] = { block_bytes = 1 },
    } do
      assert.equal(message, reading.refusal(path, options, TWO))
    end
    local out = ffi.new "lt_frame *[1]"
    local csv = reading.open(path, nil, {})
    assert.equal("csv: opened without columns; name the columns to read", scratch.failure(C.lt_csv_read(csv, out)))
    csv = reading.open(path, nil, TWO)
    assert.equal('csv: column "b" is text without a vocabulary; reading block by block needs one',
      scratch.failure(C.lt_csv_next(csv, out)))
  end)

  it("dictionaries beyond their budget", function()
    local lines = {}
    for i = 1, 100000 do lines[i] = "value" .. i end
    scratch.write(path, table.concat(lines, "\n") .. "\n")
    local message = reading.refusal(path, { header = 0, dictionary_bytes = 2 ^ 20 }, { { "1", "text" } })
    assert.truthy(message:find('^csv: dictionaries take more than 1 MiB, most of it column "1" with %d+ values; '
      .. "give it hash buckets, or raise dictionary_bytes$"), message)
  end)
end)
