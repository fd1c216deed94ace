#!/bin/bash
# What runs in a guest, in build/release: a few tests for each part that meets the kernel, as guests
# are slow.
#   tests/vm/suite.sh KERNEL
set -u
kernel=$1
case $kernel in
6.1) export GPUSNOOP_ATTACHES_BY=perf ;;
6.12*) export GPUSNOOP_ATTACHES_BY=multi ;;
*) export GPUSNOOP_ATTACHES_BY=session ;;
esac

failed=()
run() { # run TEST...: by their names
    tests/probes_tests "$(printf '"%s",' "$@")" -d yes || failed+=("$*")
}

run "the way to attach is the one that this kernel is here for" \
    "where the kernel has no kprobes*" \
    "accesses are counted by device*" \
    "an access is told with its register*" \
    "the driver's helpers are counted*"
case $kernel in
# What a preemptible kernel can spoil shows under load only.
*-preempt) run "16 threads on few CPUs*" ;;
*) run "CUDA calls are counted*" "calls of functions are counted*" ;;
esac

if [ ${#failed[@]} -gt 0 ]; then
    printf 'failed on kernel %s:\n' "$kernel"
    printf '  %s\n' "${failed[@]}"
    exit 1
fi
echo "all passed on kernel $kernel ($(uname -r))"
