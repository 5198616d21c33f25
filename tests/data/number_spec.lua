-- Numbers from text, bit by bit. The expected bits come from Python: exact fractions rounded half to even
-- (tests/data/number_bits.py prints this table).
local ffi = require "ffi"
local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local scratch, reading = dofile(here .. "scratch.lua"), dofile(here .. "reading.lua")

-- text, float32 (false: beyond it), float64
local CASES = {
  { "0", 0x00000000, "0000000000000000" },
  { "1", 0x3f800000, "3ff0000000000000" },
  { "-1", 0xbf800000, "bff0000000000000" },
  { ".5", 0x3f000000, "3fe0000000000000" },
  { "5.", 0x40a00000, "4014000000000000" },
  { "0.1", 0x3dcccccd, "3fb999999999999a" },
  { "0.2", 0x3e4ccccd, "3fc999999999999a" },
  { "0.3", 0x3e99999a, "3fd3333333333333" },
  { "2.5e-3", 0x3b23d70a, "3f647ae147ae147b" },
  { "1e10", 0x501502f9, "4202a05f20000000" },
  { "1E+10", 0x501502f9, "4202a05f20000000" },
  { "123456789", 0x4ceb79a3, "419d6f3454000000" },
  { "16777217", 0x4b800000, "4170000010000000" },
  { "16777219", 0x4b800002, "4170000030000000" },
  { "33554435", 0x4c000001, "4180000018000000" },
  { "4294967297", 0x4f800000, "41f0000000100000" },
  { "9007199254740993", 0x5a000000, "4340000000000000" },
  { "0.30000000000000004", 0x3e99999a, "3fd3333333333334" },
  { "1.7976931348623157e308", false, "7fefffffffffffff" },
  { "3.4028234663852886e38", 0x7f7fffff, "47efffffe0000000" },
  { "3.4028235e38", 0x7f7fffff, "47efffffe54daff8" },
  { "1.17549435e-38", 0x00800000, "380fffffff9fdba8" },
  { "1.1754943e-38", 0x00800000, "380fffffe8c9d9fb" },
  { "1e-45", 0x00000001, "3696d601ad376ab9" },
  { "7e-46", 0x00000000, "368ff868bf4d956a" },
  { "4.9e-324", 0x00000000, "0000000000000001" },
  { "2.4703282292062328e-324", 0x00000000, "0000000000000001" },
  { "2.2250738585072011e-308", 0x00000000, "000fffffffffffff" },
  { "1e23", 0x65a96816, "44b52d02c7e14af6" },
  { "8.5e22", 0x658ffee0, "44b1ffdbf6b2b2eb" },
  { "1.0000000596046448", 0x3f800001, "3ff0000010000000" },
  { "1.00000005960464477539062500001", 0x3f800001, "3ff0000010000000" },
  { "1.000000059604644775390625", 0x3f800000, "3ff0000010000000" },
  { "1.00000017881393432617187500", 0x3f800002, "3ff0000030000000" },
  { "0.000000000000000000000000000000000000011754943508222875", 0x00800000, "3810000000000000" },
  { "12345678901234567890", 0x5f2b54aa, "43e56a95319d63e1" },
  { "1234567890123456789e-19", 0x3dfcd6ea, "3fbf9add3746f65f" },
  { "99999999999999999999999999", 0x6aa56fa6, "4554adf4b7320335" },
  { "7.2057594037927933e16", 0x5b800000, "4370000000000000" },
  { "1e-22", 0x1af1c901, "3b5e392010175ee6" },
  { "1e22", 0x64078678, "4480f0cf064dd592" },
  { "3e-27", 0x136daf3b, "3a6db5e7526b5a18" },
  { "3e27", 0x6d1b18ab, "45a363156bbee301" },
  { "5e-28", 0x121e74d2, "3a43ce9a36f23c10" },
  { "123456789012345678e9", 0x6acc3dfc, "455987bf7c563caa" },
  { "9223372036854775807", 0x5f000000, "43e0000000000000" },
  { "100000000000000016777216e-16", 0x4b189680, "416312d000000001" },
  { "0.000123", 0x3900f990, "3f201f31f46ed246" },
  { "-272.15", 0xc3881333, "c071026666666666" },
  { "1e-400", 0x00000000, "0000000000000000" },
  { "212509.19908", 0x484f874d, "4109f0e997b7414a" },
  { ".840e-33", 0x088b91a6, "39117234c0bb101a" },
  { "54.03692550747596e-32", 0x0d2f5c1f, "39a5eb83e2419c08" },
  { "12175294.e-25", 0x21b3acf6, "3c36759eba511842" },
  { ".84641177", 0x3f58ae71, "3feb15ce22e32ee4" },
  { "81699332.5456", 0x4c9bd441, "41937a88122eb1c4" },
  { "18001884.82e-1", 0x49dbbfe4, "413b77fc7b645a1d" },
  { "78629.5579237787695e-16", 0x2d0a539b, "3da14a735a546c0b" },
  { "60171388257.8e-33", 0x1a917c49, "3b522f8921c429e1" },
  { "82375814743814.042351e-9", 0x47a0e3e8, "40f41c7d0930cf3f" },
  { "732948.e-2", 0x45e50bd7, "40bca17ae147ae14" },
  { "41.496206415154234e13", 0x57bcb3f1, "42f7967e26dd3f65" },
  { "79.3919e22", 0x67281e6f, "44e503cded651b91" },
  { "109249717989.92", 0x51cb7e53, "42396fca66e5eb85" },
  { "95950.094914", 0x47bb670c, "40f76ce184c48adf" },
  { "84.15503028500634845", 0x42a84f60, "405509ec0424ff7a" },
  { "5.09059210e-1", 0x3f0251b4, "3fe04a368a55aede" },
  { "81152938176159.0249651e9", 0x65897a7a, "44b12f4f418885cb" },
  { "38.8530022802", 0x421b6979, "40436d2f2dc06fac" },
  { "393087887.6558080e-9", 0x3ec942d1, "3fd9285a197bdde1" },
  { "8.735411241648e11", 0x534b631c, "42696c637808999a" },
  { "9445653445165.44382", 0x550973cd, "42a12e79a2f45ae3" },
  { "758487.694", 0x49392d7b, "412725af6353f7cf" },
  { "40.62857518941e-21", 0x1f3fdcef, "3be7fb9ddfba8bf3" },
  { "883.84612e-17", 0x281f3835, "3d03e706a772bc9e" },
  { ".302720815e28", 0x6d1c80c4, "45a39018854792b8" },
  { "62109.4415095", 0x47729d71, "40ee53ae20d887ec" },
  { "8.9004495392071802e10", 0x51a5c8a7, "4234b914d2201262" },
  { "6.933790816772e11", 0x5321709d, "42642e13a4b9a666" },
  { ".24", 0x3e75c28f, "3fceb851eb851eb8" },
  { "1237687696.55717", 0x4e938b3b, "41d271676423a8ac" },
  { ".3", 0x3e99999a, "3fd3333333333333" },
  { "2.8405785248", 0x4035cc0a, "4006b9813bcde32d" },
  { "94973993.192449413450", 0x4cb52605, "4196a4c0a4c51176" },
  { "874.6550756401336488", 0x445aa9ed, "408b553d984c163e" },
  { "544749945.302120e-27", 0x2120c824, "3c2419048c5810e2" },
  { "3753952.2661", 0x4a651f81, "414ca3f0220f9097" },
  { ".541415e27", 0x6bdfec8b, "457bfd915f5f7c5f" },
  { "75654389.7195", 0x4c904c9f, "41920993d6e0c49c" },
  { "3763066883271909.4e-19", 0x39c54b07, "3f38a960eb6cf5cd" },
  { "24812858.3958", 0x4bbd4e9d, "4177a9d3a6553261" },
  { "9172094.7872361666", 0x4b0bf47f, "41617e8fd93109e7" },
  { "401625.8", 0x48c41b3a, "4118836733333333" },
  { "26832537.e-37", 0x0e59b100, "39cb361ff80aed44" },
  { "4.e4", 0x471c4000, "40e3880000000000" },
  { "41.0547224432714e-11", 0x2fe1b363, "3dfc366c53b4835e" },
  { "608413.5552243165e-40", 0x06a1be7b, "38d437cf63c27e5b" },
  { "152.7233003151103", 0x4318b92a, "4063172546b3d2ba" },
  { "80.20058e2", 0x45faa077, "40bf540ed916872b" },
  { "820.e-30", 0x1281ef27, "3a503de4db22cada" },
  { "1.78261e19", 0x5f776308, "43eeec60f01ad2e8" },
  { "9705122286182824463.29", 0x5f06af85, "43e0d5f0a99434ef" },
  { "60196506.0207e-39", 0x0b9c4771, "397388ee18c91720" },
  { "8767.10677279056807161e-16", 0x2b76c5a9, "3d6ed8b52fb1cf5f" },
  { "46.9656e24", 0x6a1b6569, "45436cad23888952" },
  { "78710.264e13", 0x5d2ec59b, "43a5d8b35c95f1c0" },
  { "79.82", 0x429fa3d7, "4053f47ae147ae14" },
  { "7759222064439521.332e-21", 0x37022d9b, "3ee045b35c3c3084" },
  { "26956568117385.21", 0x55c42285, "42b88450aac08936" },
  { "216259798801879.83015", 0x5744afe8, "42e895fd0f93bafb" },
}

