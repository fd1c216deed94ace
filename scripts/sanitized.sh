#!/bin/bash
# Runs the end-to-end tests against exporters that are built with the address, undefined behaviour
# and thread sanitizers, one after the other: some ten minutes each. What they find ends the
# exporter with a report and an exit code that the tests do not take.
#
#   scripts/sanitized.sh [asan|tsan]
set -euo pipefail
cd "$(dirname "$0")/.."
sanitizers=("$@")
[ $# -gt 0 ] || sanitizers=(asan tsan)

scripts/setup.sh --tests
cmake --preset release
cmake --build --preset release --parallel "$(scripts/jobs.sh)"
mkdir -p build/sanitized
failed=()
for sanitizer in "${sanitizers[@]}"; do
    # Optimized: as slow as it is for the unit tests, the exporter could not follow the programs.
    build=$PWD/build/$sanitizer-exporter
    cmake --preset "$sanitizer" -B "$build" -DCMAKE_CXX_FLAGS_DEBUG="-O2 -g1"
    # A sanitizer needs its shadow memory at fixed addresses.
    setarch --addr-no-randomize cmake --build "$build" --parallel "$(scripts/jobs.sh)" --target gpusnoop_exporter
    printf '\n== %s\n' "$sanitizer"
    reports=$PWD/build/sanitized/$sanitizer
    rm -f "$reports".*
    (cd build/release && GPUSNOOP_EXPORTER=$build/gpusnoop_exporter \
        ASAN_OPTIONS=log_path=$reports UBSAN_OPTIONS=log_path=$reports:print_stacktrace=1 \
        TSAN_OPTIONS=log_path=$reports \
        setarch --addr-no-randomize tests/e2e_tests --durations yes) || failed+=("$sanitizer")
    # A report that no test noticed is one all the same.
    if compgen -G "$reports.*" > /dev/null; then
        cat "$reports".*
        failed+=("$sanitizer reports")
    fi
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "FAILED: ${failed[*]}"
    exit 1
fi
echo "all passed"
