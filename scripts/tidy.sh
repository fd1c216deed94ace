#!/bin/bash
# Runs clang-tidy-19 over exporter/ with the checks of .clang-tidy, in the release build (which must have
# been configured and built: the skeletons come from there).
#
#   scripts/tidy.sh                        every file
#   scripts/tidy.sh exporter/app.cpp ...   these
#
# clang's own warnings do not count: the build is GCC's, and libbpf's macros are GNU C.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/release
if [ ! -f $build/compile_commands.json ]; then
    echo "tidy: no $build: run make test, or cmake --preset release and build it, first" >&2
    exit 1
fi
if [ $# -gt 0 ]; then
    printf '%s\0' "$@"
else
    find exporter -name '*.cpp' -print0 | sort -z
fi | xargs -0 -n 1 -P "$(nproc)" clang-tidy-19 --quiet --extra-arg=-Wno-error -p $build