local folder
local function column(texts, dtype)
  local path = scratch.write(folder .. "/t.csv", table.concat(texts, "\n") .. "\n")
  local frame = reading.read(path, { header = 0 }, { { "1", dtype } })
  return (reading.pointer(frame, 0)), frame
end

describe("numbers from text", function()
  before_each(function() folder = scratch.folder() end)
  after_each(function() scratch.remove(folder) end)

  it("are the nearest float32", function()
    local texts, bits = {}, {}
    for _, case in ipairs(CASES) do
      if case[2] then texts[#texts + 1], bits[#bits + 1] = case[1], case[2] end
    end
    local data, frame = column(texts, "float32")
    local got = ffi.cast("uint32_t *", data)
    for i, text in ipairs(texts) do
      assert.equal(("%s %08x"):format(text, bits[i]), ("%s %08x"):format(text, got[i - 1]))
    end
    assert.is_not_nil(frame)
  end)

  it("are the nearest float64", function()
    local texts, bits = {}, {}
    for _, case in ipairs(CASES) do
      if case[3] ~= "big" then texts[#texts + 1], bits[#bits + 1] = case[1], case[3] end
    end
    local data, frame = column(texts, "float64")
    local got = ffi.cast("uint32_t *", data)
    for i, text in ipairs(texts) do
      assert.equal(text .. " " .. bits[i], ("%s %08x%08x"):format(text, got[2 * i - 1], got[2 * i - 2]))
    end
    assert.is_not_nil(frame)
  end)

  it("do not depend on the locale", function()
    ffi.cdef "char *setlocale(int category, const char *locale);"
    local before, tried = ffi.string(ffi.C.setlocale(6, nil)), 0
    for _, locale in ipairs { "de_DE.UTF-8", "fr_FR.UTF-8" } do
      if ffi.C.setlocale(6, locale) ~= nil then tried = tried + 1 end
      local data = column({ "1.5", "0.30000000000000004441" }, "float64")
      ffi.C.setlocale(6, before)
      assert.same({ 1.5, 0.30000000000000004 }, { data[0], data[1] })
    end
    if tried == 0 then pending "no locale with a decimal comma is installed" end
  end)

  it("are refused in any other form", function()
    for _, text in ipairs { "1.2.3", "1e", "1e+", ".", "-", "+-1", "1 2", "0x1p3", "1,5", "--1", "e5", "1d5", "١" } do
      local path = scratch.write(folder .. "/t.csv", "x;y\n" .. text .. ";\n")
      for _, dtype in ipairs { "float32", "float64", "int64", "int32" } do
        local message = reading.refusal(path, { delimiter = ";" }, { { "x", dtype } })
        assert.equal(('csv: %s line 2, column 1 ("x"): "%s" is not a number; correct it, list it in missing, or '
          .. "use the column as a category"):format(path, text), message)
      end
    end
  end)
end)
