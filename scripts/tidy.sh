#!/bin/bash
# Runs clang-tidy-19 over exporter/ with the checks of .clang-tidy, file by file, as the preset plain compiles them.
#
#   scripts/tidy.sh                        every file
#   scripts/tidy.sh exporter/app.cpp ...   these
#
# clang's own warnings do not count: the build is GCC's, and libbpf's macros are GNU C.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/plain
cmake --preset plain
cmake --build --preset plain --parallel "$(scripts/jobs.sh)" --target bpf_skeletons
if [ $# -gt 0 ]; then
    printf '%s\0' "$@"
else
    find exporter -name '*.cpp' -print0 | sort -z
fi | xargs -0 -n 1 -P "$(nproc)" clang-tidy-19 --quiet --extra-arg=-Wno-error -p $build
