#!/bin/bash
# Builds the exporter and runs it until Ctrl-C with Debian's Prometheus and Alertmanager around it, and with
# stand-in programs on two GPUs that do not exist. One of them leaks, and the alert's message appears here.
#
#   scripts/demo.sh                  the rules' windows of half an hour are 30 seconds
#   scripts/demo.sh --faster N       they are N times shorter than what dashboards/rules has
#   scripts/demo.sh --build-dir DIR  uses what is built there, and installs and builds nothing
#
# Only this machine can reach the ports: 19435, 9090, 9093 and 5001, or those of EXPORTER_PORT,
# PROMETHEUS_PORT, ALERTMANAGER_PORT and MESSAGES_PORT.
set -euo pipefail
cd "$(dirname "$0")/.."
faster=60
build=
while [ $# -gt 0 ]; do
    case $1 in
    --faster) faster=${2:?} ;;
    --build-dir) build=${2:?} ;;
    *)
        sed -n '2,/^set/s/^# \?//p' "$0" >&2
        exit 2
        ;;
    esac
    shift 2
done
exporter_port=${EXPORTER_PORT:-19435}
prometheus_port=${PROMETHEUS_PORT:-9090}
alertmanager_port=${ALERTMANAGER_PORT:-9093}
messages_port=${MESSAGES_PORT:-5001}
if [ "$(id -u)" -eq 0 ]; then as_root=(); else as_root=(sudo); fi

if [ -z "$build" ]; then
    build=build/release
    scripts/setup.sh --demo
    cmake --preset release
    cmake --build --preset release --parallel "$(scripts/jobs.sh)" --target gpusnoop_exporter standin_demo
fi
tools=$PWD/.deps/tools/usr

directory=$(mktemp --directory --tmpdir gpusnoop-demo.XXXXXXXX)
chmod 755 "$directory"
started=()
ended() {
    trap '' EXIT INT TERM
    [ ${#started[@]} -eq 0 ] || "${as_root[@]}" kill "${started[@]}" 2>/dev/null || true
    wait
    rm -rf "$directory"
}
trap ended EXIT
trap 'exit 0' INT TERM

start() { # start NAME COMMAND...: its output goes to NAME.log
    "${@:2}" </dev/null >"$directory/$1.log" 2>&1 &
    started+=($!)
}

ready() { # ready NAME PORT PATH
    for _ in $(seq 300); do
        ! curl -sf -o "$directory/answer" "http://127.0.0.1:$2$3" || return 0
        kill -0 "${started[-1]}" 2>/dev/null || break
        sleep 0.2
    done
    echo "demo: $1 does not answer on port $2; its log ends with:" >&2
    tail -n 5 "$directory/$1.log" >&2
    exit 1
}

stand_in() { # stand_in NAME GPU OPTION...
    start "$1" env CUDA_VISIBLE_DEVICES="$2" "$build/standin/demo" --name "$1" --seconds 604800 "${@:3}"
}

scripts/pretend_node.sh "$directory" "$build"
scripts/tracefs.sh
python3 dashboards/rules/render.py --faster "$faster" --output-dir "$directory/rules"
# The windows are shorter, so Prometheus looks as often as they need.
sed -e "s/\(_interval:\).*/\1 $((faster < 60 ? 2 : 1))s/" -e "s|/etc/prometheus/rules|$directory/rules|" \
    -e "s/gpu-node-1:19435/127.0.0.1:$exporter_port/" -e "s/127.0.0.1:9093/127.0.0.1:$alertmanager_port/" \
    docker/prometheus/prometheus.yml >"$directory/prometheus.yml"
sed -e "s/127.0.0.1:5001/127.0.0.1:$messages_port/" docker/alertmanager/alertmanager.yml >"$directory/alertmanager.yml"

start exporter "${as_root[@]}" "$build/gpusnoop_exporter" --config.file="$directory/config.yaml" \
    --web.listen-address="127.0.0.1:$exporter_port"
ready exporter "$exporter_port" /-/ready
# Debian's servers read their pages' templates from /usr/share.
in_tools=("${as_root[@]}" unshare --mount sh -c 'mount --bind "$1" /usr/share && shift && exec "$@"' sh "$tools/share")
start alertmanager "${in_tools[@]}" "$tools/bin/prometheus-alertmanager" --config.file="$directory/alertmanager.yml" \
    --storage.path="$directory/alertmanager" --cluster.listen-address= --web.listen-address="127.0.0.1:$alertmanager_port"
ready alertmanager "$alertmanager_port" /-/ready
start prometheus "${in_tools[@]}" "$tools/bin/prometheus" --config.file="$directory/prometheus.yml" \
    --storage.tsdb.path="$directory/prometheus" --web.listen-address="127.0.0.1:$prometheus_port"
ready prometheus "$prometheus_port" /-/ready
stand_in train 0 --threads 2 --rate 300 --leak $((1400 * faster))
stand_in infer 1 --rate 400 --memory-kinds --failures

cat <<END

http://127.0.0.1:$exporter_port/                what happens now
http://127.0.0.1:$prometheus_port/classic/alerts   which alerts fire, and which are about to
.deps/tools/usr/bin/amtool alert --alertmanager.url=http://127.0.0.1:$alertmanager_port
The program infer makes calls that fail, on GPU 1; train leaks on GPU 0: GpusnoopDeviceMemoryLeak fires after some
$((5 * 1800 / faster + 60)) seconds. Messages appear below, in place of a pager, with the rules' own windows in their texts.
Ctrl-C stops it all.

END
python3 -u docker/alertmanager/print_messages.py "$messages_port" &
started+=($!)
wait -n
echo "demo: a program of it has ended; the last lines of their logs:" >&2
tail -n 3 "$directory"/*.log >&2
exit 1
