#!/bin/bash
# Builds a release into dist/, from nothing: installs what is missing, compiles, makes the packages.
# scripts/reproducible.sh shows that two such builds give the same bytes.
#
#   scripts/dist.sh               for this machine's architecture
#   ARCH=arm64 scripts/dist.sh    for arm64, on amd64
#   ARCH=all scripts/dist.sh      for both, on amd64
set -euo pipefail
cd "$(dirname "$0")/.."
here=$(dpkg --print-architecture)
case ${ARCH:-$here} in
"$here") presets=release setup=--packages ;;
arm64) presets=arm64 setup=--packages-arm64 ;;
all) presets="release arm64" setup=--packages-arm64 ;;
*)
    echo "dist: there is no release for ARCH=$ARCH that can be built on $here: ARCH is $here, arm64 or all" >&2
    exit 1
    ;;
esac
scripts/setup.sh $setup
rm -rf dist
for preset in $presets; do
    cmake --preset "$preset"
    cmake --build --preset "$preset" --parallel "$(scripts/jobs.sh)" --target gpusnoop_exporter package_files
    scripts/package.sh "build/$preset" dist
done
(cd dist && ls -l)
