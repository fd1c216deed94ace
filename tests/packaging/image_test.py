#!/usr/bin/env python3
"""The image of scripts/image.sh, made of what packages_test.sh has made: image_test.py BUILD-DIRECTORY [EMULATOR]

Its size, its labels, its files; and it runs in crun, as docs/install.md runs it in Docker. An image for arm64 runs by
qemu-user as EMULATOR, without a container, and is then made beside one for amd64: one image for both."""

import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from serving import Serving

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAPABILITIES = ["CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE", "CAP_SYS_ADMIN"]
FILES = re.compile(r"^(usr/bin/gpusnoop_exporter|etc/gpusnoop_exporter/config\.yaml|etc/ssl/certs/ca-certificates\.crt|etc/passwd|etc/group"
                   r"|lib(64)?/([^/]*/)?(libc|libm|ld-linux-[^.]*)\.so\.\d+|usr/share/doc/[^/]*/(copyright|third-party-licenses\.gz)"
                   r"|var/lib/dpkg/status\.d/[^/]*)$")


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    if done.returncode != 0:
        raise SystemExit(f"{command}: {done.returncode}\n{done.stdout}")
    return done.stdout


def expect(what, condition):
    if not condition:
        raise SystemExit(f"not so: {what}")


def unpacked(archive, layout):
    layout.mkdir()
    run("tar", "-xf", archive, "-C", layout)
    (listed,) = json.loads((layout / "index.json").read_bytes())["manifests"]
    return layout, listed


def blob(layout, descriptor):
    return json.loads((layout / "blobs" / descriptor["digest"].replace(":", "/")).read_bytes())


def check_machine(layout, listed, architecture):
    """The machine that the index names is that of the image. Returns both."""
    manifest = blob(layout, listed)
    config = blob(layout, manifest["config"])
    expect(f"the index has it for {architecture}: {listed}", listed["platform"] == {"os": "linux", "architecture": architecture})
    expect(f"it is for {architecture}: {config}", (config["os"], config["architecture"]) == ("linux", architecture))
    return manifest, config


def check_layout(layout, listed, archive, architecture):
    manifest, config = check_machine(layout, listed, architecture)
    labels = config["config"]["Labels"]
    of_commit = run("git", "-C", ROOT, "rev-parse", "HEAD").strip()
    expect("the label of the revision is the commit", labels["org.opencontainers.image.revision"] == of_commit)
    for label in "title", "description", "version", "created", "licenses", "source":
        expect(f"there is a label {label}", labels.get(f"org.opencontainers.image.{label}"))
    expect("the image starts the exporter", config["config"]["Entrypoint"][0] == "/usr/bin/gpusnoop_exporter")
    size = archive.stat().st_size
    expect(f"{size} bytes are less than 40 MB", size < 40_000_000)
    files = []
    for layer in manifest["layers"]:
        with gzip.open(layout / "blobs" / layer["digest"].replace(":", "/")) as data, tarfile.open(fileobj=data) as tar:
            files += [member.name.removeprefix("./") for member in tar if not member.isdir()]
            tar.close()
    expect(f"only these files: {[file for file in files if not FILES.match(file)]}", all(map(FILES.match, files)))
    expect("there are the files of the exporter", len(files) > 10)
    return listed["annotations"]["org.opencontainers.image.ref.name"], size


def as_documented(bundle):
    """The container's configuration: the host's processes and network, read-only, few capabilities."""
    path = bundle / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["process"].update(terminal=False, noNewPrivileges=True,
                             capabilities={kind: CAPABILITIES for kind in ("bounding", "effective", "permitted")})
    config["process"]["args"] += ["--web.listen-address=127.0.0.1:0"]
    config["process"].pop("rlimits", None)
    config.pop("hostname", None)
    config["root"]["readonly"] = True
    config["linux"] = {"namespaces": [{"type": "mount"}], "maskedPaths": [], "readonlyPaths": []}
    bind = {"type": "bind", "options": ["rbind", "ro"]}
    config["mounts"] = [{"destination": "/proc", **bind, "source": "/proc"}, {"destination": "/sys", **bind, "source": "/sys"}]
    path.write_text(json.dumps(config), encoding="utf-8")


