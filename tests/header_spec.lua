--- core/ltrain.h is read twice: by C compilers and by ffi.cdef. Both must see the same structs, and every function declared
--- must be in the library.
local ffi = require "ffi"
local host = require "ltrain.host"
local spec = require "ltrain.spec"
require "ltrain"

local text = ffi.string(ffi.C.lt_header()):gsub("#[^\n]*", ""):gsub("/%*.-%*/", "")

-- Structs with a body, and the names of their fields.
local function structs()
  local list = {}
  for body, name in text:gmatch "typedef struct [%w_]+ (%b{}) ([%w_]+);" do
    local fields = {}
    for declaration in body:sub(2, -2):gmatch "[^;]+" do
      local rest = declaration:gsub("%b[]", ""):gsub("^%s*const%s+", "")
      rest = rest:gsub("^%s*[%w_]+%s+", "", 1) -- the type
      for field in rest:gmatch "[%w_]+" do
        if field ~= "const" then fields[#fields + 1] = field end
      end
    end
    list[#list + 1] = { name = name, fields = fields }
  end
  return list
end

describe("ltrain.h", function()
  it("declares no function that the library lacks", function()
    local count = 0
    for name in text:gmatch "([%w_]+)%s*%([^{};]-%)%s*;" do
      assert(pcall(function() return ffi.C[name] end), name .. " is declared but not in libltrain.so")
      count = count + 1
    end
    assert.is_true(count > 100)
  end)

  it("gives structs of one layout to C and to LuaJIT", function()
    local list = structs()
    assert.is_true(#list > 10)
    local lines = { "#include <stdio.h>", '#include "ltrain.h"', "int main(void) {" }
    for _, s in ipairs(list) do
      lines[#lines + 1] = ('  printf("%s %%zu\\n", sizeof(%s));'):format(s.name, s.name)
      for _, field in ipairs(s.fields) do
        lines[#lines + 1] = ('  printf("%s.%s %%zu\\n", offsetof(%s, %s));'):format(s.name, field, s.name, field)
      end
    end
    lines[#lines + 1] = "  return 0;\n}"
    local base = os.tmpname()
    local file = assert(io.open(base .. ".c", "w"))
    file:write(table.concat(lines, "\n"), "\n")
    file:close()
    local output, status = spec.run { "/bin/sh", "-c", ("cc -I '%s/core' -o %s %s.c && %s"):format(host.home, base, base, base) }
    os.remove(base)
    os.remove(base .. ".c")
    assert.equal(0, status, output)
    local checked = 0
    for name, field, size in output:gmatch "([%w_]+)%.?([%w_]*) (%d+)\n" do
      local ours = field == "" and ffi.sizeof(name) or ffi.offsetof(name, field)
      assert.equal(tonumber(size), ours, name .. (field ~= "" and "." .. field or ""))
      checked = checked + 1
    end
    assert.is_true(checked > 60)
  end)
end)
