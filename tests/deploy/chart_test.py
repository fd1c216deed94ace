#!/usr/bin/env python3
"""The chart, with several sets of values: chart_test.py EXPORTER PROMTOOL KUBERNETES_CLIENT

What it makes is what Kubernetes' API has, fits together, gives no more privileges than the service has
that the Debian package installs, and has our configuration, rules and dashboards as they are here."""

import copy
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import jsonschema
import yaml

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "docker/kubernetes"), str(ROOT / "dashboards/rules")]

# pylint: disable=wrong-import-position
import manifests
from complaints import complain, complaints, conclude, same
import render
from kubernetes_api import Api

EVERYTHING = """
createNamespace: true
config: {syscall: {enabled: true}, series: {budget: 5000}}
extraArgs: [--log.format=json]
webConfigSecret: web
imagePullSecrets: [{name: registry}]
probes: {scheme: HTTPS}
podLabels: {team: gpu}
podAnnotations: {example.org/owner: gpu}
extraVolumes: [{name: sinks, emptyDir: {}}]
extraVolumeMounts: [{name: sinks, mountPath: /var/lib/gpusnoop_exporter}]
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}
serviceAccount: {annotations: {example.org/a: b}}
monitor:
  kind: PodMonitor
  scheme: https
  tlsConfig: {insecureSkipVerify: true}
  basicAuth: {username: {name: web, key: user}, password: {name: web, key: password}}
  labels: {release: prometheus}
  relabelings: [{action: replace, targetLabel: cluster, replacement: here}]
  metricRelabelings: [{action: drop, sourceLabels: [__name__], regex: gpusnoop_syscall.*}]
prometheusRule: {enabled: true, labels: {release: prometheus}}
dashboards: {enabled: true, namespace: grafana}
"""
SETS = {
    "the defaults": ([], "1.32.0"),
    "everything": ([EVERYTHING], "1.32.0"),
    "a ServiceMonitor, on an older Kubernetes": (
        ["monitor: {kind: ServiceMonitor}\nhostNetwork: false\nport: 9999\nnameOverride: snoop\n"], "1.29.3"),
    "a network policy, labels of the cluster, and two alerts less": (
        ["hostNetwork: false\nnetworkPolicy:\n  enabled: true\n  from:\n"
         "    - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}\n"
         "commonLabels: {cluster: a, team: gpu}\nmonitor: {kind: ServiceMonitor}\ndashboards: {enabled: true, namespace: grafana}\n"
         "prometheusRule: {enabled: true, disabled: [GpusnoopSlowCalls, GpusnoopExporterDown]}\n"], "1.32.0"),
    "other thresholds and runbooks": (
        ["prometheusRule:\n  enabled: true\n  runbooks: https://wiki.example.org/gpu\n  thresholds:\n"
         "    {leak_growth: 3GiB, leak_share: 0.02, leak_for: 1h, slow_calls: 10, errors_oom: cudaErrorMemoryAllocation}\n"], "1.32.0"),
    "with next to nothing": (
        ["nodeSelector: null\ntolerations: []\npriorityClassName: ''\nappArmorProfile: ''\n"
         "serviceAccount: {create: false, name: there}\nfullnameOverride: g\nimage: {tag: v1}\n"
         "probes: {scheme: TCP}\nseLinuxOptions: {type: spc_t}\nuserNames: false\n"], "1.32.0"),
}
# What values.schema.json must refuse.
REFUSED = ["ports: 1", "port: '19435'", "port: 80", "monitor: {kind: Monitor}", "monitor: {interval: 15}",
           "capabilities: [BPF]", "capabilities: [BPF, PERFMON, NET_ADMIN]", "config: ''", "extraArgs: [log]",
           "prometheusRule: {enable: true}", "prometheusRule: {thresholds: {leak_growth: [1]}}",
           "prometheusRule: {runbooks: wiki}", "fullnameOverride: Capital", "image: {}",
           "networkPolicy: {from: monitoring}", "commonLabels: {a: 1}", "prometheusRule: {disabled: GpusnoopSlowCalls}",
           "nodeSelector: {nvidia.com/gpu.present: true}", "userNames: /etc/passwd"]


