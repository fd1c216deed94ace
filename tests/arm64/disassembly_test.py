#!/usr/bin/env python3
"""Compares the exits that the exporter finds in a library for arm64 with those in what a disassembler makes of it: of each
function that the library exports, every return and every jump out of it, and no other instruction.

    disassembly_test.py OBJDUMP LIBRARY EXITS_OF...

OBJDUMP is LLVM's. EXITS_OF is the command of exits_of.cpp, maybe with an emulator before it.
"""
import re
import subprocess
import sys

CONDITIONAL = re.compile(r"(b\.\w+|bc\.\w+|cbn?z|tbn?z)$")
INDIRECT = ("br", "braa", "brab", "braaz", "brabz")
RETURNS = ("ret", "retaa", "retab")
ENDS = (*RETURNS, *INDIRECT, "b", "bl", "blr", "blraa", "blrab", "blraaz", "blrabz", "brk", "hlt")
NOT_KNOWN = "there is no known instruction at byte "
RUNS_ON = "the function runs on past its end"


def output_of(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{command[0]}: exit status {done.returncode}")
    return done.stdout.split("\n")


def functions_of(objdump, library):
    """Name and size by start, of what has code and a size. A name that has several versions is several functions."""
    found = {}
    for line in output_of(objdump, "-T", library):
        match = re.match(r"([0-9a-f]+) .{6}F (\S+)\s+([0-9a-f]+)\s+(.*)", line)
        if match and match[2] == ".text" and int(match[3], 16):
            found[int(match[1], 16)] = match[4].split()[-1], int(match[3], 16)
    return found


def instructions_of(objdump, library):
    """Mnemonic and operands by address."""
    found = {}
    for line in output_of(objdump, "-d", "--no-show-raw-insn", library):
        match = re.match(r"\s*([0-9a-f]+):\s+(\S+)\s*(.*)", line)
        if match:
            found[int(match[1], 16)] = match[2], match[3]
    return found


def target_of(operands):
    return int(re.search(r"0x([0-9a-f]+)(?: <|$)", operands)[1], 16)


def expected_exits(instructions, start, size):
    """Kind by address; of an indirect jump None, as only the code around it shows what it is."""
    exits = {}
    for at in range(start, start + size, 4):
        mnemonic, operands = instructions[at]
        if mnemonic in RETURNS:
            exits[at] = "return"
        elif mnemonic in INDIRECT:
            exits[at] = None
        elif mnemonic == "b" or CONDITIONAL.match(mnemonic):
            if not start <= target_of(operands) < start + size:
                exits[at] = "tail_call" if mnemonic == "b" else "conditional_tail_call"
    return exits


def is_switch(instructions, start, at):
    """Does the address of the jump come from an addition? The last instruction that sets the register says so."""
    register = instructions[at][1].split(",")[0].strip()
    for before in range(at - 4, start - 4, -4):
        mnemonic, operands = instructions[before]
        if operands.split(",")[0].strip() == register and mnemonic not in ("cmp", "str", "cbz", "cbnz"):
            return mnemonic == "add"
    return False


def has_reason(instructions, start, size, message):
    """Is what the exporter says of a function that it does not decode true?"""
    if message.startswith(NOT_KNOWN):
        mnemonic = instructions[start + int(message[len(NOT_KNOWN):].split()[0])][0]
        return mnemonic in ("<unknown>", "udf", ".word", "eret", "drps")
    if message == RUNS_ON:
        last = [mnemonic for mnemonic, _ in (instructions[at] for at in range(start, start + size, 4)) if mnemonic != "nop"][-1]
        return last not in ENDS
    return False


def main(objdump, library, *exits_of):
    functions = functions_of(objdump, library)
    instructions = instructions_of(objdump, library)
    found, refused = {}, {}
    for line in output_of(*exits_of, "--all", library, *{name for name, _ in functions.values()}):
        if line.startswith("refused "):
            _, name, start, message = line.split(" ", 3)
            refused[int(start, 16)] = message
        elif line:
            name, start, at, kind = line.split()
            found.setdefault(int(start, 16), {})[int(at, 16)] = kind
    wrong, exits, without = [], 0, 0
    for start, (name, size) in functions.items():
        if start in refused:
            if not has_reason(instructions, start, size, refused[start]):
                wrong.append(f"{name}: {refused[start]}")
            continue
        expected, seen = expected_exits(instructions, start, size), found.get(start, {})
        if not seen and any(other == name for at, (other, _) in functions.items() if at != start and at in found):
            continue  # of another version than the one that the name stands for
        exits += len(seen)
        without += not seen
        for at in sorted(expected.keys() | seen.keys()):
            is_right = expected.get(at, "none") == seen.get(at)
            if at in expected and expected[at] is None:
                is_right = (seen.get(at) in ("tail_call", "maybe_tail_call")
                            or at not in seen and is_switch(instructions, start, at))
            if not is_right:
                wrong.append(f"{name} at {at:#x}: {' '.join(instructions[at])}: found {seen.get(at)}")
    print("\n".join(wrong[:40]))
    print(f"{len(functions)} functions with {exits} exits, {without} without, {len(refused)} refused with a reason, {len(wrong)} wrong")
    sys.exit(bool(wrong) or len(functions) < 1000)


main(*sys.argv[1:])
