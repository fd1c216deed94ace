#!/bin/bash
# Builds the fuzz targets and runs each of them, one after the other.
#
#   scripts/fuzz.sh [SECONDS [TARGET...]]   60 seconds each by default
#
# What they find is left in build/fuzz/findings. The seeds are tests/fuzz/corpus/TARGET, for elf_fuzz
# tests/fuzz/elf_seed.c; what is found to be of interest on the way is kept in build/fuzz/corpus/TARGET,
# for the next run.
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
cmake --build --preset fuzz --parallel "$(scripts/jobs.sh)" --target "${targets[@]}"
mkdir -p build/fuzz/findings build/fuzz/corpus/elf
seed=(cc -O2 -shared -fPIC -nostdlib -Wl,-z,noseparate-code tests/fuzz/elf_seed.c)
"${seed[@]}" -o build/fuzz/corpus/elf/symbols.so
"${seed[@]}" -s -o build/fuzz/corpus/elf/stripped.so
# Its symbols inside, compressed.
xz --format=xz --stdout build/fuzz/corpus/elf/symbols.so >build/fuzz/corpus/symbols.xz
objcopy --add-section=.gnu_debugdata=build/fuzz/corpus/symbols.xz build/fuzz/corpus/elf/stripped.so build/fuzz/corpus/elf/inside.so
for target in "${targets[@]}"; do
    name=${target%_fuzz}
    kept=build/fuzz/corpus/$name
    mkdir -p "$kept"
    options=(-max_len=65536 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1
        -artifact_prefix="build/fuzz/findings/$name-" -max_total_time="$seconds")
    [ ! -f "tests/fuzz/$name.dict" ] || options+=(-dict="tests/fuzz/$name.dict")
    printf '\n== %s\n' "$target"
    corpora=("$kept")
    [ ! -d "tests/fuzz/corpus/$name" ] || corpora+=("tests/fuzz/corpus/$name")
    "build/fuzz/tests/fuzz/$target" "${options[@]}" "${corpora[@]}"
done
