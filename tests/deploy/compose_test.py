#!/usr/bin/env python3
"""docker/compose.yaml and fleet.yaml, as far as can be seen without a Docker: compose_test.py DOCKER_COMPOSE STANDIN_DIR

docker-compose reads it; then each thing that one service says of another, of a file or of a build stage is
looked up."""

import http.server
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.parse
import urllib.request

import yaml

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from complaints import complain, complaints, conclude, same

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DOCKER = ROOT / "docker"
# Of the kernel, and of no file of ours.
OF_THE_HOST = {"/etc/passwd", "/sys/fs/bpf", "/sys/kernel/btf", "/sys/kernel/tracing"}
DEMO = {"train", "infer", "nccl", "math"}


def read_by_compose(docker_compose, path, *options):
    """What docker-compose understands, or None and what it says."""
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run([docker_compose, "-f", path, *options, "config", "--format", "json"], check=False,
                              text=True, capture_output=True, env={**os.environ, "HOME": home})
    return (json.loads(done.stdout), "") if done.returncode == 0 else (None, done.stderr)


def load(path):
    return yaml.safe_load((DOCKER / path).read_text(encoding="utf-8"))


def mounts(service):
    """Where in the service -> which file or directory of the machine."""
    return {volume["target"]: volume["source"] for volume in service.get("volumes", []) if volume["type"] == "bind"}


def stages():
    text = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
    return set(re.findall(r"^FROM \S+ AS (\S+)$", text, re.M))


def check_services(project):
    declared = set(project["volumes"])
    for name, service in project["services"].items():
        if "build" in service:
            same(f"{name}: its Dockerfile", ROOT / service["build"]["dockerfile"], DOCKER / "Dockerfile")
            if service["build"]["target"] not in stages():
                complain(f"{name}: the Dockerfile has no stage {service['build']['target']}")
        if not re.search(r":v?\d+\.\d+\.\d+(-slim)?$", service["image"]):
            complain(f"{name}: {service['image']} is not one version")
        for volume in service.get("volumes", []):
            if volume["type"] == "volume":
                if volume["source"] not in declared:
                    complain(f"{name}: there is no volume {volume['source']}")
                continue
            same(f"{name}: may write to {volume['source']}", not volume.get("read_only"),
                 name == "exporter" and volume["source"] == "/sys/fs/bpf")  # its pins
            if volume["source"] not in OF_THE_HOST and not os.path.exists(volume["source"]):
                complain(f"{name}: there is no {volume['source']}")
        for port in service.get("ports", []):
            same(f"{name}: who can reach the port {port['target']}", port.get("host_ip"), "127.0.0.1")
        if service.get("privileged"):
            complain(f"{name}: is privileged")
    ports = [port["published"] for service in project["services"].values() for port in service.get("ports", [])]
    same("ports that are there twice", len(ports) - len(set(ports)), 0)


