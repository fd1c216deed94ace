#!/bin/bash
# Everything worth checking on a machine with a real GPU, in one call, as root: CUDA programs and PyTorch
# count their own calls, and the page must say the same, in every attach mode that works there. Needs no
# network; uses what is there of nvcc and PyTorch. Exit code: 0 all equal, 1 not, 77 nothing to test on.
#
#   EXPORTER   the program, if it is not build/release/gpusnoop_exporter or what pack.sh made
#   PROGRAMS   a folder with calls, calls_ptds and calls_legacy, if not what nvcc or pack.sh made
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
export PYTHONDONTWRITEBYTECODE=1

skip() { echo "gpu tests: $*: nothing was tested"; exit 77; }
fail() { echo "gpu tests: $*" >&2; exit 1; }

gpus=$(nvidia-smi -L 2>/dev/null) || skip "this machine has no NVIDIA GPU (nvidia-smi -L fails)"
[ -n "$gpus" ] || skip "this machine has no NVIDIA GPU (nvidia-smi -L names none)"
[ "$(id -u)" -eq 0 ] || skip "this needs root"
command -v python3 >/dev/null || skip "there is no python3, which compares the counts"

work=$(mktemp -d)
children=()
stop_children() {
    local child
    for child in ${children[@]+"${children[@]}"}; do kill -KILL "$child" 2>/dev/null || true; done
    wait 2>/dev/null || true
    children=()
}
trap 'stop_children; rm -rf "$work"' EXIT

packed=$root/build/gpu
if [ -z "${EXPORTER:-}" ]; then
    EXPORTER=$root/build/release/gpusnoop_exporter
    [ -x "$EXPORTER" ] || EXPORTER=$packed/gpusnoop_exporter
fi
"$EXPORTER" --version >"$work/version" 2>&1 || fail "$EXPORTER does not run here: $(cat "$work/version")"
# All of them: the programs know the sizes and durations of what they do, too.
histograms=$("$EXPORTER" list-metrics | sed -nE 's/^\| `(gpusnoop_\w+)` \| histogram .*/\1/p' | paste -sd,)

echo "$gpus"
uname -sr
head -n 1 "$work/version"

start_exporter() { # start_exporter MODE MAX_OVERHEAD: sets exporter, url
    # The pid label: PyTorch's process has the name of every Python program.
    printf 'labels: {pid: true}\ncuda: {attach: %s, max_overhead: %s}\nhistograms: [%s]\n' "$1" "$2" "$histograms" >"$work/config.yaml"
    : >"$work/exporter.log"
    "$EXPORTER" --config.file="$work/config.yaml" \
        --web.listen-address=127.0.0.1:0 2>>"$work/exporter.log" &
    exporter=$!
    children+=("$exporter")
    until grep -q listening "$work/exporter.log"; do
        kill -0 "$exporter" 2>/dev/null || return 1
        sleep 0.1
    done
    url=http://127.0.0.1:$(sed -nE 's/.*listening.* port="?([0-9]+).*/\1/p' "$work/exporter.log")/metrics
}

wait_attached() { # to the CUDA runtime of a process: the driver is attached to before anything runs
    local tries
    for tries in $(seq 200); do
        ! grep 'msg="attached"' "$work/exporter.log" | grep -q libcudart || return 0
        sleep 0.1
    done
    cat "$work/exporter.log" >&2
    fail "after $((tries / 10)) s the exporter had not attached to the CUDA runtime"
}

compare() { python3 "$here/compare.py" "$url" "$@"; }

# What there is to run.
nvcc=$(PATH=$PATH:/usr/local/cuda/bin command -v nvcc || true)
programs=${PROGRAMS:-}
if [ -z "$programs" ] && [ -n "$nvcc" ] &&
    "$here/programs.sh" "$nvcc" "$work" "$(dirname "$(dirname "$(readlink -f "$nvcc")")")/lib64"; then
    programs=$work
