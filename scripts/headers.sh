#!/bin/bash
# Checks that each source of exporter/ includes the headers that it uses: parses it by itself, for its errors only.
#
#   scripts/headers.sh plain   finds every missing header: 2 seconds of CPU time a file
#   scripts/headers.sh dev     with the precompiled headers of the preset dev, which hides a missing header of the
#                              standard library: a third of the time
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-plain}
cmake --preset "$preset"
targets=(bpf_skeletons)
[ "$preset" = plain ] || targets+=(exporter/CMakeFiles/exporter_{core,hot}.dir/cmake_pch.hxx.gch)
cmake --build --preset "$preset" --parallel "$(scripts/jobs.sh)" --target "${targets[@]}"
cd "build/$preset"
python3 - <<'END' | xargs -0 -n 1 -P "$(nproc)" sh -ec
import json

for source in json.load(open("compile_commands.json")):
    if "/exporter/" in source["file"] and source["file"].endswith(".cpp"):
        print(source["command"].split(" -o ")[0], "-fsyntax-only", source["file"], end="\0")
END