def load(text):
    return list(yaml.safe_load_all(text))


def only(objects, kind):
    found = [one for one in objects if one["kind"] == kind]
    if len(found) != 1:
        raise AssertionError(f"{len(found)} objects are of the kind {kind}")
    return found[0]


def check_config(text, exporter):
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "config.yaml")
        path.write_text(text, encoding="utf-8")
        done = subprocess.run([exporter, "check-config", f"--config.file={path}"], check=False, text=True,
                              capture_output=True)
    if done.returncode != 0:
        complain(f"config.yaml: {done.stdout}{done.stderr}")


def check_fits_together(objects, values):
    """Names that one object has of another."""
    daemon_set = only(objects, "DaemonSet")
    pod = daemon_set["spec"]["template"]
    labels = pod["metadata"]["labels"].items()
    selectors = [("DaemonSet", daemon_set["spec"]["selector"]["matchLabels"])]
    service = only(objects, "Service")
    selectors.append(("Service", service["spec"]["selector"]))
    (container,) = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for port in service["spec"]["ports"]:
        same("the service's port", (ports[port["targetPort"]], port["port"]), (values["port"], values["port"]))
    for monitor in (one for one in objects if one["kind"] in ("PodMonitor", "ServiceMonitor")):
        of_pods = monitor["kind"] == "PodMonitor"
        of_services = service["metadata"]["labels"].items()
        selector = monitor["spec"]["selector"]["matchLabels"]
        if not selector.items() <= (labels if of_pods else of_services):
            complain(f"{monitor['kind']}: selects nothing: {selector}")
        (endpoint,) = monitor["spec"]["podMetricsEndpoints" if of_pods else "endpoints"]
        known = ports if of_pods else {port["name"] for port in service["spec"]["ports"]}
        if endpoint["port"] not in known:
            complain(f"{monitor['kind']}: there is no port {endpoint['port']}")
        check_relabelings(endpoint, values)
    for name, selector in selectors:
        if not selector.items() <= labels:
            complain(f"{name}: selects no pod: {selector}")
    listen = [argument for argument in container["args"] if argument.startswith("--web.listen-address=")]
    same("the address", listen, [f"--web.listen-address=:{ports['metrics']}"])
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
    same("volumes and their mounts", {mount["name"] for mount in container["volumeMounts"]}, volumes)
    same("whether users have names", "users" in volumes, values["userNames"])
    config_map = next(volume["configMap"]["name"] for volume in pod["spec"]["volumes"] if volume["name"] == "config")
    if not any(one["kind"] == "ConfigMap" and one["metadata"]["name"] == config_map for one in objects):
        complain(f"there is no ConfigMap {config_map}")
    if values["serviceAccount"]["create"]:
        same("the service account", pod["spec"]["serviceAccountName"], only(objects, "ServiceAccount")["metadata"]["name"])
    for probe in "startupProbe", "livenessProbe", "readinessProbe":
        connects = values["probes"]["scheme"] == "TCP"
        get = container[probe]["tcpSocket" if connects else "httpGet"]
        if ports.get(get["port"]) is None or not connects and get["path"] not in ("/-/healthy", "/-/ready"):
            complain(f"{probe}: {get}")
    same("SELinux", container["securityContext"].get("seLinuxOptions", {}), values["seLinuxOptions"])


