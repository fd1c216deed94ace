#!/usr/bin/env python3
"""Runs functions.cpp, built for arm64, in qemu-user with breakpoints where the exporter would put probes: at the entry of
each function and at each exit that it finds. An exit ends the call that was entered with the same stack pointer. Each call
must be seen to begin, and each that returns to end, as often as the program itself counts.

    exits_test.py EXITS_OF PROGRAM QEMU GDB
"""
import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FUNCTIONS = ("plain early tail maybe_tail indirect choose recurse nothing floating strings large_frame throws catches "
             "many_arguments variable_frame loop").split()
# throws() leaves 15 of its 60 calls by an exception: they have no end.
WITHOUT_END = {"throws": 15}

# In gdb, which has its own Python.
SCRIPT = """
import gdb, json
plan = json.load(open({plan!r}))
entries, ends = {{}}, {{}}
open_calls = []

def stack_pointer():
    return int(gdb.parse_and_eval("$sp"))

class At(gdb.Breakpoint):
    def __init__(self, address, names, exits):
        super().__init__("*%#x" % address, internal=True)
        self.silent, self.names, self.exits = True, names, exits
    def stop(self):
        sp = stack_pointer()
        for name in self.exits:
            for i in range(len(open_calls) - 1, -1, -1):
                if open_calls[i] == (name, sp):
                    del open_calls[i:]
                    ends[name] = ends.get(name, 0) + 1
                    break
        for name in self.names:
            entries[name] = entries.get(name, 0) + 1
            open_calls.append((name, sp))
        return False

at = {{}}
for name, entry, exit, kind in plan:
    at.setdefault(entry, (set(), set()))[0].add(name)
    at.setdefault(exit, (set(), set()))[1].add(name)
gdb.execute("set pagination off")
gdb.execute("set confirm off")
gdb.execute("target remote localhost:{port}")
for address, (names, exits) in at.items():
    At(address, names, exits)
gdb.execute("continue")
json.dump([entries, ends], open({result!r}, "w"))
gdb.execute("quit")
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def main(exits_of, program, qemu, gdb):
    lines = subprocess.run([exits_of, program, *FUNCTIONS], check=True, capture_output=True, text=True).stdout.split("\n")
    plan = [(name, int(entry, 16), int(exit, 16), kind) for name, entry, exit, kind in (l.split() for l in lines if l)]
    missing = set(FUNCTIONS) - {name for name, *_ in plan}
    assert not missing, f"no exits of {missing}"
    with tempfile.TemporaryDirectory() as directory:
        paths = {name: str(Path(directory) / name) for name in ("plan", "result", "script.py")}
        Path(paths["plan"]).write_text(json.dumps(plan))
        port = free_port()
        Path(paths["script.py"]).write_text(SCRIPT.format(plan=paths["plan"], result=paths["result"], port=port))
        with subprocess.Popen([qemu, "-g", str(port), program], stdout=subprocess.PIPE, text=True) as emulated:
            time.sleep(0.5)
            debugger = subprocess.run([gdb, "-batch", "-nx", "-x", paths["script.py"], program], capture_output=True, text=True,
                                      timeout=300)
            if not Path(paths["result"]).exists():
                emulated.kill()
                sys.exit(f"gdb: {debugger.stdout[-2000:]}{debugger.stderr[-2000:]}")
            output = emulated.communicate(timeout=60)[0]
        entries, ends = json.loads(Path(paths["result"]).read_text())
    wrong = []
    for line in output.split("\n"):
        if line:
            name, calls = line.split()
            expected = int(calls), int(calls) - WITHOUT_END.get(name, 0)
            seen = entries.get(name, 0), ends.get(name, 0)
            if seen != expected:
                wrong.append(f"{name}: {seen[0]} begun and {seen[1]} ended of {expected[0]} and {expected[1]}")
    print("\n".join(wrong) or f"{sum(entries.values())} calls, each with its end, through {len(plan)} exits")
    sys.exit(bool(wrong))


main(*sys.argv[1:])
