#!/usr/bin/env python3
"""A folder of exporter/ includes only from itself and from folders before it. CONTRIBUTING.md says what is in each."""
import re
import sys
from pathlib import Path

ROOMS = "base system ebpf processes symbols discovery series config sinks trace probes metrics http status cli main".split()
# Folders of a room, likewise. A probe includes from no other probe.
INSIDE = {"symbols": "names elf exits demangle stacks".split(), "discovery": ["gpus", "main"]}
# It lists the probes.
REGISTRY = "probes/frame/registry.cpp"


def place(path):
    """("probes", "cuda") of probes/cuda/memory/reconcile.h; "main" is where a file is in no folder."""
    return (*path.split("/")[:-1], "main", "main")[:2]


def allowed(source, included):
    (room, folder), (other_room, other_folder) = place(source), place(included)
    if room != other_room:
        return ROOMS.index(other_room) < ROOMS.index(room)
    if room == "probes":
        return other_folder in (folder, "frame") or source == REGISTRY
    order = INSIDE.get(room)
    return order is None or order.index(other_folder) <= order.index(folder)


root = Path(__file__).resolve().parent.parent / "exporter"
sources = sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if p.suffix in (".h", ".cpp"))
wrong = [f"exporter/{source} includes exporter/{included}, of a later folder"
         for source in sources
         for included in re.findall(r'^#include "exporter/(.+)"', (root / source).read_text(), re.MULTILINE)
         if not allowed(source, included)]
print("\n".join(wrong) or f"{len(sources)} files include only from earlier folders")
assert len(sources) > 400 and len({place(s)[0] for s in sources}) == len(ROOMS), "not the exporter's sources"
sys.exit(bool(wrong))
