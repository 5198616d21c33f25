/* Ctrl-C. A hook alone would not stop compiled loops: they do not look at hooks. So LuaJIT's profiler runs with an
 * interval of an hour, which makes every trace carry a cheap check per line, and the signal handler fires that check
 * itself: the trace is left, the hook is armed, the hook raises. C loops poll lt_interrupted() instead.
 *
 * The first raise leaves 200 ms for code that catches it to clean up; then a timer sends the signal again and every
 * instruction raises, so that `while true do pcall(f) end` ends too. A second Ctrl-C within a second ends the process
 * at once. */
#include "host.h"
#include "ltrain.h"

#include <lauxlib.h>
#include <luajit.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_INTERRUPTED = 130, GRACE_MS = 200, HOOK_EVENTS = LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT };

static lua_State *volatile state; /* NULL: nothing to unwind */
static pthread_t main_thread;
static timer_t grace;
static int has_grace;
static volatile sig_atomic_t prompting, raised;

static void set_timer(int on) {
  struct itimerspec spec = {0};
  if (on) spec.it_value.tv_nsec = spec.it_interval.tv_nsec = GRACE_MS * 1000000L;
  if (has_grace) timer_settime(grace, 0, &spec, NULL);
}

static void hook(lua_State *L, lua_Debug *ar) {
  (void)ar;
  if (!lt_interrupted()) { /* taken in hand meanwhile */
    lua_sethook(L, NULL, 0, 0);
    set_timer(0);
    return;
  }
  if (raised++ == 0) {
    lua_sethook(L, NULL, 0, 0);
    set_timer(1);
  }
  luaL_error(L, "interrupted");
}

/* LuaJIT wants a profiler callback. It restores the hooks afterwards, so that arming one in here would not last. */
static void at_safe_point(void *data, lua_State *L, int samples, int vmstate) {
  (void)data, (void)L, (void)samples, (void)vmstate;
}

static void on_sigint(int signal_number, siginfo_t *info, void *context) {
  static volatile time_t last_s, last_ns;
  (void)context;
  if (!pthread_equal(pthread_self(), main_thread)) { /* the hook belongs to the thread that runs Lua */
    pthread_kill(main_thread, signal_number);
    return;
  }
  if (info->si_code == SI_TIMER) {
    if (!lt_interrupted()) set_timer(0);
  } else {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t since_ms = (int64_t)(now.tv_sec - last_s) * 1000 + (now.tv_nsec - last_ns) / 1000000;
    if (!state || (lt_interrupted() && last_s && since_ms < 1000)) _exit(EXIT_INTERRUPTED);
    last_s = now.tv_sec;
    last_ns = now.tv_nsec;
    lt_interrupt_request();
  }
  if (!lt_interrupted() || prompting) return;
  set_timer(1);
  lua_sethook(state, hook, HOOK_EVENTS, 1);
  raise(SIGPROF);
}

void interrupt_install(lua_State *L) {
  struct sigaction old;
  main_thread = pthread_self();
  state = L;
  if (sigaction(SIGINT, NULL, &old) == 0 && old.sa_handler == SIG_IGN)
    return; /* started in the background: stay deaf */
  luaJIT_profile_start(L, "li3600000", at_safe_point, NULL);
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGINT};
  event._sigev_un._tid = (int)syscall(SYS_gettid);
  has_grace = timer_create(CLOCK_MONOTONIC, &event, &grace) == 0;
  struct sigaction action = {.sa_sigaction = on_sigint,
                             .sa_flags = SA_SIGINFO}; /* no SA_RESTART: a blocked read must return */
  sigaction(SIGINT, &action, NULL);
}

void interrupt_uninstall(void) {
  state = NULL;
  if (has_grace) timer_delete(grace);
  has_grace = 0;
}

/* set_interruptible(on): off, an interrupt is only noted, for whoever reads the next line; on, it raises, one that was
 * noted before at once. */
static int set_interruptible(lua_State *L) {
  prompting = !lua_toboolean(L, 1);
  if (prompting) {
    set_timer(0);
    lua_sethook(L, NULL, 0, 0);
  } else if (lt_interrupted()) {
    return luaL_error(L, "interrupted");
  }
  return 0;
}

/* take_interrupt() -> was there one? Ends it: flag, hook and timer are quiet afterwards. For top levels only. */
static int take_interrupt(lua_State *L) {
  int was = lt_interrupted();
  set_timer(0);
  lt_interrupt_clear();
  raised = 0;
  if (was) lua_sethook(L, NULL, 0, 0);
  lua_pushboolean(L, was);
  return 1;
}

void host_add_interrupt(lua_State *L) {
  lua_pushcfunction(L, take_interrupt);
  lua_setfield(L, -2, "take_interrupt");
  lua_pushcfunction(L, set_interruptible);
  lua_setfield(L, -2, "set_interruptible");
}
