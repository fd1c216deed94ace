#!/bin/bash
# Makes the Debian package and looks at it: lintian, what is in it, and whether the program in it, which is
# stripped, can do what the built one can.
#
#   deb_test.sh BUILD-DIRECTORY
set -euo pipefail
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "deb_test: $*" >&2
    exit 1
}

(cd "$work" && cpack -G DEB --config "$build/CPackConfig.cmake" -B "$work" >"$work/cpack.log" 2>&1) ||
    fail "cpack: $(tail -n 20 "$work/cpack.log")"
package=$(echo "$work"/gpusnoop-exporter_*.deb)
[ -f "$package" ] || fail "no package: $(cat "$work/cpack.log")"

lintian --allow-root --fail-on error "$package" || fail "lintian found errors"

dpkg-deb -x "$package" "$work/root"
dpkg-deb -e "$package" "$work/control"
for file in usr/bin/gpusnoop_exporter etc/gpusnoop_exporter/config.yaml etc/default/gpusnoop_exporter \
    usr/lib/systemd/system/gpusnoop_exporter.service usr/share/man/man8/gpusnoop_exporter.8.gz \
    usr/share/bash-completion/completions/gpusnoop_exporter usr/share/doc/gpusnoop-exporter/copyright \
    usr/share/doc/gpusnoop-exporter/README.md usr/share/doc/gpusnoop-exporter/docs/metrics.md; do
    [ -s "$work/root/$file" ] || fail "$file is not in the package"
done
for file in etc/gpusnoop_exporter/config.yaml etc/default/gpusnoop_exporter; do
    grep -qx "/$file" "$work/control/conffiles" || fail "$file would be overwritten by an upgrade"
done
grep -q '^Depends:.*libbpf1' "$work/control/control" || fail "it does not depend on libbpf"
grep -q '^Depends:.*libcurl4' "$work/control/control" || fail "it does not depend on libcurl, which top loads"
! ldd "$work/root/usr/bin/gpusnoop_exporter" | grep -q libcurl || fail "the exporter is linked with libcurl, which only top needs"
grep -q '^Depends:.*adduser' "$work/control/control" || fail "it does not depend on adduser"
for script in postinst prerm postrm; do
    sh -n "$work/control/$script" || fail "$script is no shell script"
done

# The unit starts what is in the package, as the user that the package makes.
unit=$work/root/usr/lib/systemd/system/gpusnoop_exporter.service
start=$(sed -n 's/^ExecStart=//p' "$unit")
[ -x "$work/root${start%% *}" ] || fail "the unit starts ${start%% *}, which is not in the package"
config=$(sed 's/.*--config.file=\([^ ]*\).*/\1/' <<<"$start")
[ -f "$work/root$config" ] || fail "the unit reads $config, which is not in the package"
grep -q "adduser .* $(sed -n 's/^User=//p' "$unit")\$" <(tr -d '\\' <"$work/control/postinst" | tr '\n' ' ' | sed 's/ fi .*//;s/ *$//') ||
    fail "the package does not make the unit's user"

program=$work/root/usr/bin/gpusnoop_exporter
"$program" check-config --config.file="$work/root$config" >/dev/null || fail "its configuration is not valid"
ways() { "$1" doctor | grep -E 'uprobe_|btf|ring_buffer' || true; }
diff <(ways "$build/gpusnoop_exporter") <(ways "$program") || fail "the packaged program can do less than the built one"
echo "$(basename "$package"): complete and clean"
