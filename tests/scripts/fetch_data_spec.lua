-- scripts/fetch_data.sh: data appears only when it is whole, and nothing is left behind otherwise.

local spec = require "ltrain.spec"
local host = require "ltrain.host"

describe("fetch_data", function()
  local folder

  -- Runs a copy of the script in a folder of its own.
  local function fetch(arguments)
    return spec.run { "/bin/sh", "-c", ("cd / && bash '%s/scripts/fetch_data.sh' %s"):format(folder, arguments) }
  end

  local function data_files()
    local names = host.kind(folder .. "/data") and host.list(folder .. "/data") or {}
    return table.concat(names, " ")
  end

  setup(function()
    folder = os.tmpname()
    os.remove(folder)
    assert.are.equal(0, os.execute(("mkdir -p '%s/scripts' && cp '%s/scripts/fetch_data.sh' '%s/scripts/'"):format(
      folder, host.home, folder)))
  end)
  teardown(function() os.execute("rm -r '" .. folder .. "'") end)

  it("wants the name of a data set", function()
    for _, arguments in ipairs { "", "ml-100m", "ml-100k --from" } do
      local output, status = fetch(arguments)
      assert.is_truthy(output:find("usage: scripts/fetch_data.sh ml-100k", 1, true))
      assert.are.equal(2, status)
    end
  end)

  it("leaves nothing when the archive cannot be had", function()
    local output, status = fetch "ml-100k --from file:///no/such/ml-100k.zip"
    assert.is_truthy(output:find("fetch_data: file:///no/such/ml-100k.zip: ", 1, true), output)
    assert.are_not.equal(0, status)
    assert.are.equal("", data_files())
  end)

  it("leaves nothing when the archive is another one", function()
    local archive = folder .. "/ml-100k.zip"
    local _, made = spec.run { "python3", "-c", [[
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as z:
    z.writestr("ml-100k/u.data", "1\t1\t5\t1\n")
    z.writestr("ml-100k/u.user", "1|24|M|technician|85711\n")
    z.writestr("ml-100k/u.item", "1|Toy Story (1995)|01-Jan-1995|||" + "|".join("0" * 19) + "\n")
]], archive }
    assert.are.equal(0, made)
    local output, status = fetch("ml-100k --from 'file://" .. archive .. "'")
    assert.is_truthy(output:find("the files that came are not those of ml-100k (SHA-256 differs); nothing is kept", 1,
      true), output)
    assert.are.equal(1, status)
    assert.are.equal("", data_files())
  end)
end)
