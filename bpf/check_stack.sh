#!/bin/sh
# check_stack.sh OBJDUMP OBJECT: fails when a program of the object uses more than 48 bytes of BPF
# stack. The verifier rounds up to 16, and gives a stack of 64 a private one (see lib/guard.bpf.h).
# All functions are inlined, so a section is a whole call chain. A call to another BPF function
# would escape this sum and is refused.
set -eu
"$1" -d --no-show-raw-insn "$2" | awk -v limit=48 -v object="$(basename "$2")" '
    function deeper(bytes) { if (bytes > depth) depth = bytes }
    function report() {
        if (name != "" && depth > limit) {
            printf "%s: program %s uses %d bytes of stack; the limit is %d\n", object, name, depth, limit
            bad = 1
        }
    }
    function number(text) { return text ~ /^0x/ ? hex(substr(text, 3)) : text + 0 }
    function hex(text,   i, n) {
        n = 0
        for (i = 1; i <= length(text); i++) n = n * 16 + index("0123456789abcdef", substr(text, i, 1)) - 1
        return n
    }
    /^Disassembly of section / { subprograms = $4 == ".text:" }
    /^[0-9a-f]+ <.*>:$/ && subprograms {
        printf "%s: function %s is not inlined, so its stack escapes this check\n", object, $2
        bad = 1
    }
    /^[0-9a-f]+ <.*>:$/ { report(); name = $2; gsub(/[<>:]/, "", name); depth = 0; delete base; next }
    # a load or store relative to the frame pointer
    match($0, /\(r10 - 0x[0-9a-f]+\)/) { deeper(number(substr($0, RSTART + 7, RLENGTH - 8))) }
    # a pointer into the frame: rN = r10, then rN += -K
    match($0, /r[0-9] = r10$/) { pointer = substr($0, RSTART, 2); base[pointer] = 1; next }
    match($0, /[rw][0-9] = /) { delete base["r" substr($0, RSTART + 1, 1)]; next }
    match($0, /r[0-9] \+= -0x[0-9a-f]+/) {
        split(substr($0, RSTART, RLENGTH), part, " ")
        if (part[1] in base) deeper(number(substr(part[3], 2)))
    }
    END { report(); exit bad }
'
