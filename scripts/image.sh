#!/bin/bash
# Makes the image, as an archive of OCI's format, from what `make dist` has made. It needs no daemon and no root:
# umoci writes the image. The same tarball and commit give the same bytes.
#
#   scripts/image.sh [DIST-DIRECTORY]     DIST/gpusnoop_exporter-VERSION.linux-ARCH.oci.tar, for each tarball there;
#                                         of several also DIST/gpusnoop_exporter-VERSION.linux.oci.tar, one image for all
#
# podman load, skopeo copy oci-archive:FILE docker://..., and docker load (25 and later) read it. The image for all
# machines needs skopeo copy --all.
set -euo pipefail
cd "$(dirname "$0")/.."
dist=$(realpath "${1:-dist}")
umask 022
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C
revision=$(git rev-parse HEAD)
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

archive() { # archive DIRECTORY FILE [OPTION...]
    tar -C "$1" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner "${@:3}" -cf "$2" .
}

image_of() { # image_of TARBALL LAYOUT
    local name version label=org.opencontainers.image
    name=$(basename "$1" .tar.gz)
    version=${name#*-}
    version=${version%.linux-*}
    rm -rf "$work/root"
    scripts/image_root.sh "$1" .deps/image "$work/root"
    archive "$work/root" "$work/layer.tar"
    umoci init --layout "$2"
    umoci new --image "$2:$version"
    umoci raw add-layer --image "$2:$version" --history.created "$created" "$work/layer.tar"
    umoci config --image "$2:$version" --history.created "$created" --created "$created" \
        --os linux --architecture "${name##*-}" --config.user 0 \
        --config.entrypoint /usr/bin/gpusnoop_exporter --config.entrypoint --config.file=/etc/gpusnoop_exporter/config.yaml \
        --config.exposedports 19435/tcp \
        --config.label "$label.title=gpusnoop_exporter" \
        --config.label "$label.description=Prometheus exporter of what CUDA programs do" \
        --config.label "$label.version=$version" --config.label "$label.revision=$revision" \
        --config.label "$label.created=$created" --config.label "$label.licenses=MIT AND (GPL-2.0-only OR BSD-2-Clause)" \
        --config.label "$label.source=${GPUSNOOP_SOURCE_URL:-https://github.com/gpusnoop/gpusnoop_exporter}"
    umoci gc --layout "$2" >/dev/null
}

layouts=()
made() { # made NAME LAYOUT...: writes DIST/NAME.oci.tar
    rm -rf "$work/image"
    scripts/image_index.py "$work/image" "${@:2}"
    archive "$work/image" "$dist/$1.oci.tar" --mode=go=rX
    ls -l "$dist/$1.oci.tar"
}
for tarball in "$dist"/gpusnoop_exporter-*.linux-*64.tar.gz; do
    [ -f "$tarball" ] || { echo "image: no tarball in $dist: run make dist" >&2; exit 1; }
    name=$(basename "$tarball" .tar.gz)
    image_of "$tarball" "$work/$name"
    layouts+=("$work/$name")
    made "$name" "$work/$name"
done
[ ${#layouts[@]} -eq 1 ] || made "${name%-*}" "${layouts[@]}"
(cd "$dist" && sha256sum -- *.tar.gz *.deb *.rpm *.spdx.json *.oci.tar >SHA256SUMS)
