#!/bin/sh
# Checks alertmanager.yml with AMTOOL, and that alerts go where they should: check.sh AMTOOL
set -eu
cd "$(dirname "$0")"
amtool=$1
if [ ! -x "$amtool" ]; then
    echo "no $amtool (scripts/setup.sh --tests)"
    [ -n "${CI:-}" ] && exit 1
    exit 4
fi
"$amtool" check-config alertmanager.yml
to() { # to RECEIVER LABEL=VALUE...
    receiver=$1
    shift
    "$amtool" config routes test --config.file=alertmanager.yml --verify.receivers="$receiver" "$@"
}
to pager alertname=GpusnoopGpuOffTheBus severity=critical job=gpusnoop instance=n1
to pager alertname=GpusnoopNcclStalled severity=critical job=gpusnoop instance=n1 comm=train
to pager alertname=GpusnoopExporterAbsent severity=critical job=gpusnoop
to owners alertname=GpusnoopDeviceMemoryLeak severity=warning job=gpusnoop instance=n1 comm=train
to owners alertname=GpusnoopSlowCalls severity=warning job=gpusnoop instance=n1 comm=train
to tickets alertname=GpusnoopExporterDown severity=warning job=gpusnoop instance=n1
to tickets alertname=GpusnoopSeriesFolded severity=warning job=gpusnoop instance=n1
to nobody alertname=GpusnoopMemoryUnfreedAtExit severity=info job=gpusnoop instance=n1
to tickets alertname=SomebodyElses severity=warning
