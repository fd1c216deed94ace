#!/bin/bash
# Builds a release into dist/, from nothing: installs what is missing, compiles, makes the packages.
# scripts/reproducible.sh shows that two such builds give the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh --packages
cmake --preset release
cmake --build --preset release --parallel "$(nproc)" --target gpusnoop_exporter package_files
rm -rf dist
scripts/package.sh build/release dist
(cd dist && ls -l)
