#!/usr/bin/env python3
"""Installs, runs, upgrades and removes the packages that packages_test.sh has made: install_test.py BUILD deb|rpm

It does so in an overlay of this machine's file system, of which nothing stays. The rpm is installed by Debian's
rpm, into a database of its own, which knows nothing of what Debian has: dependencies are compared by text."""

import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from serving import Serving

CONFIG = "etc/gpusnoop_exporter/config.yaml"
UNIT = "usr/lib/systemd/system/gpusnoop_exporter.service"
KINDS = {
    "deb": {"file": "gpusnoop-exporter_*.deb", "generator": "DEB",
            "install": ["dpkg", "--force-confold", "-i"], "upgrade": ["dpkg", "--force-confold", "-i"],
            "remove": ["dpkg", "-r", "gpusnoop-exporter"], "purge": ["dpkg", "-P", "gpusnoop-exporter"]},
    "rpm": {"file": "gpusnoop-exporter-*.rpm", "generator": "RPM",
            "install": ["rpm", "--force-debian", "--nodeps", "-i"], "upgrade": ["rpm", "--force-debian", "--nodeps", "-U"],
            "remove": ["rpm", "--force-debian", "-e", "gpusnoop-exporter"], "purge": None},
}


def run(*command, check=True):
    done = subprocess.run(list(map(str, command)), check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if check and done.returncode != 0:
        raise SystemExit(f"{command}: {done.returncode}\n{done.stdout}")
    return done.stdout


def expect(what, condition):
    if not condition:
        raise SystemExit(f"not so: {what}")


def mount_root(directory):
    """Only this process and its children see it."""
    run("mount", "-t", "tmpfs", "none", directory)
    for name in "upper", "work", "root":
        (directory / name).mkdir()
    root = directory / "root"
    run("mount", "-t", "overlay", "none", "-o", f"lowerdir=/,upperdir={directory}/upper,workdir={directory}/work", root)
    for name in "proc", "sys", "dev":
        run("mount", "--rbind", f"/{name}", root / name)
    # No service manager is asked to start anything.
    run("mount", "-t", "tmpfs", "none", root / "run")
    run("mount", "-t", "tmpfs", "none", root / "tmp")
    return root


def newer_package(build, kind, directory):
    """The same, of a later version, and compressed quickly."""
    run("cpack", "-G", kind["generator"], "--config", build / "CPackConfig.cmake", "-D", "CPACK_PACKAGE_VERSION=99.0.0",
        "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=none", "-D", "CPACK_RPM_COMPRESSION_TYPE=gzip", "-B", directory)
    (package,) = directory.glob(kind["file"])
    return package


def check_runs(root):
    """As the unit starts it: as its user, with its capabilities."""
    unit = (root / UNIT).read_text(encoding="utf-8")
    of_unit = {key: re.search(rf"^{key}=(.*)$", unit, re.M).group(1) for key in ("User", "AmbientCapabilities", "ExecStart")}
    capabilities = ",".join("+" + name.lower().removeprefix("cap_") for name in
                            of_unit["AmbientCapabilities"].split() + ["CAP_SYS_ADMIN"])
    command = of_unit["ExecStart"].removesuffix(" $ARGS").split()
    user = of_unit["User"]
    with Serving("chroot", root, "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups",
                 f"--inh-caps=-all,{capabilities}", f"--ambient-caps=-all,{capabilities}", *command) as serving:
        expect("it serves its page", "gpusnoop_build_info{" in serving.page())


def left_in(directory):
    """What differs from the machine, except for what packages share."""
    shared = re.compile(r"^(etc/(group|passwd|g?shadow|sub[ug]id)-?$|var/(cache|log|lib/(dpkg|rpm|systemd))/|dev/|root/|etc/\.pwd\.lock$)")
    upper = directory / "upper"
    files = (str(path.relative_to(upper)) for path in upper.rglob("*") if not path.is_dir())
    return [file for file in files if not shared.match(file)]


def inside(build, kind):
    with tempfile.TemporaryDirectory() as temporary:
        directory = pathlib.Path(temporary)
        root = mount_root(directory)
        (package,) = (build / "packages").glob(kind["file"])
        newer = newer_package(build, kind, directory)
        for file in package, newer:
            (root / "tmp" / file.name).write_bytes(file.read_bytes())
        in_root = lambda command, *files: run("chroot", root, *command, *(f"/tmp/{file.name}" for file in files))

        in_root(kind["install"], package)
        expect("the user is made", "gpusnoop_exporter" in run("chroot", root, "getent", "passwd", "gpusnoop_exporter"))
        run("chroot", root, "gpusnoop_exporter", "check-config", f"--config.file=/{CONFIG}")
        check_runs(root)

        changed = (root / CONFIG).read_text(encoding="utf-8") + "# of the administrator\n"
        (root / CONFIG).write_text(changed, encoding="utf-8")
        in_root(kind["upgrade"], newer)
        expect("an upgrade keeps a changed configuration", (root / CONFIG).read_text(encoding="utf-8") == changed)
        check_runs(root)

        in_root(kind["remove"])
        expect("the program is gone", not (root / "usr/bin/gpusnoop_exporter").exists())
        kept = root / (CONFIG if kind["purge"] else CONFIG + ".rpmsave")
        expect(f"{kept} is kept", kept.read_text(encoding="utf-8") == changed)
        if kind["purge"]:
            in_root(kind["purge"])
        else:
            kept.unlink()
        expect(f"nothing is left: {left_in(directory)}", not left_in(directory))
        run("umount", "-l", directory)


def main():
    build, kind = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    if sys.argv[3:] == ["--inside"]:
        inside(build, KINDS[kind])
        print(f"the {kind} installs, runs, upgrades and goes")
        return 0
    return subprocess.run(["unshare", "--mount", sys.executable, *sys.argv, "--inside"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