def check_relabelings(endpoint, values):
    """As Prometheus does it: the target that comes out of a pod's labels."""
    target = {"__meta_kubernetes_pod_node_name": "node-1", "job": "ns/name", "instance": "10.0.0.7:19435",
              "namespace": "gpu-monitoring", "pod": "gpusnoop-x", "container": "exporter", "endpoint": "metrics"}
    for step in endpoint["relabelings"]:
        if step.get("action") == "labeldrop":
            target = {name: value for name, value in target.items() if not re.fullmatch(step["regex"], name)}
        else:
            source = ";".join(target.get(name, "") for name in step.get("sourceLabels", []))
            target[step["targetLabel"]] = step["replacement"].replace("${1}", source)
    target = {name: value for name, value in target.items() if not name.startswith("__")}
    target.pop("cluster", None)
    same("the target's labels", target, {"job": "gpusnoop", "instance": f"node-1:{values['port']}"})
    same("honorLabels", endpoint.get("honorLabels", False), False)


def check_privileges(objects):
    """What the unit of the Debian package has, and no more."""
    pod = only(objects, "DaemonSet")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    unit = (ROOT / "packaging/gpusnoop_exporter.service").read_text(encoding="utf-8")
    of_unit = re.search(r"^CapabilityBoundingSet=(.*)$", unit, re.M).group(1).replace("CAP_", "").split()
    security = container["securityContext"]
    same("capabilities", security["capabilities"], {"drop": ["ALL"], "add": of_unit})
    same("privileged", (security["privileged"], security["allowPrivilegeEscalation"]), (False, False))
    same("readOnlyRootFilesystem", security["readOnlyRootFilesystem"], True)
    same("hostPID", pod["hostPID"], True)
    same("hostIPC", "hostIPC" in pod, False)
    same("the service account's token", pod["automountServiceAccountToken"], False)
    for mount in container["volumeMounts"]:
        same(f"readOnly of {mount['mountPath']}", mount.get("readOnly", False),
             mount["mountPath"] != "/sys/fs/bpf")  # its pins
    paths = {volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
    same("the host's paths", paths, {"/etc/passwd", "/sys/fs/bpf", "/sys/kernel/btf", "/sys/kernel/tracing"})


def without(rules, alerts):
    for group in rules["groups"]:
        group["rules"] = [rule for rule in group["rules"] if rule.get("alert") not in alerts]
    return rules


def check_labels_and_policy(objects, values):
    """Labels that all have, and who may connect."""
    given = values["commonLabels"].items()
    pod = only(objects, "DaemonSet")["spec"]["template"]
    for one in [*objects, pod]:
        if one.get("kind") != "Namespace" and not given <= one["metadata"]["labels"].items():
            complain(f"{one.get('kind', 'Pod')}: lacks labels of commonLabels: {one['metadata']['labels']}")
    policies = [one["spec"] for one in objects if one["kind"] == "NetworkPolicy"]
    same("network policies", len(policies), int(values["networkPolicy"]["enabled"]))
    for policy in policies:
        if not policy["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items():
            complain(f"NetworkPolicy: selects no pod: {policy['podSelector']}")
        (rule,) = policy["ingress"]
        same("who may connect", rule["from"], values["networkPolicy"]["from"])
        known = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
        same("ports of the network policy", {port["port"] for port in rule["ports"]}, known)


def check_contents(objects, values, exporter, promtool):
    """Configuration, rules and dashboards are ours."""
    config = only([one for one in objects if "config.yaml" in one.get("data", {})], "ConfigMap")["data"]["config.yaml"]
    check_config(config, exporter)
    rules = {one["metadata"]["name"]: one["spec"] for one in objects if one["kind"] == "PrometheusRule"}
    given = values["prometheusRule"]
    settings = [f"{name}={value}" for name, value in given["thresholds"].items()]
    settings += [f"runbooks={given['runbooks']}"] if given["runbooks"] else []
    expected = {}
    for path, text in render.render_all(ROOT / "dashboards/rules/source", settings).items():
        name = path.removesuffix(".yaml").removeprefix("gpusnoop_").replace("_", "-")
        expected[f"gpusnoop-exporter-{name}"] = without(yaml.safe_load(text), given["disabled"])
    if rules:
        same("the rules", rules, expected)
        with tempfile.TemporaryDirectory() as directory:
            for name, spec in rules.items():
                pathlib.Path(directory, f"{name}.yaml").write_text(yaml.safe_dump(spec), encoding="utf-8")
            done = subprocess.run([promtool, "check", "rules", *sorted(map(str, pathlib.Path(directory).iterdir()))],
                                  check=False, text=True, capture_output=True)
        if done.returncode != 0:
            complain(f"promtool: {done.stdout}{done.stderr}")
    dashboards = {}
    for one in objects:
        for name, text in one.get("data", {}).items():
            if name.endswith(".json"):
                dashboards[name] = json.loads(text)
                same(f"the label of {name}", one["metadata"]["labels"].get("grafana_dashboard"), "1")
                same(f"the namespace of {name}", one["metadata"]["namespace"], "grafana")
    if dashboards:
        same("the dashboards", dashboards, {path.name: json.loads(path.read_text(encoding="utf-8"))
                                            for path in (ROOT / "dashboards/grafana").glob("*.json")})
    return bool(rules), bool(dashboards)


def merged(base, over):
    for key, value in (over or {}).items():
        base[key] = merged(base[key], value) if isinstance(value, dict) and isinstance(base.get(key), dict) else value
    return base


def check_values(chart):
    """values.yaml and our sets are what the schema has, and it refuses what is wrong."""
    schema = json.loads((chart / "values.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    defaults = yaml.safe_load((chart / "values.yaml").read_text(encoding="utf-8"))
    for name, (texts, _) in SETS.items():
        values = copy.deepcopy(defaults)
        for text in texts:
            merged(values, yaml.safe_load(text))
        for error in validator.iter_errors(values):
            complain(f"values of {name}: {error.json_path}: {error.message}")
    for text in REFUSED:
        values = {**copy.deepcopy(defaults), **yaml.safe_load(text)}
        if validator.is_valid(values):
            complain(f"values.schema.json does not refuse {text}")
    undescribed = set(defaults) ^ (set(schema["properties"]) - {"global"})
    same("values without a schema, and the other way round", undescribed, set())
    return defaults


def broken(objects):
    """Objects that the API would refuse, each with what must be said of it."""
    def change(kind, where, value):
        thing = copy.deepcopy(only(objects, kind))
        below = thing
        for key in where[:-1]:
            below = below[key]
        if value is None:
            del below[where[-1]]
        else:
            below[where[-1]] = value
        return thing

    pod = ("spec", "template", "spec")
    container = (*pod, "containers", 0)
    yield change("DaemonSet", (*pod, "hostPid"), True), "there is no field hostPid"
    yield change("DaemonSet", (*pod, "hostPID"), "true"), "is no bool"
    yield change("DaemonSet", (*container, "args"), "--a"), "is no list"
    yield change("DaemonSet", (*container, "name"), None), "has no name"
    yield change("DaemonSet", (*container, "securityContext", "capabilities", "adds"), []), "there is no field adds"
    yield change("DaemonSet", (*container, "ports", 0, "containerPort"), "http"), "is no int"
    yield change("DaemonSet", ("spec", "selector"), None), "has no selector"
    yield change("DaemonSet", ("metadata", "labels", "a"), 1), "is no str"
    yield change("DaemonSet", ("kind",), "DaemonSets"), "no such kind"
    yield change("Service", ("spec", "ports", 0, "port"), None), "has no port"
    yield change("Service", ("metadata", "name"), None), "has no name"
    yield change("PodMonitor", ("spec", "endpoints"), []), "there is no field endpoints"
    yield change("PodMonitor", ("spec", "podMetricsEndpoints", 0, "honorlabels"), True), "there is no field honorlabels"


def check_chart_itself(chart):
    metadata = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
    version = re.search(r"project\(gpusnoop_exporter VERSION ([0-9.]+)",
                        (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")).group(1)
    same("the chart's versions", (metadata["version"], metadata["appVersion"]), (version, version))
    same("the chart's name", metadata["name"], chart.name)
    # Links, so that there is nothing to keep in step; each leads to a file of ours.
    linked = {path.resolve() for path in (chart / "files").rglob("*") if path.is_symlink()}
    expected = {ROOT / "config.yaml", ROOT / "dashboards/grafana", ROOT / "dashboards/rules/source/thresholds.yaml"}
    same("what the chart links to", linked, expected)


def check_refused(program):
    """Alerts that are not there, and a policy that would apply to no pod."""
    for text, reason in (("prometheusRule: {enabled: true, disabled: [GpusnoopSlowCall]}", "GpusnoopSlowCall is no alert"),
                         ("networkPolicy: {enabled: true}", "set hostNetwork: false")):
        try:
            manifests.render(program, [text])
            complain(f"the chart takes {text}")
        except manifests.Mistake as mistake:
            same(f"that {text} is refused", reason in str(mistake), True)


def check_wrong_thresholds(program):
    """One that is not there, and one from which others are computed."""
    for name in ("leak_grwth", "leak_window"):
        try:
            manifests.render(program, [f"prometheusRule: {{enabled: true, thresholds: {{{name}: 1h}}}}"])
            complain(f"the chart takes the threshold {name}")
        except manifests.Mistake as mistake:
            same(f"that {name} is refused", f"thresholds.{name}: no rule" in str(mistake), True)


def main():
    exporter, promtool, client = sys.argv[1:]
    missing = [path for path in (exporter, promtool, client) if not os.path.exists(path)]
    if missing:
        print(f"no {', '.join(missing)} (scripts/setup.sh --tests)")
        return 1 if "CI" in os.environ else 4
    api = Api(client)
    program = manifests.renderer()
    check_chart_itself(manifests.CHART)
    defaults = check_values(manifests.CHART)
    check_wrong_thresholds(program)
    check_refused(program)
    with_rules, with_dashboards = False, False
    for name, (texts, version) in SETS.items():
        before = len(complaints)
        values = copy.deepcopy(defaults)
        for text in texts:
            merged(values, yaml.safe_load(text))
        objects = load(manifests.render(program, texts, "-kube-version", version))
        mistakes = [mistake for thing in objects for mistake in api.mistakes(thing)]
        if mistakes:
            complaints.extend(f"{name}: {mistake}" for mistake in mistakes)
            continue
        check_fits_together(objects, values)
        check_labels_and_policy(objects, values)
        found = check_contents(objects, values, exporter, promtool)
        with_rules, with_dashboards = with_rules or found[0], with_dashboards or found[1]
        if name == "the defaults":
            check_privileges(objects)
        if name == "everything":
            for thing, expected in broken(objects):
                said = list(api.mistakes(thing))
                if not any(expected in one for one in said):
                    complain(f"a broken {thing['kind']} passes: {expected!r} is not in {said}")
        template = only(objects, "DaemonSet")["spec"]["template"]
        old = "container.apparmor.security.beta.kubernetes.io/exporter" in template["metadata"]["annotations"]
        new = "appArmorProfile" in template["spec"]["containers"][0]["securityContext"]
        expected = (version < "1.30", version >= "1.30") if values["appArmorProfile"] else (False, False)
        same("AppArmor", (old, new), expected)
        notes = manifests.render(program, texts, "-notes")
        same("whether the notes say that nothing scrapes", "Nothing scrapes" in notes, values["monitor"]["kind"] == "none")
        complaints[before:] = [f"{name}: {one}" for one in complaints[before:]]
    same("rules and dashboards were looked at", (with_rules, with_dashboards), (True, True))
    return conclude(f"{len(SETS)} sets of values make what they should")


if __name__ == "__main__":
    sys.exit(main())
