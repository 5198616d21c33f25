#!/bin/sh
# Writes the seed inputs of tests/fuzz/packed_fuzz.c into tests/fuzz/packed_fuzz: one byte of kind, then a file.
set -eu
cd "$(dirname "$0")"
mkdir -p packed_fuzz
printf '\000' >packed_fuzz/gzip
printf 'a,b\n1,2\n' | gzip -n >>packed_fuzz/gzip
cp packed_fuzz/gzip packed_fuzz/members
printf 'tail\n' | gzip -n1 >>packed_fuzz/members
printf '\0\0' >>packed_fuzz/members
printf '\001\006\000\020\000some text, some text, some more text' >packed_fuzz/cut
printf '\001\001\000\024\001some text, some text, some more text' >packed_fuzz/flip
printf '\002\000\000\010\002\000\000\000\001\000\000\000\003abc' >packed_fuzz/idx
printf '\002\000\000\013\001\000\000\000\001\377\376' >packed_fuzz/idx16
printf '\003ltrain-vocabulary 1 map 1 0 2\tv\n2\ta\\tb\n1\tc\n' >packed_fuzz/map
printf '\003ltrain-vocabulary 1 hash 100 7 0\tv\n' >packed_fuzz/hash
