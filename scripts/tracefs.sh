#!/bin/sh
# Mounts tracefs, as root or through sudo, if it is not mounted: Debian mounts it, bare containers and virtual
# machines do not. The exporter's probe fence needs it.
set -eu
! grep -qs ' /sys/kernel/tracing tracefs ' /proc/self/mounts || exit 0
if [ "$(id -u)" -eq 0 ]; then as_root=; else as_root=sudo; fi
$as_root mount -t tracefs tracefs /sys/kernel/tracing ||
    echo "$(basename "$0"): cannot mount tracefs at /sys/kernel/tracing, so the exporter does not trace DMA fences" >&2
