#!/bin/bash
# Makes the image, as an archive of OCI's format, from what `make dist` has made. It needs no daemon and no root:
# umoci writes the image. The same tarball and commit give the same bytes.
#
#   scripts/image.sh [DIST-DIRECTORY]     DIST/gpusnoop_exporter-VERSION.linux-ARCH.oci.tar
#
# podman load, skopeo copy oci-archive:FILE docker://..., and docker load (25 and later) read it.
set -euo pipefail
cd "$(dirname "$0")/.."
dist=$(realpath "${1:-dist}")
umask 022
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C
revision=$(git rev-parse HEAD)
tarball=$(echo "$dist"/gpusnoop_exporter-*.linux-*64.tar.gz)
[ -f "$tarball" ] || { echo "image: no tarball in $dist: run make dist" >&2; exit 1; }
name=$(basename "$tarball" .tar.gz)
version=${name#*-}
version=${version%.linux-*}
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

scripts/image_root.sh "$tarball" .deps/image "$work/root"
tar -C "$work/root" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf "$work/layer.tar" .

image=$work/image
umoci init --layout "$image"
umoci new --image "$image:$version"
umoci raw add-layer --image "$image:$version" --history.created "$created" "$work/layer.tar"
label=org.opencontainers.image
umoci config --image "$image:$version" --history.created "$created" --created "$created" \
    --os linux --architecture "${name##*-}" --config.user 0 \
    --config.entrypoint /usr/bin/gpusnoop_exporter --config.entrypoint --config.file=/etc/gpusnoop_exporter/config.yaml \
    --config.exposedports 19435/tcp \
    --config.label "$label.title=gpusnoop_exporter" \
    --config.label "$label.description=Prometheus exporter of what CUDA programs do" \
    --config.label "$label.version=$version" --config.label "$label.revision=$revision" \
    --config.label "$label.created=$created" --config.label "$label.licenses=MIT AND (GPL-2.0-only OR BSD-2-Clause)" \
    --config.label "$label.source=${GPUSNOOP_SOURCE_URL:-https://github.com/gpusnoop/gpusnoop_exporter}"
umoci gc --layout "$image" >/dev/null
tar -C "$image" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=go=rX \
    -cf "$dist/$name.oci.tar" .
ls -l "$dist/$name.oci.tar"
