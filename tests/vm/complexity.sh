#!/bin/bash
# What each BPF program of the exporter costs this kernel's verifier: runs in build/release, as root, in a
# guest (scripts/vm.sh KERNEL "$PWD/tests/vm/complexity.sh") or on this machine. Fails if one is past the limit, or if a
# program of the CUDA probe was not loaded, so that nobody knows.
set -euo pipefail
directory=$(mktemp -d)
exporter=
end() {
    [ -z "$exporter" ] || kill "$exporter" 2>/dev/null || true
    rm -rf "$directory"
}
trap end EXIT
# With what is off unless it is asked for. At exits, the probe loads also what it loads without.
echo '{syscall: {enabled: true}, targets: {comms: [none]}, cuda: {endings: exits}}' >"$directory/config.yaml"
./gpusnoop_exporter --config.file="$directory/config.yaml" --web.listen-address=127.0.0.1:0 2>"$directory/log" &
exporter=$!
for ((i = 0; i < 600; i++)); do
    ! grep -q 'msg="listening"' "$directory/log" || break
    sleep 0.1
done
echo "BPF programs on $(uname -r):"
# The verifier gives up at a million.
tests/complexity 250000 >"$directory/programs" || { cat "$directory/programs"; cat "$directory/log" >&2; exit 1; }
cat "$directory/programs"

is_loaded() { # is_loaded PROGRAM
    grep -q "^$1 " "$directory/programs"
}
# A kernel has one way to attach, and the programs of the others are not loaded.
if is_loaded cuda_session; then
    of_others='cuda_perf_.*|cuda_multi_(in|ret)'
elif is_loaded cuda_multi_in; then
    of_others='cuda_perf_.*|cuda_session'
else
    of_others='cuda_session|cuda_count|cuda_multi_.*'
fi
all=$(readelf -sW bpf/cuda.bpf.o bpf/cuda_in_flight.bpf.o | awk '$4 == "FUNC" && $5 == "GLOBAL" && $8 ~ /^cuda_/ { print $8 }')
[ -n "$all" ] || { echo "complexity: the objects have no programs of the CUDA probe" >&2; exit 1; }
missing=
for program in $(grep -Evx "$of_others" <<<"$all"); do
    is_loaded "$program" || missing+=" $program"
done
[ -z "$missing" ] || { echo "complexity: not loaded:$missing" >&2; cat "$directory/log" >&2; exit 1; }
