#!/bin/bash
# Draws docs/pictures/*.png: the page at /, and the dashboards, with Grafana's own components in headless Chromium, on what a
# real Prometheus answers that scrapes the exporter beside stand-in programs. As root or through sudo,
# after `cmake --build --preset release`. Takes some minutes: 600 MB from npm the first time,
# and some minutes of data.
#
#   SECONDS_OF_DATA=150 scripts/pictures.sh
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${SECONDS_OF_DATA:-150}
if [ "$(id -u)" -eq 0 ]; then as_root=(); else as_root=(sudo); fi

scripts/setup.sh --tests
for package in nodejs npm; do
    command -v "${package/nodejs/node}" >/dev/null || missing="${missing:-} $package"
done
if [ -n "${missing:-}" ]; then
    # shellcheck disable=SC2086 # a list of words on purpose
    "${as_root[@]}" apt-get -q -y install --no-install-recommends $missing
fi
# The versions of all packages are those of package-lock.json. None of them needs a script of its own.
(cd dashboards/pictures && npm ci --ignore-scripts --legacy-peer-deps --no-audit --no-fund)

"${as_root[@]}" env GPUSNOOP_PICTURE="$PWD/docs/pictures/status.png" \
    build/release/tests/e2e_tests "a picture of the page at /"

answers=$(mktemp)
trap 'rm -f "$answers"' EXIT
"${as_root[@]}" env GPUSNOOP_ANSWERS="$answers" GPUSNOOP_ANSWERS_SECONDS="$seconds" \
    build/release/tests/e2e_tests "answers for the pictures of the dashboards"
node dashboards/pictures/draw.js "$answers" docs/pictures
