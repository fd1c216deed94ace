#!/usr/bin/env python3
"""The man page has the flags and commands that the program has, in the section of their command, and no others. And
--help says first what has misled readers.

    man_page_test.py PROGRAM PAGE
"""
import re
import subprocess
import sys

# What is the program's own is in OPTIONS; commands that take some of these too need not repeat them.
def heading_of(command):
    return "SS Options of " + " ".join(command) if command else "SH OPTIONS"


def help_of(program, command):
    return subprocess.run([program, *command, "--help"], check=True, capture_output=True, text=True).stdout


def flags_of(text):
    return set(re.findall(r"^  (?:-\w,)?(--[a-z][a-z.-]*)", text, re.M)) - {"--help"}


def commands_of(text):
    # A former name of the command, behind a comma, needs no description.
    return re.findall(r"^  ([a-z][a-z-]*)(?:, [a-z-]+)* ", text.partition("\nSubcommands:\n")[2], re.M)


def commands_below(program, command=()):
    for name in commands_of(help_of(program, command)):
        yield command + (name,)
        yield from commands_below(program, command + (name,))


def sections_of(page):
    """The flags that each heading's section begins a paragraph with."""
    sections, heading = {}, None
    for line in page.replace("\\-", "-").splitlines():
        if line.startswith((".SH ", ".SS ")):
            heading = line[1:]
            sections[heading] = set()
        elif re.match(r"\.(B|BI|BR) .*--", line):
            sections[heading] |= set(re.findall(r"--[a-z][a-z.-]*", line))
    return sections


# Parts of the help of commands, without its line breaks.
SAID = {
    ("profile",): "heap (host memory, not the GPU's: ",
    ("top",): "Keys: p and f switch, ? is help, q quits.",
    ("why",): "Only programs whose name or script matches this glob.",
}


def unsaid(program):
    for command, sentence in SAID.items():
        if sentence not in " ".join(help_of(program, command).split()):
            yield f"the help of {' '.join(command)} does not say: {sentence}"


def problems(program, page):
    sections = sections_of(page)
    commands = list(commands_below(program))
    for command in [()] + commands:
        text = help_of(program, command)
        if re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text):
            yield f"the help of {' '.join(command)} has control characters"
        has = flags_of(text)
        heading = heading_of(command)
        says = sections.get(heading, set()) - {"--help"}
        name = " ".join(("gpusnoop_exporter",) + command)
        for flag in sorted(has - says):
            yield f"{name}: {flag} is not in the section {heading} of the man page"
        for flag in sorted(says - has):
            yield f"the man page has {flag} in the section {heading}, {name} has not"
    described = re.findall(r"^\.TP\n\.B ([a-z][a-z -]*)$", page.partition(".SH COMMANDS")[2].partition(".SH ")[0], re.M)
    # A command that only has others below it is described with them.
    leaves = {" ".join(c) for c in commands if not any(o[: len(c)] == c and o != c for o in commands)}
    for command in sorted(leaves ^ set(described)):
        yield f"the command {command} is in only one of the program and the man page"


def main():
    program, path = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        page = file.read()
    found = list(problems(program, page))
    # What would find nothing in any page proves nothing.
    for change in (page.replace(".BI \\-\\-pid", ".BI \\-\\-ppid"), page.replace(".B \\-\\-once\n", ""),
                   page.replace(".B unpin\n", ".B umpin\n"), page + ".SS Options of doctor\n.TP\n.B \\-\\-never\n"):
        if len(list(problems(program, change))) <= len(found):
            found.append("a mistake put into the man page is not found")
    found += unsaid(program)
    print("\n".join(found) or "the man page agrees with --help")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
