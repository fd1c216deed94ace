#!/bin/bash
# What the real libraries and the real driver do, and what the exporter costs there; for a machine with a
# GPU, as root, beside run.sh, which checks counts. Prints facts, and writes pages and documents into a folder.
#
#   measure.sh FOLDER [machine|doctor|libraries|waits|traced|inside|views|training]...
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=$1
shift
parts=("$@")
[ $# -gt 0 ] || parts=(machine doctor libraries waits traced inside views training)
exporter=$root/build/release/gpusnoop_exporter
[ -x "$exporter" ] || exporter=$root/build/gpu/gpusnoop_exporter
programs=$root/build/gpu/programs
work=$(mktemp -d)
trap 'kill -KILL $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT

machine() {
    uname -a
    nvidia-smi --query-gpu=name,driver_version,pci.bus_id --format=csv
    cat /proc/driver/nvidia/version /proc/sys/kernel/perf_event_paranoid
    ls -l /sys/kernel/btf/vmlinux /proc/driver/nvidia/gpus
    { zcat /proc/config.gz || cat "/boot/config-$(uname -r)"; } 2>/dev/null |
        grep -E 'CONFIG_(BPF|UPROBES|KPROBES|FTRACE|FPROBE|DEBUG_INFO_BTF|PERF_EVENTS|SCHED_INFO|SCHEDSTATS|PSI|TASK_DELAY|PREEMPT)[A-Z_]*=' | tr '\n' ' '
}

doctor() {
    timeout 60 "$exporter" doctor 2>&1
}

libraries() {
    python3 - >"$work/libraries" 2>/dev/null <<'END'
import torch
torch.ones(1, device="cuda").mul_(2)
torch.ones((8, 8), device="cuda") @ torch.ones((8, 8), device="cuda")
wanted = ("libcuda.so", "libcudart", "libcublas", "libcudnn", "libnccl", "libc10", "libtorch_cuda.so", "libtorch_cpu.so", "libcupti")
files = {line.split()[-1] for line in open("/proc/self/maps") if "x" in line.split()[1] and "/" in line}
print("\n".join(sorted(file for file in files if any(name in file for name in wanted))))
END
    mapfile -t libraries <"$work/libraries"
    timeout 60 python3 "$here/prologues.py" "${libraries[@]}"
}

waits() {
    for how in auto yield blocking; do timeout 30 "$programs/waits" "$how"; done
}

start_exporter() {
    { printf 'labels: {pid: true}\n'; cat "$work/more.yaml" 2>/dev/null; } >"$work/config.yaml"
    "$exporter" --config.file="$work/config.yaml" --web.listen-address=127.0.0.1:19435 2>"$out/$1.log" &
    exporting=$!
    sleep 3
}

stop_exporter() {
    curl -s http://127.0.0.1:19435/metrics >"$out/$1.page"
    kill "$exporting"
    wait "$exporting" 2>/dev/null
}

traced() {
    start_exporter waits
    timeout 30 "$programs/waits" blocking
    timeout 30 "$programs/waits" spin
    stop_exporter waits
    grep -E '^gpusnoop_(host_launch_thread_seconds_total|cuda_api_errors_total|gpu_info)' "$out/waits.page"
}

inside() { # which functions of the runtime and the driver a program's calls go through
    printf '%s\n' 'cuda: {max_overhead: 0}' 'functions:' '  groups:' '    cuda: {enabled: false}' \
        '    runtime: {libraries: ["libcudart.so*"], functions: ["*"], entry_only: true}' \
        '    driver: {libraries: ["libcuda.so*"], functions: ["cu*"], entry_only: true}' >"$work/more.yaml"
    start_exporter inside
    "$programs/calls" 1 100 >/dev/null &
    sleep 5
    stop_exporter inside
    kill %%
    grep -E '^gpusnoop_function_calls_total' "$out/inside.page" | sed 's/.*library="\([^"]*\)".*function="\([^"]*\)".* /\1 \2 /' | sort -k3 -n -r
    grep -E '^gpusnoop_probe_nested_calls_total{probe="cuda"}|^gpusnoop_cuda_kernel_launches_total' "$out/inside.page"
    : >"$work/more.yaml"
}

views() { # what the pages and commands show of a training PyTorch
    local trainer
    start_exporter views
    (echo small 45; echo transformer 20) | timeout 100 python3 "$here/training.py" --train >/dev/null &
    trainer=$!
    sleep 15
    "$exporter" why --duration 5s
    "$exporter" top --once --rows 12
    "$exporter" top --once --rows 8 --by process
    "$exporter" profile --duration 5s --output "$out/cpu.folded"
    "$exporter" profile --type offcpu --duration 3s --output "$out/offcpu.folded"
    timeout 2 "$exporter" trace cuda 2>&1 | head -40
    timeout 3 "$exporter" trace gap 2>&1 | head -20
    curl -s http://127.0.0.1:19435/ >"$out/status.html"
    curl -s http://127.0.0.1:19435/api/v1/allocations >"$out/allocations.json"
    stop_exporter views
    kill "$trainer"
}

training() {
    timeout 240 python3 "$here/training.py" "$exporter" ${TRAINING:-}
}

for part in "${parts[@]}"; do
    printf '\n== %s\n' "$part"
    $part
done
