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
to pager alertname=GpusnoopGpuHardwareError severity=critical job=gpusnoop instance=n1 comm=train
to pager alertname=GpusnoopXidHardware severity=critical job=gpusnoop instance=n1 gpu=0 xid=79
to pager alertname=GpusnoopSxidFatal severity=critical job=gpusnoop instance=n1 sxid=20034
to nobody alertname=GpusnoopXidInformation severity=info job=gpusnoop instance=n1 gpu=0 xid=45
to owners alertname=GpusnoopNcclHang severity=warning job=gpusnoop instance=n1 comm=train
to tickets alertname=GpusnoopExporterAbsent severity=warning job=gpusnoop
to owners alertname=GpusnoopDeviceMemoryLeak severity=warning job=gpusnoop instance=n1 comm=train
to owners alertname=GpusnoopCudaOutOfMemory severity=warning job=gpusnoop instance=n1 comm=train
to tickets alertname=GpusnoopExporterDown severity=warning job=gpusnoop instance=n1
to owners alertname=GpusnoopGpuMemoryWillBeFull severity=warning job=gpusnoop instance=n1 gpu=0
to owners alertname=GpusnoopGpuMemoryIdle severity=info job=gpusnoop instance=n1 comm=train
to owners alertname=GpusnoopProcessHangs severity=info job=gpusnoop instance=n1 comm=train
to owners alertname=GpusnoopCudaContextLost severity=info job=gpusnoop instance=n1 comm=train namespace=research
to nobody alertname=GpusnoopCudaContextLost severity=info job=gpusnoop instance=n1 comm=train
to owners alertname=GpusnoopSlowCalls severity=warning job=gpusnoop instance=n1 comm=train
to owners alertname=GpusnoopGpuProcessKilled severity=warning job=gpusnoop instance=n1 comm=train cause=oom_kill
to nobody alertname=GpusnoopGpuProcessKilled severity=info job=gpusnoop instance=n1 comm=train cause=SIGKILL
to owners alertname=GpusnoopHostStarvesGpu severity=warning job=gpusnoop instance=n1 comm=train
to owners alertname=GpusnoopHostMemoryGrows severity=warning job=gpusnoop instance=n1 comm=train
to tickets alertname=GpusnoopLauncherWaitsForCpu severity=warning job=gpusnoop instance=n1 comm=train
to tickets alertname=GpusnoopTcpRetransmits severity=warning job=gpusnoop instance=n1 comm=train
to owners alertname=GpusnoopTcpConnectFailures severity=warning job=gpusnoop instance=n1 comm=train
to nobody alertname=GpusnoopDataWaits severity=info job=gpusnoop instance=n1 comm=train
to tickets alertname=GpusnoopGpuProcessNotTraced severity=warning job=gpusnoop instance=n1
to nobody alertname=GpusnoopSeriesFolded severity=info job=gpusnoop instance=n1
to tickets alertname=SomebodyElses severity=warning
