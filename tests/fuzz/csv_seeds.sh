#!/bin/sh
# Writes the seed inputs of tests/fuzz/csv_fuzz.c into tests/fuzz/csv_fuzz: four bytes of options, then a file.
set -eu
cd "$(dirname "$0")"
mkdir -p csv_fuzz
seed() { printf "$2" >"csv_fuzz/$1"; } # name, printf format
seed plain '\000\000\020\001a,b,c\n1,2,3\nx,y,z\n'
seed quotes '\000\000\001\002"a","b ""q""","c\nd"\r\n"","x",5" disk\r\n'
seed tabs '\001\000\000\001\t\t\n1\t\t3'
seed header '\004\160\020\000id,price,name\n1,2.5e-3,x\n-7,1e400,y\n'
seed trim '\010\003\000\000 a , "b" ,?\n1, NA ,-1\n\n'
seed comment '\000\001\030\001# "x,y\n1,2\n#,"\n3,4\n'
seed skip '\024\160\000\002a,b\n1\n2,3,4\n\n5,x\n6,inf\n'
seed numbers '\000\160\000\00018446744073709551616,1.7976931348623157e308,0.1\n-0,+5,.5\n'
seed bom '\004\000\000\000\357\273\277a,b\n1,2\r'
seed blank '\000\000\000\001a\n\nb\n\n\n'
seed unterminated '\000\000\000\001a,b\n1,"x\n2,y\n'
seed long '\000\010\000\000aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa,b\n'
{
  printf '\020\001\000\001a,b\n1,2\n'
  i=0
  while [ "$i" -lt 100 ]; do echo && i=$((i + 1)); done
  printf '3,4\n#,\n5,6\n'
} >csv_fuzz/blank_run
printf '\000\000\000\001' >csv_fuzz/gzip
printf 'a,b\n1,2\n' | gzip -n >>csv_fuzz/gzip
