#!/bin/bash
# Checks that each source of exporter/ includes the headers that it uses: parses it by itself, for its errors only.
#
#   scripts/headers.sh plain   finds every missing header: 2 seconds of CPU time a file
#   scripts/headers.sh asan    with the precompiled headers of the preset asan, which CI builds in any case: they hide
#                              a missing header of the standard library. A quarter of the time
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-plain}
cmake --preset "$preset" "${@:2}"
targets=(bpf_skeletons)
[ "$preset" = plain ] || targets+=(exporter/CMakeFiles/exporter_{core,hot}.dir/cmake_pch.hxx.pch)
cmake --build --preset "$preset" --parallel "$(scripts/jobs.sh)" --target "${targets[@]}"
cd "build/$preset"
python3 - <<'END' | xargs -0 -n 1 -P "$(nproc)" sh -ec
import json
import re

for unit in json.load(open("compile_commands.json")):
    if "/exporter/" not in unit["file"] or not unit["file"].endswith((".cpp", "_cxx.cxx")):
        continue
    # A unity build has one unit for many sources.
    sources = [unit["file"]]
    if unit["file"].endswith("_cxx.cxx"):
        sources = re.findall(r'^#include "(.+[.]cpp)"$', open(unit["file"]).read(), re.M)
    for source in sources:
        print(unit["command"].split(" -o ")[0], "-fsyntax-only", source, end="\0")
END
