/* The library's own text: the public header, embedded byte for byte so that ffi.cdef reads what C was compiled with,
 * and the version. The assembler, not a generator, does the embedding; including the header makes the compiler's
 * dependency file name it, so that an edit rebuilds this object. */
#include "ltrain.h"

__asm__(".pushsection .rodata\n"
        ".globl ltrain_header_text\n"
        ".hidden ltrain_header_text\n"
        "ltrain_header_text:\n"
        ".incbin \"ltrain.h\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char ltrain_header_text[] __attribute__((visibility("hidden")));

const char *lt_header(void) { return ltrain_header_text; }

const char *lt_version(void) { return "0.1.0"; }
