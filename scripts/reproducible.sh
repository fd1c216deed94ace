#!/bin/bash
# Builds the committed revision twice, in two directories and without ccache, and compares what `make dist` and
# scripts/image.sh make. It takes as long as two builds. ARCH says for which machine, as it does for scripts/dist.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CCACHE_DISABLE=1
for copy in first another/second; do
    mkdir -p "$work/${copy%/*}"
    git clone -q . "$work/$copy"
    ln -s "$(realpath .deps)" "$work/$copy/.deps"
    { make -C "$work/$copy" dist && "$work/$copy/scripts/image.sh"; } >"$work/log" 2>&1 || {
        tail -n 30 "$work/log" >&2
        exit 1
    }
done
diff "$work/first/dist/SHA256SUMS" "$work/another/second/dist/SHA256SUMS"
cat "$work/first/dist/SHA256SUMS"
echo "the same in both builds"