def check_exporter(project):
    service = project["services"]["exporter"]
    unit = (ROOT / "packaging/gpusnoop_exporter.service").read_text(encoding="utf-8")
    of_unit = re.search(r"^CapabilityBoundingSet=(.*)$", unit, re.M).group(1).replace("CAP_", "").split()
    same("the exporter's capabilities", (service["cap_drop"], service["cap_add"]), (["ALL"], of_unit))
    same("the exporter's processes", service["pid"], "host")
    same("the exporter's configuration", mounts(service)["/etc/gpusnoop_exporter/config.yaml"], str(ROOT / "config.yaml"))
    version = re.search(r"project\(gpusnoop_exporter VERSION ([0-9.]+)",
                        (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")).group(1)
    same("the exporter's image", service["image"], f"gpusnoop_exporter:{version}")


def reachable(project, address, what):
    """address: HOST:PORT, of a service's one port."""
    host, _, port = address.partition(":")
    of_host = [entry["target"] for entry in project["services"].get(host, {}).get("ports", [])]
    if int(port) not in of_host:
        complain(f"{what}: no service {host} has the port {port}")


def check_prometheus(project):
    config = load("prometheus/compose.yml")
    service = project["services"]["prometheus"]
    same("Prometheus' configuration", mounts(service)["/etc/prometheus/prometheus.yml"], str(DOCKER / "prometheus/compose.yml"))
    for job in config["scrape_configs"]:
        for address in job["static_configs"][0]["targets"]:
            reachable(project, address.replace("localhost", "prometheus"), f"job {job['job_name']}")
    reachable(project, config["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"][0], "Prometheus' Alertmanager")
    (rules,) = config["rule_files"]
    directory, glob = os.path.split(rules)
    found = sorted(path.name for path in pathlib.Path(mounts(service)[directory]).glob(glob))
    same("the rules", found, sorted(path.name for path in (ROOT / "dashboards/rules").glob("gpusnoop_*.yaml")))
    # Except for what it scrapes and where alerts go, it is the example.
    example = load("prometheus/prometheus.yml")
    ours = config["scrape_configs"][0]
    theirs = example["scrape_configs"][0]
    same("the job of the example", {**ours, "static_configs": 0}, {**theirs, "static_configs": 0})
    same("the intervals of the example", config["global"], example["global"])
    return config["global"]["scrape_interval"]


def check_grafana(project, interval):
    service = project["services"]["grafana"]
    sources = load("grafana/datasources.yaml")["datasources"]
    for source in sources:
        reachable(project, urllib.parse.urlparse(source["url"]).netloc, f"data source {source['name']}")
    same("data sources", {source["type"]: source.get("isDefault", False) for source in sources},
         {"prometheus": True, "alertmanager": False})
    same("Grafana's scrape interval", sources[0]["jsonData"]["timeInterval"], interval)
    (provider,) = load("grafana/dashboards.yaml")["providers"]
    dashboards = pathlib.Path(mounts(service)[provider["options"]["path"]])
    same("the dashboards", dashboards, ROOT / "dashboards/grafana")
    home = service["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    same("Grafana's first page", (os.path.dirname(home), (dashboards / os.path.basename(home)).exists()),
         (provider["options"]["path"], True))
    for kind in "datasources", "dashboards":
        same(f"Grafana's {kind}", mounts(service)[f"/etc/grafana/provisioning/{kind}/gpusnoop.yaml"],
             str(DOCKER / f"grafana/{kind}.yaml"))


def check_alertmanager(project):
    services = project["services"]
    same("Alertmanager's configuration", mounts(services["alertmanager"])["/etc/alertmanager/alertmanager.yml"],
         str(DOCKER / "alertmanager/alertmanager.yml"))
    same("who hears its messages", services["messages"]["network_mode"], "service:alertmanager")
    command = services["messages"]["command"]
    urls = [url["url"] for receiver in load("alertmanager/alertmanager.yml")["receivers"]
            for url in receiver.get("webhook_configs", [])]
    same("the messages' port", {urllib.parse.urlparse(url).netloc for url in urls}, {f"127.0.0.1:{command[-1]}"})
    program = pathlib.Path(mounts(services["messages"])[command[-2]])
    module = importlib.util.module_from_spec(spec := importlib.util.spec_from_file_location("print_messages", program))
    spec.loader.exec_module(module)
    message = {"alerts": [{"status": "firing", "labels": {"alertname": "A", "severity": "warning", "instance": "n1", "pod": "p"},
                           "annotations": {"description": "What."}}]}
    same("a message", list(module.lines("/owners", message)), ["to owners: firing: A (warning) instance=n1 pod=p\n    What."])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), module.Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for body, status in ((json.dumps(message).encode(), 200), (b"{", 400), (b"[]", 400)):
        request = urllib.request.Request(f"http://127.0.0.1:{server.server_port}/owners", data=body)
        try:
            with urllib.request.urlopen(request) as answer:
                same("the answer to a message", answer.status, status)
        except urllib.error.HTTPError as error:
            same("the answer to a message", error.code, status)
    server.shutdown()


def check_demo(project, standin):
    """Programs and libraries are among those that the stage builds."""
    text = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
    same("where the demo's programs are", f"PATH=/demo/standin:" in text and "/demo/standin /demo/standin" in text, True)
    for name in DEMO:
        service = project["services"][name]
        same(f"{name}: its capabilities", (service["cap_drop"], service.get("cap_add")), (["ALL"], None))
        words = " ".join(service["command"]).replace(";", " ").split()
        programs = [word for word in words if word in ("workload", "ranks", "failing_libraries")]
        same(f"{name}: how many programs it runs", len(programs), 1)
        libraries = [word.split(":")[0] for word in words if word.startswith("lib")]
        for file in programs + libraries:
            if not (standin / file).exists():
                complain(f"{name}: the stand-ins have no {file}")


def check_fleet(docker_compose, of_compose):
    """The fleet's Prometheus is in the place of the other, for the same Grafana."""
    project, said = read_by_compose(docker_compose, DOCKER / "fleet.yaml")
    if project is None:
        complain(said)
        return
    check_services(project)
    services = project["services"]
    same("the fleet's services", set(services), {"prometheus", "grafana"})
    same("the fleet's Grafana", services["grafana"], of_compose["services"]["grafana"])
    source = next(one for one in load("grafana/datasources.yaml")["datasources"] if one.get("isDefault"))
    reachable(project, urllib.parse.urlparse(source["url"]).netloc, "the fleet's data source")
    same("the fleet's capabilities", (services["prometheus"]["cap_drop"], services["prometheus"].get("cap_add")),
         (["ALL"], None))
    version = project["services"]["prometheus"]["image"].partition(":")[2]
    same("the fleet's version", of_compose["services"]["exporter"]["image"].partition(":")[2], version)


def check_refusals(docker_compose):
    """docker-compose does look, and so do we."""
    text = (DOCKER / "compose.yaml").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "compose.yaml")
        path.write_text(text.replace("cap_drop: [ALL]", "cap_dropp: [ALL]", 1), encoding="utf-8")
        read, said = read_by_compose(docker_compose, path)
        same("a wrong key is refused", (read, "cap_dropp" in said), (None, True))
        # Elsewhere, none of the files are there.
        path.write_text(text, encoding="utf-8")
        read, said = read_by_compose(docker_compose, path)
        before = len(complaints)
        check_services(read)
        found = complaints[before:]
        del complaints[before:]
        same("missing files are found", sum("there is no /" in one for one in found) > 5, True)


def main():
    docker_compose, standin = sys.argv[1], pathlib.Path(sys.argv[2])
    if not os.access(docker_compose, os.X_OK):
        print(f"no {docker_compose} (scripts/setup.sh --tests)")
        return 1 if "CI" in os.environ else 4
    plain, said = read_by_compose(docker_compose, DOCKER / "compose.yaml")
    project, said_of_demo = read_by_compose(docker_compose, DOCKER / "compose.yaml", "--profile", "demo")
    if plain is None or project is None:
        print(said or said_of_demo)
        return 1
    same("what runs without the demo", set(project["services"]) - set(plain["services"]), DEMO)
    check_services(project)
    check_exporter(project)
    check_grafana(project, check_prometheus(project))
    check_alertmanager(project)
    check_demo(project, standin)
    check_fleet(docker_compose, project)
    check_refusals(docker_compose)
    return conclude(f"{len(project['services'])} services fit together")


if __name__ == "__main__":
    sys.exit(main())
