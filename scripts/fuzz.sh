#!/bin/bash
# Builds the fuzz targets and runs each of them, one after the other.
#
#   scripts/fuzz.sh [SECONDS [TARGET...]]   60 seconds each by default
#
# What they find is left in build/fuzz/findings. The seeds are tests/fuzz/corpus/TARGET; what is found to
# be of interest on the way is kept in build/fuzz/corpus/TARGET, for the next run.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
shift || true
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    for source in tests/fuzz/*_fuzz.cpp; do
        targets+=("$(basename "$source" .cpp)")
    done
fi

scripts/setup.sh --tests
cmake --preset fuzz
cmake --build --preset fuzz --parallel "$(nproc)" --target "${targets[@]}"
mkdir -p build/fuzz/findings
for target in "${targets[@]}"; do
    name=${target%_fuzz}
    kept=build/fuzz/corpus/$name
    mkdir -p "$kept"
    options=(-max_len=65536 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1
        -artifact_prefix="build/fuzz/findings/$name-" -max_total_time="$seconds")
    [ ! -f "tests/fuzz/$name.dict" ] || options+=(-dict="tests/fuzz/$name.dict")
    printf '\n== %s\n' "$target"
    "build/fuzz/tests/fuzz/$target" "${options[@]}" "$kept" "tests/fuzz/corpus/$name"
done
