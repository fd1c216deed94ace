#!/bin/bash
# What runs in a guest, in build/release: a few tests for each part that meets the kernel, as guests
# are slow.
#   tests/vm/suite.sh KERNEL
set -u
kernel=$1
failed=()
run() { # run COMMAND...
    "$@" || failed+=("$*")
}

# An exporter, the libraries and programs, on the way to attach uprobes that this kernel has.
run tests/probes_tests "every function counts as the libraries count it" -d yes

# System calls and DMA fences, which vgem has.
run tests/probes_tests "fences*,the probe of fences*,of what a process is killed in*,system calls of 16 threads*" -d yes

if [ ${#failed[@]} -gt 0 ]; then
    printf 'failed on kernel %s:\n' "$kernel"
    printf '  %s\n' "${failed[@]}"
    exit 1
fi
echo "all passed on kernel $kernel ($(uname -r))"
