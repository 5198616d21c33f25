/* Time by operator: when on, every kernel's seconds are added up. Off, a call pays one predictable branch. Only the
 * thread that runs the script calls operators, so plain numbers suffice. */
#include "op.h"

bool lt_profile_on;
static struct { double seconds, calls; } spent[LT_OP_COUNT];

void lt_profile(bool on) {
  if (on && !lt_profile_on) memset(spent, 0, sizeof spent);
  lt_profile_on = on;
}

void lt_profile_add(int id, double seconds) {
  spent[id].seconds += seconds;
  spent[id].calls++;
}

int lt_profile_get(int id, double *seconds, double *calls) {
  if (id < 0 || id >= LT_OP_COUNT) return 0;
  *seconds = spent[id].seconds;
  *calls = spent[id].calls;
  return 1;
}