class InContainer(Serving):
    """crun takes all arguments from the bundle."""

    def __init__(self, *command):
        super().__init__(*command)
        self.command.pop()


def check_emulated(emulator, root):
    """The image has all that its program needs."""
    program = [emulator, "-L", root, root / "usr/bin/gpusnoop_exporter"]
    expect("it says its version", run(*program, "--version").startswith("gpusnoop_exporter, version "))
    run(*program, "check-config", f"--config.file={root}/etc/gpusnoop_exporter/config.yaml")


def check_both(packages, work):
    """Of two machines' files: the images, one for both, and their checksums. Any program is enough of the other machine."""
    shutil.copytree(packages, work / "both")
    (tarball,) = (work / "both").glob("*.linux-arm64.tar.gz")
    run("tar", "-xzf", tarball, "-C", work)
    shutil.copy(shutil.which("true"), work / tarball.name.removesuffix(".tar.gz") / "gpusnoop_exporter")
    run("tar", "-czf", str(tarball).replace("arm64", "amd64"), "-C", work, tarball.name.removesuffix(".tar.gz"))
    run(ROOT / "scripts/image.sh", work / "both")
    run("sha256sum", "--check", "--quiet", "SHA256SUMS", cwd=work / "both")
    images = {archive.name.partition(".linux")[2]: archive for archive in (work / "both").glob("*.oci.tar")}
    expect(f"there are three images: {images}", set(images) == {".oci.tar", "-amd64.oci.tar", "-arm64.oci.tar"})
    layout, listed = unpacked(images[".oci.tar"], work / "of-both")
    manifests = blob(layout, listed)["manifests"]
    for architecture, manifest in zip(("amd64", "arm64"), manifests, strict=True):
        check_machine(layout, manifest, architecture)
        alone, in_it = unpacked(images[f"-{architecture}.oci.tar"], work / architecture)
        expect("it is the image for one machine", manifest["digest"] == in_it["digest"])
        expect("they have one name", listed["annotations"] == in_it["annotations"])
        expect("all of it is there", {path.name for path in (alone / "blobs/sha256").iterdir()} <=
               {path.name for path in (layout / "blobs/sha256").iterdir()})


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    emulator = sys.argv[2] if len(sys.argv) > 2 else None
    architecture = "arm64" if emulator else run("dpkg", "--print-architecture").strip()
    packages = build / "packages"
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        run(ROOT / "scripts/image.sh", packages)
        (archive,) = packages.glob("*.oci.tar")
        first = archive.read_bytes()
        run(ROOT / "scripts/image.sh", packages)
        expect("two runs make the same image", first == archive.read_bytes())
        layout, listed = unpacked(archive, work / "layout")
        tag, size = check_layout(layout, listed, archive, architecture)
        run("umoci", "unpack", *([] if os.geteuid() == 0 else ["--rootless"]), "--image", f"{layout}:{tag}", work / "bundle")
        if emulator:
            check_emulated(emulator, work / "bundle/rootfs")
            check_both(packages, work)
            print(f"{size / 1e6:.1f} MB, and it runs by {emulator}")
            return 0
        as_documented(work / "bundle")
        # crun refuses a machine with both versions of control groups, so it sees one, which has no controllers.
        one_version = ["unshare", "--mount", "sh", "-c",
                       'umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && exec "$@"', "sh"]
        with InContainer(*one_version, "crun", "--cgroup-manager=disabled", f"--root={work}/state", "run", "--bundle", work / "bundle", "gpusnoop-test") as it:
            expect("it serves its page", "gpusnoop_build_info{" in it.page())
    print(f"{size / 1e6:.1f} MB, and it runs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
