#!/bin/bash
# Draws docs/pictures/*.png, after `cmake --build --preset release`. The dashboards: with Grafana's own components in
# headless Chromium, light and dark, on the fleet of dashboards/fleet in a real Prometheus. The page at /: of the node in
# tests/harness/busy_node.h. Takes some minutes, and 600 MB from npm the first time.
#
#   scripts/pictures.sh                 all
#   scripts/pictures.sh dashboards      without the page at /; needs no build
#   END=1795606920 scripts/pictures.sh  the fleet until then, in seconds since 1970
set -euo pipefail
cd "$(dirname "$0")/.."
end=${END:-1795606920}
what=${1:-all}
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
if [ ! dashboards/pictures/node_modules/.package-lock.json -nt dashboards/pictures/package-lock.json ]; then
    (cd dashboards/pictures && npm ci --ignore-scripts --legacy-peer-deps --no-audit --no-fund)
fi

if [ "$what" = all ]; then
    GPUSNOOP_PICTURE="$PWD/docs/pictures/status.png" build/release/tests/e2e_tests "a picture of the page at /"
fi

fleet=$(mktemp -d)
trap 'rm -rf "$fleet"' EXIT
dashboards/fleet/backfill.py --end "$end" "$fleet/data"
dashboards/fleet/answers.py --end "$end" "$fleet/data" >"$fleet/answers.json"
node dashboards/pictures/draw.js "$fleet/answers.json" docs/pictures
