#!/usr/bin/env python3
"""Makes an OCI layout of those that umoci has made for one machine each: image_index.py NEW LAYOUT...

Each manifest is listed with its machine. Of several layouts, NEW has one image, whose index names a manifest for
each machine; its name is theirs."""

import hashlib
import json
import pathlib
import shutil
import sys

NAME = "org.opencontainers.image.ref.name"
INDEX = "application/vnd.oci.image.index.v1+json"


def blob(layout, descriptor):
    return json.loads((layout / "blobs" / descriptor["digest"].replace(":", "/")).read_bytes())


def described(layout):
    """The descriptor of a layout's only image, with its machine."""
    (descriptor,) = json.loads((layout / "index.json").read_bytes())["manifests"]
    config = blob(layout, blob(layout, descriptor)["config"])
    return descriptor | {"platform": {"architecture": config["architecture"], "os": config["os"]}}


def encoded(*manifests):
    return json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}, separators=(",", ":")).encode()


def main():
    new, *layouts = map(pathlib.Path, sys.argv[1:])
    for layout in layouts:
        shutil.copytree(layout, new, dirs_exist_ok=True)
    manifests = [described(layout) for layout in layouts]
    index = encoded(*manifests)
    if len(manifests) > 1:
        (name,) = {manifest.pop("annotations")[NAME] for manifest in manifests}
        inner = encoded(*manifests)
        digest = hashlib.sha256(inner).hexdigest()
        (new / "blobs/sha256" / digest).write_bytes(inner)
        index = encoded({"mediaType": INDEX, "digest": f"sha256:{digest}", "size": len(inner), "annotations": {NAME: name}})
    (new / "index.json").write_bytes(index)


if __name__ == "__main__":
    main()
