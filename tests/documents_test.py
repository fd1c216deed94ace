#!/usr/bin/env python3
"""Each file of this repository that a document or a comment names exists, and so does each heading that a link leads to,
and each test that docs/reliability.md names."""
import fnmatch
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOP = "bench|bpf|cmake|dashboards|docker|docs|exporter|scripts|tests"
ENDINGS = "c|cmake|cpp|h|json|md|py|sh|svg|txt|yaml"
# A path from the top, perhaps with {a,b}, * or <name>.
NAMED = re.compile(rf"(?<![\w./-])(?:{TOP})/[\w./*{{}},<>-]*\.(?:{ENDINGS})\b")
IN_BACKQUOTES = re.compile(rf"`((?:{TOP})/[\w./*{{}},<>-]*)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def sources():
    """What git has or would add; of an unpacked tarball, all."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                                check=True, capture_output=True, text=True).stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):
        listed = [str(path.relative_to(ROOT)) for top in TOP.split("|") for path in (ROOT / top).rglob("*")]
        listed += [path.name for path in ROOT.iterdir()]
    return [name for name in listed if name and (ROOT / name).is_file()]


FILES = sources()
EXISTING = {*FILES, *(str(folder) for name in FILES for folder in Path(name).parents)}


def spelled_out(path):
    """The paths of a path with {a,b}."""
    found = re.fullmatch(r"(.*)\{([^}]*)\}(.*)", path)
    return [found[1] + one + found[3] for one in found[2].split(",")] if found else [path]


def is_there(path):
    pattern = re.sub(r"<[^>]*>|NAME", "*", path.rstrip("/"))
    return all(fnmatch.filter(EXISTING, one) if "*" in one else one in EXISTING for one in spelled_out(pattern))


def anchors(text):
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#+ +(.*)", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        yield re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def wrong_links(name, text):
    for target in LINK.findall(text):
        path, _, anchor = target.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        there = os.path.normpath(Path(name).parent / path) if path else name
        if there not in EXISTING:
            yield f"{name} links to {target}, which there is not"
        elif anchor and there.endswith(".md") and anchor not in anchors((ROOT / there).read_text()):
            yield f"{name} links to the heading {target}, which there is not"


def wrong(name):
    try:
        text = (ROOT / name).read_text()
    except UnicodeDecodeError:
        return
    named = set(NAMED.findall(re.sub(r"^ *#include .*", "", text, flags=re.MULTILINE)))
    if name.endswith(".md"):
        named |= set(IN_BACKQUOTES.findall(text))
        yield from wrong_links(name, text)
    for path in sorted(named):
        if not is_there(path):
            yield f"{name} names {path}, which there is not"


def literals(text):
    """The strings of a source, those in several pieces joined."""
    return re.sub(r'"\s*\n\s*"', "", text)


def wrong_tests():
    """The tests in the table of faults, by their names in quotes or by their files."""
    tests = [name for name in FILES if name.startswith("tests/") and name.endswith((".cpp", ".py"))]
    text = "".join(literals((ROOT / name).read_text()) for name in tests)
    faults = (ROOT / "docs/reliability.md").read_text().partition("## Which test makes which fault\n")[2]
    cells = re.findall(r"^\|.*\|(.*)\|$", faults, re.MULTILINE)
    assert len(cells) > 100, "the table of faults is not found"
    for cell in cells:
        names = re.findall(r'"([^"]+)"', cell)
        files = re.findall(r"\b[\w/]+_test\b", re.sub(r'"[^"]*"', "", cell))
        yield from (f"docs/reliability.md names the test {name!r}, which there is not" for name in names
                    if f'"{name}"' not in text)
        yield from (f"docs/reliability.md names {name}, which is no file of tests" for name in files
                    if not any(f"/{test}".endswith((f"/{name}.cpp", f"/{name}.py")) for test in tests))


def main():
    # Scripts make up paths, and the modules of the guests name files of the kernel's source.
    read = [name for name in FILES if name.endswith((".md", ".h", ".c", ".cpp")) and not name.startswith("tests/vm/")]
    problems = [problem for name in read for problem in wrong(name)] + list(wrong_tests())
    print("\n".join(problems) or f"{len(read)} files name only files that exist")
    assert len(read) > 1000, "not the repository's files"
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
