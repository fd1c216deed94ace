#!/bin/bash
# Builds the exporter and runs it on config.yaml until Ctrl-C, as root or through sudo. Installs what
# the build lacks. Where no program uses CUDA, a stand-in workload runs beside it.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/release
if [ "$(id -u)" -eq 0 ]; then as_root=(); else as_root=(sudo); fi

scripts/setup.sh
cmake --preset release
cmake --build --preset release --parallel "$(nproc)" --target gpusnoop_exporter standin_workload

cuda_in_use() {
    "${as_root[@]}" sh -c 'grep -qsE "/libcudart(-[^/]*)?\.so" /proc/[0-9]*/maps'
}

say_where() { # say_where LISTENING-LINE: the address and the port are in it, as logfmt or as JSON
    local address port path url
    address=$(sed -nE 's/.*"?address"?[=:]"?([^ ",]*)"?.*/\1/p' <<<"$1")
    port=$(sed -nE 's/.*"?port"?[=:]"?([0-9]+).*/\1/p' <<<"$1")
    path=$(sed -nE 's/^ +telemetry_path: *"?(\/[^ "]*).*/\1/p' config.yaml)
    address=${address%:*}
    url="http://${address:-localhost}:$port"
    cat <<END

Open $url/ in a browser, or:
  curl -s $url${path:-/metrics} | grep ^gpusnoop_cuda_memory
  curl -s $url${path:-/metrics} | grep ^gpusnoop_cuda_kernel_launches_total
Ctrl-C stops it.

END
}

relay() { # passes the exporter's log on; once it listens, lets the workload begin
    trap '' INT TERM
    local line
    while IFS= read -r line; do
        printf '%s\n' "$line" >&2
        if [[ $line == *[\":]listening\"* || $line == *msg=listening* ]]; then
            say_where "$line"
            : >"$begin"
        fi
    done
    rm -f "$begin"
}

begin=$(mktemp --dry-run --tmpdir gpusnoop-begin.XXXXXXXX)
if ! cuda_in_use; then
    echo "run: no running program uses the CUDA runtime, so a stand-in workload is started to have something to see."
    # It begins when the probes are attached, and dies with the exporter, which takes this shell's place.
    setpriv --pdeathsig TERM "$build/standin/workload" --name standin --threads 3 --rate 400 --failures \
        --leak 1000 --seconds 604800 --wait-for-file "$begin" </dev/null >/dev/null &
fi
exec "${as_root[@]}" "$build/gpusnoop_exporter" --config.file=config.yaml 2> >(relay)
