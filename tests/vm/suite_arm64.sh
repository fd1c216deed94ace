# What runs in a guest for arm64, after what runs in each: suite.sh reads this, and has `run`. The probes that
# read registers, arguments, return addresses and stacks, in each way to attach that the kernel has.
modes=(multi perf)
if [ "$GPUSNOOP_ATTACHES_BY" = session ]; then modes=(session multi perf); fi

run "an executable mapping is listed*" "a mapped file is opened even*" "a process that is gone has no mappings" \
    "a library is found in a process*" "a library that is overwritten*"
run "a stack in*"
run "a call that has not returned when its process*"
for mode in "${modes[@]}"; do
    echo "attached by $mode:"
    export GPUSNOOP_TEST_MODES=$mode
    run "CUDA calls are counted*" "calls of functions are counted*" "a few tensors are counted*" "communicators are counted*"
    # Arguments past the registers, and structures by value.
    if [ "$mode" != perf ]; then run "every function counts as*"; fi
    run "slow calls are told with*"
    # Each of these takes a minute, and is the same in all modes but for how it is attached.
    if [ "$mode" = "$GPUSNOOP_ATTACHES_BY" ]; then
        run "the calls of every function*"
        run "*exceptions pass through C functions*"
        run "counted at their entry*"
        run "programs that leave calls*" "*programs do also what*"
        run "every call that hangs*" "what a program does between USDT probes*"
    fi
done
unset GPUSNOOP_TEST_MODES
# What qemu-user cannot run.
names=$(sed -n 's/,/\\,/g; s/^[^#].*/"&"/p' ../../tests/arm64/needs_kernel.txt | tr '\n' ',')
tests/unit_tests "${names%,}" --colour-mode none || failed+=(needs_kernel.txt)
"$(dirname "$0")/complexity.sh" || failed+=(complexity.sh)
