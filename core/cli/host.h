/* What the parts of the program share. The program is thin: it makes a Lua state, tells Lua where ltrain's files lie,
 * keeps Ctrl-C working and offers Lua a module `ltrain.host` with the few things that need the operating system. All
 * commands (scripts, REPL, tests, doctor) are Lua files in lua/ltrain/cli. */
#pragma once
#include <lua.h>
#include <stdbool.h>

/* Each adds its functions to the module table on top of the stack. */
void host_add_system(lua_State *L);    /* files, terminals, clocks */
void host_add_process(lua_State *L);   /* child processes with their output and end */
void host_add_lines(lua_State *L);     /* line editing */
void host_add_interrupt(lua_State *L); /* taking an interrupt in hand */

/* engine.c: libltrain.so, from the folder of the program; false after a message. */
bool engine_load(const char *exe);

/* interrupt.c: from the first call on, SIGINT makes Lua code raise "interrupted". */
void interrupt_install(lua_State *L);
void interrupt_uninstall(void); /* before lua_close */
