#!/bin/bash
# Builds the exporter and runs it on config.yaml until Ctrl-C, as root or through sudo. Installs what
# the build lacks (scripts/setup.sh asks first), and mounts tracefs. Where no program uses CUDA, stand-in programs
# run beside it, on GPUs that do not exist.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/release
if [ "$(id -u)" -eq 0 ]; then as_root=(); else as_root=(sudo); fi

scripts/setup.sh
cmake --preset release
cmake --build --preset release --parallel "$(scripts/jobs.sh)" --target gpusnoop_exporter standin_demo

cuda_in_use() {
    "${as_root[@]}" sh -c 'grep -qsE "/libcudart(-[^/]*)?\.so" /proc/[0-9]*/maps'
}

say_where() { # say_where LISTENING-LINE: the address and the port are in it, as logfmt or as JSON
    local address port path url
    address=$(sed -nE 's/.*"?address"?[=:]"?([^ ",]*)"?.*/\1/p' <<<"$1")
    port=$(sed -nE 's/.*"?port"?[=:]"?([0-9]+).*/\1/p' <<<"$1")
    path=$(sed -nE 's/^ +telemetry_path: *"?(\/[^ "]*).*/\1/p' config.yaml)
    address=${address%:*}
    case $address in '' | '[::]' | 0.0.0.0) address=localhost ;; esac
    url="http://$address:$port"
    cat <<END

Open $url/ in a browser, or:
  curl -s $url${path:-/metrics} | grep ^gpusnoop_cuda_memory
  curl -s $url${path:-/metrics} | grep ^gpusnoop_cuda_kernel_launches_total
  $build/gpusnoop_exporter top --address=$url
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
            stand_ins
        fi
    done
    rm -rf "$directory"
}

stand_in() { # stand_in GPU OPTION...: it ends when relay does
    CUDA_VISIBLE_DEVICES=$1 setpriv --pdeathsig TERM "$build/standin/demo" --seconds 604800 "${@:2}" \
        </dev/null >/dev/null &
}

stand_ins() {
    if [ "$config" != config.yaml ]; then
        stand_in 0 --name train --threads 3 --rate 400 --failures --leak 1000
        stand_in 1 --name infer --rate 100 --memory-kinds
    fi
}

directory=$(mktemp --directory --tmpdir gpusnoop-run.XXXXXXXX)
chmod 755 "$directory"
config=config.yaml
if ! cuda_in_use; then
    echo "run: no running program uses the CUDA runtime, so stand-in programs are started to have something to see."
    echo "run: they use two GPUs that do not exist, of which the exporter is told by a copy of config.yaml."
    scripts/pretend_node.sh "$directory" "$build"
    config=$directory/config.yaml
fi
scripts/tracefs.sh
exec "${as_root[@]}" "$build/gpusnoop_exporter" --config.file="$config" 2> >(relay)
