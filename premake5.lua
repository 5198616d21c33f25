-- The whole build: libltrain.so and the program ltrain. One file for real premake5 and, through the shim, for Debian's
-- premake4 4.3; scripts/build.sh runs whichever is there and then make. Not here: installing (scripts/install.sh).
-- Headers, .def files and the embedded core/ltrain.h are tracked by the compiler's -MMD files, new sources by running
-- the generator again, changed flags by build.sh, which drops a configuration's objects when this file changes.

if not workspace then -- premake4: give its words premake5's names
  workspace = solution
  function filter(terms)
    local plain = {}
    for _, term in ipairs(type(terms) == "table" and terms or { terms }) do
      plain[#plain + 1] = (term:gsub("%a+:", ""))
    end
    configuration(plain)
  end
  function symbols(value) if value == "On" then flags { "Symbols" } end end
  function pic(value) if value == "On" then buildoptions { "-fPIC" } end end
  function cdialect(value) buildoptions { "-std=" .. value:lower() } end
  function visibility(value) buildoptions { "-fvisibility=" .. value:lower() } end
  function removefiles(value) excludes(value) end
end

-- premake4 puts all objects of a project into one folder, so two files of one name would overwrite each other.
local function require_unique(...)
  local seen = {}
  for _, pattern in ipairs { ... } do
    for _, file in ipairs(os.matchfiles(pattern)) do
      local name = file:match("([^/]+)%.c$")
      if not file:find("^core/cli/") then
        if seen[name] then error(seen[name] .. " and " .. file .. " share an object name; rename one") end
        seen[name] = file
      end
    end
  end
end
require_unique("core/**.c")

local configs = { "release", "debug", "asan", "tsan" }

workspace "ltrain"
  configurations(configs)
  location "build/make"
  language "C"
  cdialect "gnu11"
  includedirs { "core" }
  defines { "_GNU_SOURCE" }
  -- No -ffast-math: sums keep their order, NaN and infinity keep their meaning.
  buildoptions { "-Wall", "-Wextra", "-Werror", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-pthread" }
  linkoptions { "-pthread", "-Wl,-rpath,'$$ORIGIN'" }
  pic "On"

  filter "configurations:release" -- symbols stay for profilers; scripts/install.sh strips them
    symbols "On"
    buildoptions { "-O3" }
    defines { "NDEBUG" }
  filter "configurations:debug"
    symbols "On"
    buildoptions { "-Og", "-fno-omit-frame-pointer" }
  filter "configurations:asan"
    symbols "On"
    buildoptions { "-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined" }
    linkoptions { "-fsanitize=address,undefined" }
  filter "configurations:tsan" -- clang's: gcc's does not understand its own OpenMP runtime
    symbols "On"
    buildoptions { "-O1", "-fno-omit-frame-pointer", "-fsanitize=thread" }
    buildoptions { "-Wno-pass-failed" } -- instrumented loops do not vectorise, pragma or not
    linkoptions { "-fsanitize=thread" }
  for _, config in ipairs(configs) do
    filter("configurations:" .. config)
      targetdir("build/" .. config)
  end

project "ltrain_core"
  kind "SharedLib"
  targetname "ltrain"
  visibility "Hidden" -- public is what ltrain.h declares
  files { "core/**.c" }
  removefiles { "core/cli/**.c" }
  linkoptions { "-fopenmp" }
  buildoptions { "-Wa,-I../../core" } -- where .incbin in header.c looks, seen from build/make
  linkoptions { "-Wl,-soname,libltrain.so" }
  links { "dnnl", "archive", "isal", "z", "cjson", "m" }
  filter "not configurations:tsan" -- whose runtime is in the program
    linkoptions { "-Wl,-z,defs" } -- nothing links the library, so that a missing symbol must show here
  for _, config in ipairs(configs) do
    filter("configurations:" .. config)
      objdir("build/" .. config .. "/obj/core")
  end

project "ltrain"
  kind "ConsoleApp"
  files { "core/cli/**.c" }
  includedirs { "/usr/include/luajit-2.1" }
  links { "luajit-5.1", "edit", "dl" } -- libltrain.so is loaded at run time: core/cli/engine.c
  for _, config in ipairs(configs) do
    filter("configurations:" .. config)
      objdir("build/" .. config .. "/obj/cli")
  end
