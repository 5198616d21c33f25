-- JSON in Lua: strict reading with line and column, deterministic writing, integers that stay exact.
local json = require "ltrain.json"

local function refusal(text)
  local value, message = json.decode(text)
  assert.is_nil(value)
  return message
end

describe("json.decode", function()
  it("reads values of every kind", function()
    local t = json.decode ' {"a": [1, -2.5, 3e2, true, false, null, "x"], "b": {"c": {}}, "": ""}\r\n\t'
    assert.same({ 1, -2.5, 300, true, false, json.null, "x" }, t.a)
    assert.same({ c = {} }, t.b)
    assert.equal("", t[""])
    assert.equal(7, json.decode "7")
    assert.equal("null", tostring(json.decode "null"))
    assert.is_false(json.decode "false")
  end)

  it("reads escapes and characters beyond ASCII", function()
    assert.equal('"\\/\b\f\n\r\t', json.decode [["\"\\\/\b\f\n\r\t"]])
    assert.equal("Aé€😀", json.decode [["\u0041\u00e9\u20AC\ud83d\uDE00"]])
    assert.equal("é€😀\127", json.decode '"é€😀\127"')
    assert.equal("a\0b", json.decode [["a\u0000b"]])
  end)

  it("keeps integers exact", function()
    assert.equal(9007199254740991, json.decode "9007199254740991")
    assert.equal("number", type(json.decode "-9007199254740991"))
    for _, text in ipairs { "9007199254740993", "9223372036854775807", "-9223372036854775808", "-9007199254740993" } do
      local value = json.decode(text)
      assert.equal("cdata", type(value))
      assert.equal(text .. "LL", tostring(value))
    end
    assert.equal("json: line 1, column 1: integer 9223372036854775808 does not fit into 64 bits",
      refusal "9223372036854775808")
    assert.equal("json: line 1, column 1: integer -9223372036854775809 does not fit into 64 bits",
      refusal "-9223372036854775809")
  end)

  it("reads doubles exactly", function()
    assert.equal(0.1, json.decode "0.1")
    assert.equal(5e-324, json.decode "4.9406564584124654e-324")
    assert.equal(1.7976931348623157e308, json.decode "1.7976931348623157E+308")
    assert.equal(-math.huge, 1 / json.decode "-0.0")
  end)

  it("says where and what is wrong", function()
    for text, message in pairs {
      [""] = "line 1, column 1: the text ends in the middle of a value",
      ["[1,"] = "line 1, column 4: the text ends in the middle of a value",
      ["[1,]"] = "line 1, column 4: not a value of JSON",
      ["[1 2]"] = "line 1, column 4: expected ',' or ']'",
      ['{"a":1 "b":2}'] = "line 1, column 8: expected ',' or '}'",
      ['{"a":1,}'] = "line 1, column 8: expected a key in double quotes",
      ["{a:1}"] = "line 1, column 2: expected a key in double quotes",
      ['{"a" 1}'] = "line 1, column 6: expected ':' after the key",
      ['{"a":1,\n "a":2}'] = "line 2, column 2: key 'a' is given twice",
      ['{"a":null,"\\u0061":2}'] = "line 1, column 11: key 'a' is given twice",
      ["1 2"] = "line 1, column 3: more text after the end of the value",
      ["tru"] = "line 1, column 1: not a value of JSON",
      ["nan"] = "line 1, column 1: not a value of JSON",
      ["[01]"] = "line 1, column 2: not a number of JSON",
      ["1."] = "line 1, column 1: not a number of JSON",
      ["1e"] = "line 1, column 1: not a number of JSON",
      ["0x10"] = "line 1, column 1: not a number of JSON",
      ["+1"] = "line 1, column 1: not a value of JSON",
      [".5"] = "line 1, column 1: not a value of JSON",
      ["1e999"] = "line 1, column 1: number too large for a double",
      ['"abc'] = "line 1, column 1: string without an end",
      ['"a\nb"'] = "line 1, column 3: control character in a string; it has to be escaped",
      ['"\\x"'] = "line 1, column 2: not an escape that JSON knows",
      ['"\\u12g4"'] = "line 1, column 2: not an escape that JSON knows",
      ['"\\ud800x"'] = "line 1, column 2: half of a surrogate pair",
      ['"\\udc00"'] = "line 1, column 2: half of a surrogate pair",
      ['"\192\128"'] = "line 1, column 2: not UTF-8",
      ['"\237\160\128"'] = "line 1, column 2: not UTF-8",
      ['"\244\144\128\128"'] = "line 1, column 2: not UTF-8",
      ['"\226\130'] = "line 1, column 2: not UTF-8",
      [("["):rep(101)] = "line 1, column 101: nested more than 100 levels deep",
      [("["):rep(1000000)] = "line 1, column 101: nested more than 100 levels deep",
    } do
      assert.equal("json: " .. message, refusal(text))
    end
  end)
end)

