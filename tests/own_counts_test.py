#!/usr/bin/env python3
"""What a probe says that it can count (OwnCounts of its ProbeKind) is what its programs, and its own code, count."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FLAGS = {"entries": "entered", "stale": "stale", "nested": "nested", "unmatched": "unmatched", "deaths": "deaths"}


def with_includes(path, seen):
    """The text of a BPF program's file and of all that it includes."""
    if path in seen or not path.exists():
        return ""
    seen.add(path)
    text = path.read_text()
    return text + "".join(with_includes(ROOT / name, seen) for name in re.findall(r'#include "(bpf/[^"]+)"', text))


def counted(name, folder):
    """The names of the counts, and of the reasons for lost calls."""
    own = "".join(path.read_text() for path in sorted(folder.rglob("*.cpp")))
    programs = "".join(with_includes(path, set()) for path in (ROOT / f"bpf/{name}.bpf.c", ROOT / f"bpf/{name}/{name}.bpf.c"))
    found = re.findall(r"\bACCOUNT\((\w+)(?:\[(?:LOST|DEATH)_(\w+)\])?", programs)
    found += re.findall(r"\baccount\.(\w+)(?:\[LOST_(\w+)\])? \+=", own)
    reasons = {reason for what, reason in found if what == "lost"}
    # FollowedProcesses counts for all of them.
    reasons |= {"process_table"} if re.search(r": public HostProbe<|: HostProbe\(", own) else set()
    counts = {what for what, _ in found}
    forgets = re.search(r"count_uncounted\(\) const override \{\s+return \{[^}]*forgotten\(\)", own)
    return {flag for flag, field in FLAGS.items() if field in counts} | ({"forgotten"} if forgets else set()), reasons


def said(text):
    body = re.search(r"\.counts = \{(.*?)\},\n", text, re.DOTALL)
    if not body:
        return set(), set()
    return (set(re.findall(r"\.(\w+) = true", body[1])) - {"in_flight"}, set(re.findall(r"LOST_(\w+)", body[1])))


wrong, probes = [], 0
for file in sorted((ROOT / "exporter/probes").glob("*/probe.cpp")):
    kind = re.search(r"constinit const ProbeKind \w+_kind = \{.*?\n\};", file.read_text(), re.DOTALL)
    if not kind:
        continue
    probes += 1
    probe = file.parent.name
    for what, ours, code in zip(("counts", "reasons"), said(kind[0]), counted(probe, file.parent)):
        if ours != code:
            wrong.append(f"{file.relative_to(ROOT)}: of its {what}, only it has {sorted(ours - code)}, "
                         f"only the code has {sorted(code - ours)}")
print("\n".join(wrong) or f"{probes} probes say what they count")
assert probes > 15, "not the exporter's sources"
sys.exit(bool(wrong))
