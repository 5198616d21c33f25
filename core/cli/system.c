/* The operating system for lua/ltrain/cli: files and folders, terminals, clocks, processors. Nothing here knows what
 * the commands do with it. Functions that can fail return nil and a message, as Lua's io functions do. */
#include "host.h"
#include "ltrain.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <lauxlib.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int failed(lua_State *L, const char *path) {
  lua_pushnil(L);
  lua_pushfstring(L, "%s: %s", path, strerror(errno));
  return 2;
}

/* kind(path) -> "file", "folder", "other", or nil when there is nothing */
static int kind(lua_State *L) {
  struct stat info;
  if (stat(luaL_checkstring(L, 1), &info) != 0) return 0;
  lua_pushstring(L, S_ISREG(info.st_mode) ? "file" : S_ISDIR(info.st_mode) ? "folder" : "other");
  return 1;
}

/* list(path) -> names in byte order, without . and .. */
static int list(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  struct dirent **entries;
  int n = scandir(path, &entries, NULL, NULL);
  if (n < 0) return failed(L, path);
  lua_newtable(L);
  for (int i = 0; i < n; i++) {
    const char *name = entries[i]->d_name;
    if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
      lua_pushstring(L, name);
      lua_rawseti(L, -2, (int)lua_objlen(L, -2) + 1);
    }
    free(entries[i]);
  }
  free(entries);
  lua_getglobal(L, "table"); /* strcmp's order, in any locale */
  lua_getfield(L, -1, "sort");
  lua_pushvalue(L, -3);
  lua_call(L, 1, 0);
  lua_pop(L, 1);
  return 1;
}

/* make_folder(path) -> true; one level, fine when it is there already */
static int make_folder(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  if (mkdir(path, 0700) != 0 && errno != EEXIST) return failed(L, path);
  lua_pushboolean(L, 1);
  return 1;
}

/* append_private(path, text) -> true; a file that only its owner reads */
static int append_private(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  size_t length;
  const char *text = luaL_checklstring(L, 2, &length);
  int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return failed(L, path);
  ssize_t written = write(fd, text, length);
  int complete = close(fd) == 0 && written == (ssize_t)length;
  if (!complete) return failed(L, path);
  lua_pushboolean(L, 1);
  return 1;
}

/* real_path(path) -> absolute path without links, or nil and a message */
static int real_path(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  char *resolved = realpath(path, NULL);
  if (!resolved) return failed(L, path);
  lua_pushstring(L, resolved);
  free(resolved);
  return 1;
}

/* is_terminal(fd) */
static int is_terminal(lua_State *L) {
  lua_pushboolean(L, isatty((int)luaL_checkinteger(L, 1)));
  return 1;
}

/* columns() -> width of the terminal, 80 when unknown */
static int columns(lua_State *L) {
  struct winsize size;
  int known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  lua_pushinteger(L, known ? size.ws_col : 80);
  return 1;
}

/* now() -> seconds of a clock that never goes back */
static int now(lua_State *L) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  lua_pushnumber(L, (double)t.tv_sec + 1e-9 * (double)t.tv_nsec);
  return 1;
}

/* sleep(seconds); a signal ends it early */
static int sleep_for(lua_State *L) {
  double s = luaL_checknumber(L, 1);
  struct timespec t = {.tv_sec = (time_t)s, .tv_nsec = (long)((s - (double)(time_t)s) * 1e9)};
  nanosleep(&t, NULL);
  return 0;
}

/* processors() -> those this process may run on */
static int processors(lua_State *L) {
  cpu_set_t set;
  int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  lua_pushinteger(L, n > 0 ? n : 1);
  return 1;
}

static int process_id(lua_State *L) {
  lua_pushinteger(L, getpid());
  return 1;
}

/* set_environment(name, value or nil) */
static int set_environment(lua_State *L) {
  const char *name = luaL_checkstring(L, 1), *value = luaL_optstring(L, 2, NULL);
  if (value ? setenv(name, value, 1) : unsetenv(name)) return failed(L, name);
  lua_pushboolean(L, 1);
  return 1;
}

static int libc_version(lua_State *L) {
  lua_pushstring(L, gnu_get_libc_version());
  return 1;
}

void host_add_system(lua_State *L) {
  static const luaL_Reg functions[] = {{"kind", kind},
                                       {"list", list},
                                       {"make_folder", make_folder},
                                       {"append_private", append_private},
                                       {"real_path", real_path},
                                       {"is_terminal", is_terminal},
                                       {"columns", columns},
                                       {"now", now},
                                       {"sleep", sleep_for},
                                       {"processors", processors},
                                       {"process_id", process_id},
                                       {"set_environment", set_environment},
                                       {"libc_version", libc_version},
                                       {NULL, NULL}};
  luaL_register(L, NULL, functions);
}
