/* Line editing for the REPL on libedit's own interface. Lua supplies the completion and keeps the history file; here
 * lie the keys, the drawing and the reading. Characters are read by our own function: it waits with SIGINT let
 * through, so that Ctrl-C drops the line without a jump out of the library. */
#include "host.h"
#include "ltrain.h"

#include <errno.h>
#include <histedit.h>
#include <lauxlib.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

static EditLine *editor;
static History *history_list;
static char prompt_text[64];
static lua_State *caller;  /* the state inside edit_line */
static int complete_index; /* where its completion function lies on the stack; 0: none */
static sigset_t outside;   /* the signal mask of the rest of the program */

static char *prompt(EditLine *e) {
  (void)e;
  return prompt_text;
}

/* One character of the terminal's encoding. 1: read, 0: end of input or interrupt. */
static int read_char(EditLine *e, wchar_t *out) {
  (void)e;
  mbstate_t shift = {0};
  for (;;) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    int ready = ppoll(&input, 1, NULL, &outside);
    if (lt_interrupted()) return 0;
    if (ready < 0 && errno != EINTR) return -1;
    if (ready <= 0) continue;
    char byte;
    ssize_t n = read(STDIN_FILENO, &byte, 1);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return (int)n;
    size_t used = mbrtowc(out, &byte, 1, &shift);
    if (used == (size_t)-1) { /* not in this encoding: drop it */
      memset(&shift, 0, sizeof shift);
      continue;
    }
    if (used != (size_t)-2) return 1;
  }
}

/* The list of candidates in columns, below the line being edited. The candidates are at the top of the stack. */
static void print_candidates(lua_State *L, size_t n) {
  struct winsize size;
  size_t widest = 0, width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  for (size_t i = 1; i <= n; i++) {
    lua_rawgeti(L, -1, (int)i);
    if (lua_objlen(L, -1) > widest) widest = lua_objlen(L, -1);
    lua_pop(L, 1);
  }
  size_t columns = width / (widest + 2) ? width / (widest + 2) : 1, rows = (n + columns - 1) / columns;
  fputc('\n', stdout);
  for (size_t row = 0; row < rows; row++) {
    for (size_t i = row; i < n; i += rows) {
      lua_rawgeti(L, -1, (int)i + 1);
      printf("%-*s", i + rows < n ? (int)widest + 2 : 0, lua_tostring(L, -1));
      lua_pop(L, 1);
    }
    fputc('\n', stdout);
  }
}

/* Tab: asks Lua complete(text before the cursor) -> text to insert, candidates to show. */
static unsigned char complete(EditLine *e, int key) {
  (void)key;
  const LineInfo *line = el_line(e);
  lua_State *L = caller;
  unsigned char action = CC_REFRESH_BEEP;
  if (line->cursor == line->buffer) return el_insertstr(e, "  ") == 0 ? CC_REFRESH : CC_ERROR;
  if (!complete_index) return CC_ERROR;
  int top = lua_gettop(L);
  lua_pushvalue(L, complete_index);
  lua_pushlstring(L, line->buffer, (size_t)(line->cursor - line->buffer));
  sigset_t inside;
  pthread_sigmask(SIG_SETMASK, &outside, &inside);
  int failed = lua_pcall(L, 1, 2, 0);
  pthread_sigmask(SIG_SETMASK, &inside, NULL);
  if (!failed) {
    const char *insert = lua_tostring(L, -2);
    size_t n = lua_istable(L, -1) ? lua_objlen(L, -1) : 0;
    if (insert && *insert && el_insertstr(e, insert) == 0) {
      action = CC_REFRESH;
    } else if (n > 1) {
      print_candidates(L, n);
      action = CC_REDISPLAY;
    }
  }
  lua_settop(L, top);
  return action;
}

static int start(void) {
  HistEvent event;
  if (editor) return 1;
  setlocale(LC_CTYPE, "");
  if (MB_CUR_MAX == 1) setlocale(LC_CTYPE, "C.UTF-8"); /* typed text is UTF-8 wherever no locale is set */
  editor = el_init("ltrain", stdin, stdout, stderr);
  history_list = history_init();
  if (!editor || !history_list) return 0;
  history(history_list, &event, H_SETSIZE, 2000);
  history(history_list, &event, H_SETUNIQUE, 1);
  el_set(editor, EL_PROMPT, prompt);
  el_set(editor, EL_EDITOR, "emacs");
  el_set(editor, EL_SIGNAL, 0);
  el_set(editor, EL_HIST, history, history_list);
  el_set(editor, EL_GETCFN, read_char);
  el_set(editor, EL_ADDFN, "ltrain-complete", "complete a name", complete);
  el_set(editor, EL_BIND, "^I", "ltrain-complete", NULL);
  el_set(editor, EL_BIND, "^R", "em-inc-search-prev", NULL);
  el_set(editor, EL_BIND, "\\e[1;5C", "em-next-word", NULL);
  el_set(editor, EL_BIND, "\\e[1;5D", "ed-prev-word", NULL);
  el_set(editor, EL_BIND, "\\e[3~", "ed-delete-next-char", NULL);
  el_source(editor, NULL); /* the user's ~/.editrc */
  return 1;
}

/* edit_line(prompt, complete) -> line; or nil and "end", "interrupt" or a message. To be called while interrupts are
 * only noted (set_interruptible(false)). */
static int edit_line(lua_State *L) {
  snprintf(prompt_text, sizeof prompt_text, "%s", luaL_checkstring(L, 1));
  if (!start()) {
    lua_pushnil(L);
    lua_pushliteral(L, "the terminal cannot be set up for line editing");
    return 2;
  }
  caller = L;
  complete_index = lua_isfunction(L, 2) ? 2 : 0;
  sigset_t block;
  sigemptyset(&block);
  sigaddset(&block, SIGINT);
  pthread_sigmask(SIG_BLOCK, &block, &outside);
  int length = 0;
  const char *line = el_gets(editor, &length);
  pthread_sigmask(SIG_SETMASK, &outside, NULL);
  if (lt_interrupted()) {
    lt_interrupt_clear();
    el_reset(editor);
    fputc('\n', stdout);
    lua_pushnil(L);
    lua_pushliteral(L, "interrupt");
    return 2;
  }
  if (!line || length <= 0) {
    lua_pushnil(L);
    lua_pushliteral(L, "end");
    return 2;
  }
  size_t n = strlen(line);
  lua_pushlstring(L, line, n > 0 && line[n - 1] == '\n' ? n - 1 : n);
  return 1;
}

/* remember(entry): the newest one of the history */
static int remember(lua_State *L) {
  HistEvent event;
  const char *entry = luaL_checkstring(L, 1);
  if (start()) history(history_list, &event, H_ENTER, entry);
  return 0;
}

static int close_editor(lua_State *L) {
  (void)L;
  if (editor) el_end(editor);
  if (history_list) history_end(history_list);
  editor = NULL;
  history_list = NULL;
  return 0;
}

void host_add_lines(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"edit_line", edit_line}, {"remember", remember}, {"close_editor", close_editor}, {NULL, NULL}};
  luaL_register(L, NULL, functions);
}
