#!/bin/bash
# What the program needs of a machine: a C library not newer than 2.34, and no other library.
#
#   [OBJDUMP=...] imports_test.sh PROGRAM: with an objdump that reads programs of that machine
set -euo pipefail
objdump=${OBJDUMP:-objdump}
needed=$("$objdump" -p "$1" | sed -n 's/^ *NEEDED *//p' | sort | tr '\n' ' ')
others=$(tr ' ' '\n' <<<"$needed" | grep -Ev '^(libc\.so\.6|libm\.so\.6|ld-linux-(x86-64|aarch64)\.so\.[0-9]|)$' || true)
if [ -n "$others" ]; then
    echo "imports_test: it needs $others" >&2
    exit 1
fi
if readelf -S "$1" | grep -q '\.symtab'; then
    echo "imports_test: it is not stripped" >&2
    exit 1
fi
# Programs that are built on Debian 13 need what its C library calls strtol, and so on.
here=$(getconf GNU_LIBC_VERSION)
if [ "$(printf '%s\n' "glibc 2.37" "$here" | sort -V | head -n 1)" = "glibc 2.37" ]; then
    echo "imports_test: $here is here, so this program is for this and later ones; releases are built on Debian 12"
    exit 4
fi
newer=$("$objdump" -T "$1" | sed -n 's/.*(\?GLIBC_\([0-9.]*\))\? *\([^ ]*\)$/\1 \2/p' | while read -r version name; do
    [ "$(printf '%s\n' 2.34 "$version" | sort -V | tail -n 1)" = 2.34 ] || echo "$name of $version"
done)
if [ -n "$newer" ]; then
    printf 'imports_test: it needs a newer C library than 2.34:\n%s\n' "$newer" >&2
    exit 1
fi
echo "it needs $needed, the newest symbol of $("$objdump" -p "$1" | grep -o 'GLIBC_[0-9.]*' | sort -V | tail -n 1)"
