-- luacheck's view of the Lua in this repository: LuaJIT's library, specs with busted's.
std = "luajit"
max_line_length = 160
self = false -- a method that does not need self is still a method
ignore = { "581" } -- `not (x <= y)` is not `x > y` when NaN may come
exclude_files = { "build", "data" }
files["premake5.lua"] = {
  globals = { "workspace", "filter", "symbols", "pic", "cdialect", "visibility", "removefiles" },
  read_globals = { "solution", "configuration", "flags", "buildoptions", "excludes", "os", "configurations", "location",
    "language", "includedirs", "defines", "linkoptions", "targetdir", "project", "kind", "targetname", "files", "links",
    "objdir" },
}
files["tests"] = { std = "luajit+busted" }
files["lua/ltrain/cli/main.lua"] = { globals = { "arg" } }
files["lua/ltrain/cli/spec_run.lua"] = { globals = { "arg" } }
