#!/bin/bash
# What runs in a guest, in build/release or build/arm64: a few tests for each part that meets the kernel, as
# guests are slow.
#   tests/vm/suite.sh KERNEL
set -u
kernel=$1
case $kernel in
arm64-newest) export GPUSNOOP_ATTACHES_BY=session ;;
arm64-*) export GPUSNOOP_ATTACHES_BY=multi ;;
6.1) export GPUSNOOP_ATTACHES_BY=perf GPUSNOOP_SYSCALLS_AT=tracepoints ;;
6.12) export GPUSNOOP_ATTACHES_BY=multi GPUSNOOP_SYSCALLS_AT=tracepoints ;;
*) export GPUSNOOP_ATTACHES_BY=session GPUSNOOP_SYSCALLS_AT=functions ;;
esac

failed=()
failed_once=()
failures=$(mktemp)
run() { # run TEST...: by their names
    local names output
    names=$(printf '%s,' "$@")
    output=$(mktemp)
    if tests_named "${names%,}" "$output"; then return; fi
    tail -n 80 "$output" >>"$failures"
    # An emulated CPU can stand still for a tenth of a second, which a test of times takes for a fault. Up to
    # three calls of this run once more, which is faster than a second guest.
    failed_once+=("$*")
    if [ ${#failed_once[@]} -gt 3 ] || ! tests_named "${names%,}" "$output"; then
        failed+=("$*")
        tail -n 80 "$output" >>"$failures"
    fi
}

tests_named() { # tests_named NAMES OUTPUT
    tests/probes_tests "$1" -d yes --colour-mode none 2>&1 | tee "$2"
    return "${PIPESTATUS[0]}"
}

# The oldest kernel runs all of these, the others what depends on how their kernel is made: its structures, its
# functions and tracepoints, its way to attach. What a trace prints comes from the same records, and is the same.
oldest() { # oldest TEST...
    if [ "$kernel" = 6.1 ]; then run "$@"; fi
}
# 6.12 is between the others; it is here for uprobe_multi without sessions, and for what Debian 12 and 13 run: all programs
# are loaded there, by complexity.sh.
ends() { # ends TEST...: on the oldest and on the newest
    if [ "$kernel" != 6.12 ]; then run "$@"; fi
}
# What needs a machine that a test may do harm to, and not a kernel of a certain age. By perf events, which the oldest
# needs, the kernel takes most of a minute to let go of each exporter.
newest() { # newest TEST...
    if [ "$kernel" = newest ]; then run "$@"; fi
}

run "the way to attach is the one that this kernel is here for" "a new executable mapping*" "more mappings than*"
if [ "$kernel" != 6.1 ]; then run "new processes are found at once*"; fi
case $kernel in
arm64-*) . "$(dirname "$0")/suite_arm64.sh" ;;
*)
    run "system calls are traced where*"
    # What Debian's 6.1 has no way for.
    if [ "$kernel" != 6.1 ]; then run "accesses are counted without*" "helpers of the driver are counted without*"; fi
    run "accesses are counted by device*" "the driver's helpers are counted*" "an access is told with its register*"
    oldest "each access is a line*" "each call of the driver's helpers is a line*" "each event of a fence is a line*"
    run "CUDA calls are counted*" "calls of functions are counted*" "a call that has not returned when its process*"
    oldest "a few tensors are counted*" "communicators are counted*"
    ends "Xids*" "the driver's tracepoints*"
    oldest "lines that a program writes*" "Xids that the driver logs*"
    ends "fences and waits are counted*"
    ends "fences that get their numbers later*"
    run "system calls of 16 threads*"
    GPUSNOOP_TEST_MODES=$GPUSNOOP_ATTACHES_BY run "a launching thread's time is in the state*"
    GPUSNOOP_TEST_MODES=$GPUSNOOP_ATTACHES_BY ends "a launching thread's gaps*" "a worker waits as long*"
    ends "an end by lack of memory*" "stalls for lack of memory*"
    ends "what a resting process*" "what a cgroup lacked*"
    ends "connects are counted*" "bytes and segments of connections*"
    ends "a shared socket counts once*" "connections that are accepted*" "a connection to another*" \
        "the list of connections*" "datagrams that found no room*"
    ends "block requests are those*" "softirqs are of*" "interrupts of devices*"
    ends "block requests of a worker*" "a trace of opened*"
    oldest "a trace of TCP*" "a trace of block*"
    ends "exits of a virtual machine*"
    oldest "a trace of virtual machines*"
    ends "a cgroup's memory is by NUMA node*" "the NUMA node of a GPU*"
    GPUSNOOP_TEST_MODES=$GPUSNOOP_ATTACHES_BY ends "a launching thread's CPU time is of the NUMA node*" \
        "an ended process has its last CUDA call*" "of threads that are killed at once*"
    ends "time off the CPU is where*" "each page fault is a sample*"
    oldest "code that a program makes*" "a heap profile has what a process allocates*" "a Python thread sleeps*"
    newest "steps of the wall clock*" "where memory runs out*"
    GPUSNOOP_TEST_MODES=$GPUSNOOP_ATTACHES_BY run "what a program does between USDT probes*"
    # What preemption can spoil shows under load only. Cgroups are here as these guests have the time.
    if [ "$kernel" != 6.1 ]; then
        echo full >/sys/kernel/debug/sched/preempt
        grep -qF '(full)' /sys/kernel/debug/sched/preempt || failed+=("full preemption")
        run "16 threads on few CPUs*"
        ends "two Slurm jobs of one program*"
        GPUSNOOP_TEST_MODES=$GPUSNOOP_ATTACHES_BY ends "a launching thread's time is in the state*" "a worker waits as long*"
    fi
    "$(dirname "$0")/complexity.sh" || failed+=(complexity.sh)
    # The last one: there is no way back.
    run "a kernel that is locked down*"
    ;;
esac

# Once more at the end, of which everybody keeps the most.
cat "$failures"
if [ ${#failed_once[@]} -gt 0 ]; then printf 'FAILED ONCE: %s\n' "${failed_once[@]}"; fi
if [ ${#failed[@]} -gt 0 ]; then
    printf 'failed on kernel %s:\n' "$kernel"
    printf '  %s\n' "${failed[@]}"
    exit 1
fi
echo "all passed on kernel $kernel ($(uname -r))"
