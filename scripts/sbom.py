#!/usr/bin/env python3
"""The bill of materials of a build's exporter, as SPDX 2.3: sbom.py BUILD-DIRECTORY [--licenses FILE]

It has what the linker took, by its map, and the headers that were compiled, by the compiler's own lists. A file
belongs to the Debian package that has it, or to a source package in .deps. FILE gets the licences of all."""

import argparse
import hashlib
import json
import os
import pathlib
import re
import subprocess
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Packages that scripts/setup.sh has unpacked for arm64, not installed: their files, and dpkg's database of them.
ARM64 = (ROOT / ".deps/arm64").resolve()
UNPACKED = re.compile(re.escape(str(ARM64)) + "/(root|linux)(?=/usr/)")
UNPACKED_DATABASE = ("--admindir", str(ARM64 / "root/var/lib/dpkg"))
# Their headers declare what stays outside: the C library, the kernel, and libcurl, which `top` loads.
OUTSIDE = re.compile(r"^(libc6-dev|linux-libc-dev|libcurl4-openssl-dev)\b")
# Archives of the build -> the source package in .deps that they are made of.
FROM_SOURCE = {"libcivetweb.a": "civetweb", "libgpusnoop_fmt.a": "fmtlib", "libgpusnoop_spdlog.a": "spdlog",
               "libgpusnoop_zydis.a": "zydis"}


def linked_files(build):
    """The archives that members were taken from, and the objects that the compiler adds."""
    files = set()
    for line in (build / "gpusnoop_exporter.map").read_text(encoding="utf-8").splitlines():
        if found := re.match(r"(\S+\.a)\(\S+\)", line) or re.match(r"LOAD (/\S+\.o)$", line):
            files.add(os.path.realpath(build / found.group(1)))
    return files


def compiled_headers(build):
    listed = subprocess.run(["ninja", "-C", build, "-t", "deps"], check=True, capture_output=True, text=True).stdout
    headers, wanted = set(), False
    for line in listed.splitlines():
        if not line.startswith(" "):
            wanted = line.startswith(("exporter/", "bpf/"))
        elif wanted:
            file = os.path.realpath(build / line.strip())
            if line.strip().startswith("/usr/") or UNPACKED.match(file):
                headers.add(file)
    return headers


def debian_packages(files):
    """The packages that have these files, each with the options for its database; a file of none is an error."""
    unpacked = {file for file in files if UNPACKED.match(file)}
    return {(package, database)
            for some, database in ((files - unpacked, ()), ({UNPACKED.sub("", file) for file in unpacked}, UNPACKED_DATABASE))
            for package in owners_of(some, database)}


def owners_of(files, database):
    # Debian's packages name files below /usr also without it.
    asked = sorted(files) + sorted(file.removeprefix("/usr") for file in files)
    said = subprocess.run(["dpkg-query", *database, "-S", *asked], check=False, capture_output=True, text=True).stdout
    owners = {}
    for line in said.splitlines():
        packages, _, file = line.partition(": ")
        if not line.startswith("diversion by"):
            owners["/usr" + file if file.startswith("/lib") else file] = packages.split(", ")[0]
    if missing := sorted(files - set(owners)):
        raise SystemExit(f"sbom: no package has {', '.join(missing)}")
    return set(owners.values())


def debian(package, database):
    form = "${Package}\n${Version}\n${source:Package}\n${source:Version}\n${Architecture}"
    name, version, source, source_version, arch = subprocess.run(
        ["dpkg-query", *database, "-W", "-f", form, package], check=True, capture_output=True, text=True).stdout.split("\n")
    root = ARM64 / "root" if database else pathlib.Path("/")
    return {"name": name, "version": version, "licence": root / f"usr/share/doc/{name}/copyright",
            "purl": f"pkg:deb/debian/{name}@{urllib.parse.quote(version, safe=':~')}?arch={arch}"
                    f"&upstream={source}%40{urllib.parse.quote(source_version, safe=':~')}"}


def from_source(name):
    folder = ROOT / ".deps" / name
    version = (folder / "debian-version").read_text(encoding="utf-8").strip()
    licence = next(path for path in sorted(folder.iterdir()) if path.name.startswith("LICENSE"))
    return {"name": name, "version": version, "licence": licence,
            "purl": f"pkg:deb/debian/{name}@{urllib.parse.quote(version, safe=':~')}?arch=source"}


def materials(build):
    linked = linked_files(build)
    ours = {file for file in linked if file.startswith(f"{build}/")}
    sources = {FROM_SOURCE[name] for name in map(os.path.basename, ours) if name in FROM_SOURCE}
    headers = debian_packages(compiled_headers(build))
    packages = debian_packages(linked - ours) | {package for package in headers if not OUTSIDE.match(package[0])}
    return sorted([debian(*package) for package in packages] + [from_source(name) for name in sources],
                  key=lambda part: part["name"])


def document(build, parts):
    binary = (build / "gpusnoop_exporter").read_bytes()
    digest = hashlib.sha256(binary).hexdigest()
    version = re.search(r"project\(gpusnoop_exporter VERSION ([0-9.]+)",
                        (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")).group(1)
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
    unknown = {"downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
               "copyrightText": "NOASSERTION"}
    exporter = {"SPDXID": "SPDXRef-exporter", "name": "gpusnoop_exporter", "versionInfo": version, **unknown,
                "licenseDeclared": "MIT AND (GPL-2.0-only OR BSD-2-Clause)", "primaryPackagePurpose": "APPLICATION",
                "checksums": [{"algorithm": "SHA256", "checksumValue": digest}]}
    packages, relations = [exporter], [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-exporter")]
    for part in parts:
        ident = "SPDXRef-" + re.sub(r"[^A-Za-z0-9.]", "-", part["name"])
        packages.append({"SPDXID": ident, "name": part["name"], "versionInfo": part["version"], **unknown,
                         "licenseDeclared": "NOASSERTION", "supplier": "Organization: Debian",
                         "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                           "referenceLocator": part["purl"]}]})
        relations.append(("SPDXRef-exporter", "CONTAINS", ident))
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
            "name": f"gpusnoop_exporter-{version}", "documentNamespace": f"https://github.com/gpusnoop/gpusnoop_exporter/spdx/{digest}",
            "creationInfo": {"created": created, "creators": ["Tool: gpusnoop_exporter scripts/sbom.py"]},
            "packages": packages,
            "relationships": [{"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
                              for one, kind, other in relations]}


def licences(parts):
    yield "gpusnoop_exporter contains parts of these packages of Debian. Each has these terms.\n"
    for part in parts:
        text = pathlib.Path(part["licence"]).read_text(encoding="utf-8")
        yield f"\n{'=' * 80}\n{part['name']} {part['version']}\n{'=' * 80}\n\n{text}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--licenses", type=pathlib.Path)
    arguments = parser.parse_args()
    parts = materials(arguments.build)
    if arguments.licenses:
        arguments.licenses.parent.mkdir(exist_ok=True)
        arguments.licenses.write_text("".join(licences(parts)), encoding="utf-8")
    print(json.dumps(document(arguments.build, parts), indent=1))


if __name__ == "__main__":
    main()
