#!/bin/bash
# Runs a command beside a CUDA program that calls and holds memory, and beside another exporter, as on
# a GPU workstation that is in use. Both must be there at its end.
#
#   tests/in_company.sh BUILD COMMAND...
set -euo pipefail
build=$(realpath "$1")
shift
directory=$(mktemp -d)
pids=()
leave() {
    for pid in "${pids[@]}"; do
        kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || true
    done
    rm -rf "$directory"
}
trap leave EXIT

"$build/standin/company/company_job" >"$directory/job.log" 2>&1 &
pids+=($!)
# With probes at exits: where a test's own exporter must harm no program, this one must not either.
echo 'cuda: {endings: exits}' >"$directory/config.yaml"
"$build/gpusnoop_exporter" --config.file="$directory/config.yaml" --web.listen-address=127.0.0.1:0 >"$directory/exporter.log" 2>&1 &
pids+=($!)
for _ in $(seq 600); do
    if grep -q 'msg="listening"' "$directory/exporter.log"; then break; fi
    if ! kill -0 "${pids[1]}" 2>/dev/null; then
        # Where no exporter can run, tests are skipped for the same reason.
        cat "$directory/exporter.log" >&2
        [ -z "${CI:-}" ] || exit 1
        unset 'pids[1]'
        break
    fi
    sleep 0.1
done

result=0
"$@" || result=$?
for pid in "${pids[@]}"; do
    if ! kill -0 "$pid" 2>/dev/null; then
        echo "in_company: what ran beside the tests has ended" >&2
        tail -n 20 "$directory"/*.log >&2
        result=1
    fi
done
exit "$result"
