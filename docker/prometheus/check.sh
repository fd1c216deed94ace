#!/bin/sh
# Checks the configurations here, with our rules in the place of installed ones: check.sh PROMTOOL
set -eu
cd "$(dirname "$0")"
promtool=$1
if [ ! -x "$promtool" ]; then
    echo "no $promtool (scripts/setup.sh --tests)"
    [ -n "${CI:-}" ] && exit 1
    exit 4
fi
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
for file in prometheus.yml compose.yml remote_write.yml; do
    sed "s|/etc/prometheus/rules|$(cd ../../dashboards/rules && pwd)|" "$file" >"$copy/$file"
    found=$("$promtool" check config "$copy/$file")
    echo "$found"
    # All files of rules, or else the glob matched nothing, which is no mistake for promtool.
    [ "$(echo "$found" | grep -c 'rules found')" -eq "$(find ../../dashboards/rules -maxdepth 1 -name 'gpusnoop_*.yaml' | wc -l)" ]
done
"$promtool" check config --agent agent.yml
