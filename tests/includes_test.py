#!/usr/bin/env python3
"""A folder of exporter/ includes only from itself and from folders before it, a probe's folder of bpf/ from itself and
from lib/. CONTRIBUTING.md says what is in each."""
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


# Programs that read what those of another probe keep of each thread.
ACROSS = {("cuda", "host_time"), ("dying", "cuda"), ("host_time", "cuda"), ("in_flight", "cuda"),
          ("in_flight", "functions"), ("profile", "cuda")}


def allowed_in_bpf(source, included):
    def room(path):
        return path.split("/")[0] if "/" in path else path.split(".")[0]
    return room(included) in (room(source), "lib") or (room(source), room(included)) in ACROSS


def wrong_includes(root, is_allowed):
    sources = sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if p.suffix in (".h", ".cpp", ".c"))
    pattern = re.compile(rf'^#include "{root.name}/(.+)"', re.MULTILINE)
    return sources, [f"{root.name}/{source} includes {root.name}/{included}, of a later folder or another probe"
                     for source in sources for included in pattern.findall((root / source).read_text())
                     if not is_allowed(source, included)]


repository = Path(__file__).resolve().parent.parent
exporter, wrong = wrong_includes(repository / "exporter", allowed)
programs, wrong_in_bpf = wrong_includes(repository / "bpf", allowed_in_bpf)
wrong += wrong_in_bpf
print("\n".join(wrong) or f"{len(exporter) + len(programs)} files include only from earlier folders")
assert len(exporter) > 400 and len({place(s)[0] for s in exporter}) == len(ROOMS), "not the exporter's sources"
assert len(programs) > 80, "not the BPF programs"
sys.exit(bool(wrong))
