/* Child processes for `ltrain test`: start one with its output on a pipe, wait for whatever happens next in any of
 * them, end one together with all that it started. A child is a process group of its own and dies with its parent.
 * Waiting looks at the processes as well as at the pipes: a grandchild may keep a pipe open after the child is gone. */
#include "host.h"
#include "ltrain.h"

#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_CHILDREN = 256, TICK_MS = 20, EXIT_NO_EXEC = 127 };

typedef struct {
  pid_t pid;
  int output; /* read end of the pipe that takes stdout and stderr; -1: closed */
} child_t;

static const char *const type_name = "ltrain.child";

static child_t *to_child(lua_State *L, int index) { return luaL_checkudata(L, index, type_name); }

/* spawn { "program", "argument", ... } -> child, or nil and a message */
static int spawn(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  int argc = (int)lua_objlen(L, 1), pipes[2];
  luaL_argcheck(L, argc > 0, 1, "names no program");
  const char **argv = lua_newuserdata(L, sizeof *argv * (size_t)(argc + 1));
  for (int i = 0; i < argc; i++) {
    lua_rawgeti(L, 1, i + 1); /* the table keeps the string alive */
    argv[i] = lua_tostring(L, -1);
    luaL_argcheck(L, argv[i], 1, "has an argument that is no text");
    lua_pop(L, 1);
  }
  argv[argc] = NULL;
  child_t *child = lua_newuserdata(L, sizeof *child);
  *child = (child_t){.pid = -1, .output = -1};
  luaL_getmetatable(L, type_name);
  lua_setmetatable(L, -2);
  if (pipe2(pipes, O_CLOEXEC) != 0) goto failed;
  fflush(NULL);
  pid_t parent = getpid();
  child->pid = fork();
  if (child->pid == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(EXIT_NO_EXEC); /* the parent died in between */
    int null = open("/dev/null", O_RDONLY);
    dup2(null, STDIN_FILENO);
    dup2(pipes[1], STDOUT_FILENO);
    dup2(pipes[1], STDERR_FILENO);
    signal(SIGINT, SIG_DFL);
    execvp(argv[0], (char *const *)argv);
    dprintf(STDERR_FILENO, "cannot start %s: %s\n", argv[0], strerror(errno));
    _exit(EXIT_NO_EXEC);
  }
  close(pipes[1]);
  if (child->pid < 0) {
    close(pipes[0]);
    goto failed;
  }
  setpgid(child->pid, child->pid);
  child->output = pipes[0];
  fcntl(child->output, F_SETFL, O_NONBLOCK);
  return 1;
failed:
  lua_pushnil(L);
  lua_pushfstring(L, "%s: %s", argv[0], strerror(errno));
  return 2;
}

/* Appends what the pipe holds to the buffer; closes it at its end. */
static void drain(lua_State *L, child_t *child) {
  luaL_Buffer text;
  luaL_buffinit(L, &text);
  while (child->output >= 0) {
    char *space = luaL_prepbuffer(&text);
    ssize_t n = read(child->output, space, LUAL_BUFFERSIZE);
    if (n > 0) {
      luaL_addsize(&text, (size_t)n);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
      close(child->output);
      child->output = -1;
    } else if (errno == EAGAIN) {
      break;
    }
  }
  luaL_pushresult(&text);
}

static void kill_group(const child_t *child) {
  if (child->pid > 0) kill(-child->pid, SIGKILL);
}

/* Lua: poll_child(child) -> new output, and once it has ended: "exit" or "signal", number, name */
static int poll_child(lua_State *L) {
  child_t *child = to_child(L, 1);
  int status = 0;
  pid_t ended = child->pid > 0 ? waitpid(child->pid, &status, WNOHANG) : 0;
  if (ended == child->pid) kill_group(child); /* what it left behind; before the pipe is read to its end */
  drain(L, child);
  if (ended <= 0) return 1;
  child->pid = -1;
  if (child->output >= 0) close(child->output);
  child->output = -1;
  if (WIFSIGNALED(status)) {
    lua_pushliteral(L, "signal");
    lua_pushinteger(L, WTERMSIG(status));
    lua_pushstring(L, strsignal(WTERMSIG(status)));
  } else {
    lua_pushliteral(L, "exit");
    lua_pushinteger(L, WEXITSTATUS(status));
    lua_pushliteral(L, "");
  }
  return 4;
}

/* wait_children(list) -> after at most a tick, or when one of them has output */
static int wait_children(lua_State *L) {
  struct pollfd polls[MAX_CHILDREN];
  nfds_t n = 0;
  for (int i = 1; i <= (int)lua_objlen(L, 1) && n < MAX_CHILDREN; i++) {
    lua_rawgeti(L, 1, i);
    child_t *child = to_child(L, -1);
    if (child->output >= 0) polls[n++] = (struct pollfd){.fd = child->output, .events = POLLIN};
    lua_pop(L, 1);
  }
  poll(polls, n, TICK_MS);
  return 0;
}

/* kill_child(child, signal or SIGKILL): for it and its group; poll_child still reports the end */
static int kill_child(lua_State *L) {
  const child_t *child = to_child(L, 1);
  int number = luaL_optint(L, 2, SIGKILL);
  if (child->pid > 0) kill(-child->pid, number);
  return 0;
}

static int collect_child(lua_State *L) {
  child_t *child = to_child(L, 1);
  if (child->pid > 0) {
    kill_group(child);
    waitpid(child->pid, NULL, 0);
    child->pid = -1;
  }
  if (child->output >= 0) close(child->output);
  child->output = -1;
  return 0;
}

void host_add_process(lua_State *L) {
  static const luaL_Reg functions[] = {{"spawn", spawn},
                                       {"poll_child", poll_child},
                                       {"wait_children", wait_children},
                                       {"kill_child", kill_child},
                                       {NULL, NULL}};
  luaL_newmetatable(L, type_name);
  lua_pushcfunction(L, collect_child);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  luaL_register(L, NULL, functions);
}