describe("json.encode", function()
  it("sorts keys, so that equal tables give equal text", function()
    local value = { c = { x = "y" }, b = { true, json.null }, a = 1 }
    assert.equal('{"a":1,"b":[true,null],"c":{"x":"y"}}', json.encode(value))
    assert.equal('{\n  "a": [\n    1,\n    2\n  ],\n  "b": {}\n}', json.encode({ a = { 1, 2 }, b = {} }, 2))
  end)

  it("tells empty arrays from empty objects, also after reading", function()
    assert.equal("{}", json.encode {})
    assert.equal("[]", json.encode(json.array {}))
    assert.equal('{"a":[],"b":{}}', json.encode(json.decode '{"b":{},"a":[]}'))
    assert.is_true(json.is_array(json.decode "[]"))
    assert.is_false(json.is_array(json.decode "{}"))
  end)

  it("writes numbers in the fewest digits that read back the same", function()
    assert.equal("[0.1,0.3333333333333333,1e+300,5e-324,0.30000000000000004]",
      (json.encode { 0.1, 1 / 3, 1e300, 5e-324, 0.1 + 0.2 }:gsub("4.94065645841247e%-324", "5e-324")))
    assert.equal("[1,-2,1000000000000000,9007199254740991]", json.encode { 1, -2, 1e15, 2 ^ 53 - 1 })
    assert.equal("9223372036854775807", json.encode(9223372036854775807LL))
    assert.equal("18", json.encode(18ULL))
    -- doubles from 2^53 on come back as doubles, not as int64
    for _, x in ipairs { 2 ^ 53, 2 ^ 62, 1e22, -1e17 } do assert.equal(x, json.decode(json.encode(x))) end
  end)

  it("escapes what has to be", function()
    assert.equal([["\"\\/\b\f\n\r\t\u0000\u001f]] .. '\127é"', json.encode '"\\/\b\f\n\r\t\0\31\127é')
  end)

  it("refuses what JSON has no form for, by its place", function()
    local function refused(value)
      local done, message = pcall(function() return json.encode(value) end)
      assert.is_false(done)
      return (message:gsub("^.-(json: )", "%1"))
    end
    assert.equal("json: the value is nan; JSON has no such number", refused(0 / 0))
    assert.equal("json: 'a.b.2' is inf; JSON has no such number", refused { a = { b = { 1, math.huge } } })
    assert.equal("json: 'f' is a function, which JSON has no form for", refused { f = print })
    assert.equal("json: the value has the key 1; a table is an object (all keys texts) or an array (keys 1 to n)",
      refused { 1, a = 2 })
    assert.equal("json: 't' has the key 3; a table is an object (all keys texts) or an array (keys 1 to n)",
      refused { t = { [3] = 1 } })
    assert.equal("json: 's' is not UTF-8, at its byte 2; JSON holds no other text", refused { s = "a\255" })
    assert.equal("json: the value is 18446744073709551615, which does not fit into 64 bits with a sign",
      refused(18446744073709551615ULL))
    local round = {}
    round.x = round
    assert.equal("json: '" .. ("x."):rep(40) .. "' is nested more than 100 levels deep, or contains itself",
      refused(round))
  end)

  it("gives back what it was given", function()
    local value = { name = "DeepFM", list = { 1, 2.5, "x", { deep = { true, false } } }, big = 2 ^ 60, [""] = "\0" }
    assert.same(value, json.decode(json.encode(value)))
    assert.same(value, json.decode(json.encode(value, 1)))
  end)
end)