fi
[ -n "$programs" ] || [ ! -x "$packed/programs/calls" ] || programs=$packed/programs
with_torch=no
if timeout 300 python3 "$here/torch_workload.py" --check 2>/dev/null; then with_torch=yes; fi
[ -n "$programs" ] || echo "gpu tests: there is neither nvcc nor what pack.sh makes, so no CUDA programs are run"
[ $with_torch = yes ] || echo "gpu tests: python3 has no PyTorch that sees the GPU, so it is not run"
if [ -z "$programs" ] && [ $with_torch = no ]; then skip "there is neither nvcc nor PyTorch"; fi

failed=0
check_program() { # check_program FILE
    local totals program
    totals=$work/${1##*/}.json
    "$1" 4 200 >"$totals" &
    program=$!
    children+=("$program")
    # It is complete with its last bracket.
    until tail -c 3 "$totals" 2>/dev/null | grep -q ']}'; do
        kill -0 "$program" 2>/dev/null || { echo "gpu tests: $1 ended by itself" >&2; failed=1; return; }
        sleep 0.1
    done
    compare "$totals" --patience 10 || failed=1
    kill -TERM "$program"
    wait "$program" 2>/dev/null || true
    compare "$totals" --section ended --patience 10 || failed=1
}

check_programs() { # one that is already there lets the others be seen from their first call on
    "$programs/calls" 1 1 >"$work/holder.json" &
    children+=("$!")
    wait_attached
    cp "$programs/calls" "$work/calls_again" # the holder has the name calls
    check_program "$work/calls_again"
    check_program "$programs/calls_ptds"
    check_program "$programs/calls_legacy"
}

check_torch() { # check_torch [--counted]
    mkfifo "$work/hold"
    local way=--hold
    [ $# -eq 0 ] || way=--launch
    python3 "$here/torch_workload.py" "$way" <"$work/hold" >"$work/holding" &
    children+=("$!")
    exec 7>"$work/hold"
    until grep -q holding "$work/holding"; do
        kill -0 "${children[-1]}" 2>/dev/null || fail "the Python program that holds PyTorch ended by itself"
        sleep 0.1
    done
    wait_attached
    sleep 1 # a wheel can bring several copies
    timeout 300 python3 "$here/torch_workload.py" "$url" "$@" 7>&- || failed=1
    exec 7>&-
    rm "$work/hold"
}

if ! start_exporter auto 0; then
    cat "$work/exporter.log"
    ! grep -qE 'no permission to use BPF|has no BPF ring buffer|has no BTF' "$work/exporter.log" ||
        skip "this machine does not let the exporter use BPF"
    fail "the exporter does not start"
fi
modes=$(python3 - "$here" "$url" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
import compare
page = compare.Page.read(sys.argv[2])
print(*(mode for mode in ("session", "multi", "perf")
        if page.sum("gpusnoop_kernel_feature", {"feature": "uprobe_" + mode})))
END
)
stop_children
[ -n "$modes" ] || skip "no way to attach to functions works on this machine"

for mode in $modes; do
    for kind in programs torch "torch --counted"; do
        if [ "$kind" = programs ]; then [ -n "$programs" ] || continue; else [ $with_torch = yes ] || continue; fi
        printf '\n== %s, attached by %s\n' "$kind" "$mode"
        # The programs compare the durations and the failures of their launches, too, which launches that are only counted
        # do not have: no limit. At 50 %, launches are counted, and no program pauses.
        limit=0
        [ "$kind" != "torch --counted" ] || limit=50%
        start_exporter "$mode" "$limit" || fail "the exporter does not start with attach: $mode: $(cat "$work/exporter.log")"
        check_$kind
        compare --account --patience 10 || failed=1
        grep -E 'level=(WARN|ERROR)' "$work/exporter.log" || true
        stop_children
    done
done
if [ $failed -ne 0 ]; then
    echo "gpu tests: there are differences (NO above)"
    exit 1
fi
echo "gpu tests: all equal, attached by: $modes"
