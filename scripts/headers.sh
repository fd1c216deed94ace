#!/bin/bash
# Checks that each source of exporter/ includes what it uses: compiles it without precompiled headers (the preset plain),
# for its errors only.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset plain
cmake --build --preset plain --parallel "$(nproc)" --target bpf_skeletons
cd build/plain
python3 - <<'END' | xargs -0 -n 1 -P "$(nproc)" sh -ec
import json

for source in json.load(open("compile_commands.json")):
    if "/exporter/" in source["file"] and source["file"].endswith(".cpp"):
        print(source["command"].split(" -o ")[0], "-fsyntax-only", source["file"], end="\0")
END
