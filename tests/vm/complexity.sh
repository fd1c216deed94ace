#!/bin/bash
# What each BPF program of the exporter costs this kernel's verifier: runs in build/release, as root, in a
# guest (scripts/vm.sh KERNEL "$PWD/tests/vm/complexity.sh") or on this machine.
set -euo pipefail
directory=$(mktemp -d)
exporter=
end() {
    [ -z "$exporter" ] || kill "$exporter" 2>/dev/null || true
    rm -rf "$directory"
}
trap end EXIT
# With what is off unless it is asked for.
echo '{syscall: {enabled: true}, targets: {comms: [none]}}' >"$directory/config.yaml"
./gpusnoop_exporter --config.file="$directory/config.yaml" --web.listen-address=127.0.0.1:0 2>"$directory/log" &
exporter=$!
for ((i = 0; i < 600; i++)); do
    ! grep -q 'msg="listening"' "$directory/log" || break
    sleep 0.1
done
echo "BPF programs on $(uname -r):"
# The verifier gives up at a million.
tests/complexity 250000 || { cat "$directory/log" >&2; exit 1; }
