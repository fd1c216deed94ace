#!/bin/sh
# Fails unless the tag of a release names the version that everything has: release_version.sh [vVERSION]
set -eu
cd "$(dirname "$0")/.."
version=$(sed -n 's/^project(gpusnoop_exporter VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
chart=docker/kubernetes/gpusnoop-exporter/Chart.yaml
for found in "tag ${1:-v$version}" "chart v$(sed -n 's/^version: *"\{0,1\}\([^"]*\)"\{0,1\}$/\1/p' $chart)" \
    "program-in-chart v$(sed -n 's/^appVersion: *"\{0,1\}\([^"]*\)"\{0,1\}$/\1/p' $chart)" \
    "changelog v$(sed -n '1s/.*(\(.*\)).*/\1/p' packaging/changelog)" \
    "rpm v$(sed -n '1s/.* - \(.*\)-1$/\1/p' packaging/rpm/changelog)"; do
    if [ "${found#* }" != "v$version" ]; then
        echo "release_version: the program has $version, but the ${found% *} has ${found#* }" >&2
        exit 1
    fi
done
