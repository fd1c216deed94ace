#!/usr/bin/env python3
"""Runs a program as a unit limits it: with so many tasks (TasksMax=, of all that the user runs), and under its filter of system
calls, as systemd would: SystemCallFilter= lines in their order, groups as systemd-analyze knows them, and EPERM for the rest.

    with_unit_limits.py UNIT COMMAND [ARGUMENT...]
"""
import ctypes
import os
import re
import resource
import subprocess
import sys

ALLOW = 0x7FFF0000
EPERM = 0x00050000 | 1


def members(group):
    text = subprocess.run(["systemd-analyze", "--no-pager", "syscall-filter", group], check=True, capture_output=True,
                          text=True).stdout
    for line in text.splitlines()[1:]:
        name = line.strip()
        if name.startswith("@"):
            yield from members(name)
        elif name and not name.startswith("#"):
            yield name


def allowed(text):
    lines = re.findall(r"^SystemCallFilter=(~?)(.*)$", text, re.M)
    calls = set(members("@default"))
    for denies, words in lines:
        for word in words.split():
            these = set(members(word)) if word.startswith("@") else {word}
            calls = calls - these if denies else calls | these
    return calls


def main():
    unit, command = sys.argv[1], sys.argv[2:]
    with open(unit, encoding="utf-8") as file:
        text = file.read()
    tasks = int(re.search(r"^TasksMax=(\d+)$", text, re.M).group(1))
    resource.setrlimit(resource.RLIMIT_NPROC, (tasks, tasks))
    calls = allowed(text)
    if not lines_make_sense(calls):
        sys.exit(f"with_unit_limits: the filter of {unit} is not as it should be")
    seccomp = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    seccomp.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(seccomp.seccomp_init(EPERM))
    for name in sorted(calls):
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        if number >= 0 and seccomp.seccomp_rule_add(context, ALLOW, number, 0) != 0:
            sys.exit(f"with_unit_limits: no rule for {name}")
    if seccomp.seccomp_load(context) != 0:
        sys.exit("with_unit_limits: the filter cannot be loaded")
    os.execvp(command[0], command)


def lines_make_sense(calls):
    return {"bpf", "perf_event_open", "read"} <= calls and not {"mount", "reboot", "init_module", "setuid"} & calls


if __name__ == "__main__":
    main()
