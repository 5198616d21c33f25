/* The program ltrain: finds its Lua files beside itself, makes a Lua state and hands the command line to
 * lua/ltrain/cli/main.lua, whose result is the exit status. Works in place (build/ltrain), through symbolic links and
 * after installation (<prefix>/bin/ltrain -> ../lib/ltrain/ltrain, Lua files in <prefix>/share/ltrain). */
#include "host.h"
#include "ltrain.h"

#include <errno.h>
#include <lauxlib.h>
#include <limits.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Finds the folder that holds lua/ and models/; `home` is left empty when there is none. */
static void find_home(char exe[PATH_MAX], char home[PATH_MAX]) {
  static const char *const places[] = {"../../share/ltrain", "../..", ".."};
  ssize_t length = readlink("/proc/self/exe", exe, PATH_MAX - 1);
  exe[length > 0 ? length : 0] = home[0] = 0;
  const char *slash = strrchr(exe, '/');
  if (!slash) return;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    char candidate[PATH_MAX], probe[PATH_MAX];
    int dir = (int)(slash - exe);
    if (snprintf(candidate, sizeof candidate, "%.*s/%s", dir, exe, places[i]) >= PATH_MAX) continue;
    if (snprintf(probe, sizeof probe, "%s/lua/ltrain/cli/main.lua", candidate) >= PATH_MAX) continue;
    if (access(probe, R_OK) == 0 && realpath(candidate, home)) return;
  }
  home[0] = 0;
}

/* The module `ltrain.host`, ready for require. */
static void add_host(lua_State *L, const char *exe, const char *home) {
  lua_newtable(L);
  lua_pushstring(L, exe);
  lua_setfield(L, -2, "exe");
  lua_pushstring(L, home);
  lua_setfield(L, -2, "home");
  lua_pushstring(L, lt_version());
  lua_setfield(L, -2, "version");
  host_add_system(L);
  host_add_process(L);
  host_add_lines(L);
  host_add_interrupt(L);
  lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
  lua_pushvalue(L, -2);
  lua_setfield(L, -2, "ltrain.host");
  lua_pop(L, 2);
}

/* Runs cli/main.lua with the command line. Returns the exit status it gives. */
static int run(lua_State *L, const char *home, int argc, char **argv) {
  char path[PATH_MAX + 32];
  snprintf(path, sizeof path, "%s/lua/ltrain/cli/main.lua", home);
  if (luaL_loadfile(L, path) == 0) {
    luaL_checkstack(L, argc, "too many arguments");
    for (int i = 1; i < argc; i++) lua_pushstring(L, argv[i]);
    if (lua_pcall(L, argc - 1, 1, 0) == 0) return (int)lua_tointeger(L, -1);
  }
  const char *message = lua_tostring(L, -1);
  fprintf(stderr, "ltrain: %s\n", message ? message : "an error that is no text");
  return 1;
}

int main(int argc, char **argv) {
  char exe[PATH_MAX], home[PATH_MAX];
  find_home(exe, home);
  if (!home[0]) {
    fprintf(stderr, "ltrain: no Lua files beside %s; build or install again\n", exe[0] ? exe : "the program");
    return 1;
  }
  if (!engine_load(exe)) return 1;
  lua_State *L = luaL_newstate();
  if (!L) {
    fprintf(stderr, "ltrain: no memory for a Lua state\n");
    return 1;
  }
  luaL_openlibs(L);
  add_host(L, exe, home);
  interrupt_install(L);
  int status = run(L, home, argc, argv);
  interrupt_uninstall();
  lua_close(L);
  if ((fflush(stdout) != 0 || ferror(stdout)) && status == 0) {
    fprintf(stderr, "ltrain: cannot write the output: %s\n", strerror(errno));
    status = 1;
  }
  return status;
}
