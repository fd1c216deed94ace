#!/usr/bin/env python3
"""With which instructions the functions of real libraries begin: what a probe costs depends on it.

    prologues.py LIBRARY...

For each file: its exported functions, by the first instruction, and what comes after endbr64. The kernel
emulates push, nop, jmp and call; the others run as single steps, which cost several times as much.
"""

import collections
import struct
import sys

LIMIT = 1 << 20  # of symbols


def instruction(code):
    """The name of the first instruction, of those with which functions begin."""
    if code.startswith(b"\xf3\x0f\x1e\xfa"):
        return "endbr64"
    if code[:1] == b"\x0f" and code[1:2] == b"\x1f":
        return "nop"
    at = 0
    rex = 0
    if 0x40 <= code[0] <= 0x4f:
        rex, at = code[0], 1
    op = code[at]
    following = code[at + 1] if len(code) > at + 1 else 0
    if 0x50 <= op <= 0x57:
        return "push"
    if op in (0x88, 0x89, 0x8a, 0x8b, 0xc6, 0xc7) or 0xb8 <= op <= 0xbf:
        return "mov"
    if op in (0x81, 0x83):
        return {0: "add", 5: "sub", 7: "cmp", 4: "and"}.get(following >> 3 & 7, "other")
    names = {0x8d: "lea", 0x84: "test", 0x85: "test", 0x31: "xor", 0x33: "xor", 0xe9: "jmp", 0xeb: "jmp", 0xc3: "ret",
             0x90: "nop", 0xe8: "call", 0x63: "movsxd", 0x38: "cmp", 0x39: "cmp", 0x3b: "cmp", 0x80: "cmp", 0x3d: "cmp"}
    if op == 0xff:
        return {4: "jmp", 2: "call", 6: "push"}.get(following >> 3 & 7, "other")
    if op == 0xf6 or op == 0xf7:
        return "test"
    return names.get(op, "other") if not (rex and op == 0x90) else "nop"


def functions(file):
    """(name, first 16 bytes) of each exported function, one for each address."""
    data = memoryview(open(file, "rb").read())
    section_at, = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, section_at + i * size) for i in range(count)]
    program_at, = struct.unpack_from("<Q", data, 32)
    program_size, programs = struct.unpack_from("<HH", data, 54)
    loads = [struct.unpack_from("<IIQQQQQQ", data, program_at + i * program_size) for i in range(programs)]
    seen = set()
    for _, kind, _, _, offset, length, link, _, _, entry in sections:
        if kind != 11:  # SHT_DYNSYM
            continue
        names = sections[link][4]
        for at in range(offset, offset + min(length, LIMIT * entry), entry):
            name, info, _, section, value, _ = struct.unpack_from("<IBBHQQ", data, at)
            if info & 15 != 2 or section == 0 or value in seen:
                continue
            seen.add(value)
            for kind_of, _, file_at, address, _, in_file, _, _ in loads:
                if kind_of == 1 and address <= value < address + in_file:
                    begin = file_at + value - address
                    text = bytes(data[names + name:names + name + 128]).split(b"\0")[0]
                    yield text.decode(errors="replace"), bytes(data[begin:begin + 16])


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for file in sys.argv[1:]:
        first, after, examples = collections.Counter(), collections.Counter(), {}
        for name, code in functions(file):
            begins = instruction(code)
            first[begins] += 1
            examples.setdefault(begins, f"{name} {code[:8].hex()}")
            if begins == "endbr64":
                after[instruction(code[4:])] += 1
        total = sum(first.values())
        print(f"{file}: {total} functions; " + ", ".join(f"{name} {count}" for name, count in first.most_common()))
        if after:
            print("    after endbr64: " + ", ".join(f"{name} {count}" for name, count in after.most_common()))
        print("    such as " + "; ".join(f"{examples[name]}" for name, _ in first.most_common(4)))


if __name__ == "__main__":
    sys.exit(main())
