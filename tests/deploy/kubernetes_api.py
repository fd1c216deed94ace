"""Compares objects with Kubernetes' API, as Debian's package python3-kubernetes describes it (1.30):
every field must be there, be of its type, and those that must be given are. Its models are read where
scripts/setup.sh unpacks them, without the client around them and what that needs.

Of the Prometheus operator's objects, what our chart uses of them is written down here."""

import importlib
import pathlib
import re
import sys
import types

KINDS = {
    ("v1", "Namespace"): "V1Namespace",
    ("v1", "ServiceAccount"): "V1ServiceAccount",
    ("v1", "ConfigMap"): "V1ConfigMap",
    ("v1", "Service"): "V1Service",
    ("apps/v1", "DaemonSet"): "V1DaemonSet",
    ("networking.k8s.io/v1", "NetworkPolicy"): "V1NetworkPolicy",
}
SCALARS = {"str": str, "int": int, "float": (int, float), "bool": bool}
# The API takes a quantity as a number as well, a port or a share by name or number.
_NUMBER_TOO = {"resources"}


def _relabeling():
    return {"action": str, "regex": str, "replacement": str, "separator": str, "sourceLabels": [str],
            "targetLabel": str, "modulus": int}


def _endpoint():
    return {"port": str, "path": str, "interval": str, "scrapeTimeout": str, "scheme": str, "honorLabels": bool,
            "honorTimestamps": bool, "params": dict, "tlsConfig": dict, "basicAuth": dict,
            "relabelings": [_relabeling()], "metricRelabelings": [_relabeling()]}


def _monitor(endpoints):
    return {"spec": {"selector": {"matchLabels": dict}, "namespaceSelector": dict, "jobLabel": str,
                     endpoints: [_endpoint()]}}


OPERATOR = {
    "PodMonitor": _monitor("podMetricsEndpoints"),
    "ServiceMonitor": _monitor("endpoints"),
    # promtool looks at what is in groups.
    "PrometheusRule": {"spec": {"groups": [dict]}},
}


class Api:
    def __init__(self, client):
        """client: the directory kubernetes/client of the package."""
        models = pathlib.Path(client) / "models"
        if not models.is_dir():
            raise FileNotFoundError(f"no {models} (scripts/setup.sh --tests)")
        sys.dont_write_bytecode = True
        configuration = types.ModuleType("kubernetes.client.configuration")
        configuration.Configuration = type("Configuration", (), {"client_side_validation": True})
        for name, path in (("kubernetes", client), ("kubernetes.client", client), ("kubernetes.client.models", models)):
            package = types.ModuleType(name)
            package.__path__ = [str(path)]
            sys.modules.setdefault(name, package)
        sys.modules.setdefault("kubernetes.client.configuration", configuration)
        sys.modules.setdefault("six", types.ModuleType("six"))
        self._module_of = {}
        for path in models.glob("v*.py"):
            for name in re.findall(r"^class (\w+)\(", path.read_text(encoding="utf-8"), re.M):
                self._module_of[name] = path.stem

    def _model(self, name):
        return getattr(importlib.import_module(f"kubernetes.client.models.{self._module_of[name]}"), name)

    def mistakes(self, thing):
        """Of an object with apiVersion and kind: sentences."""
        where = f"{thing.get('kind')} {thing.get('metadata', {}).get('name')}"
        group = str(thing.get("apiVersion", ""))
        if not thing.get("metadata", {}).get("name"):
            yield f"{where}: has no name"
        if group == "monitoring.coreos.com/v1" and thing.get("kind") in OPERATOR:
            yield from self._of_model(thing.get("metadata"), "V1ObjectMeta", f"{where}.metadata")
            rest = {key: value for key, value in thing.items() if key not in ("apiVersion", "kind", "metadata")}
            yield from _of_shape(rest, OPERATOR[thing["kind"]], where)
        elif (group, thing.get("kind")) in KINDS:
            yield from self._of_model(thing, KINDS[group, thing["kind"]], where)
        else:
            yield f"{where}: {group} has no such kind that we know"

    def _of_model(self, value, name, where):
        if not isinstance(value, dict):
            yield f"{where}: is no object"
            return
        model = self._model(name)
        fields = {json: attribute for attribute, json in model.attribute_map.items()}
        for key, below in value.items():
            if key not in fields:
                yield f"{where}: there is no field {key}"
            elif below is None:
                yield f"{where}.{key}: is null"
            else:
                yield from self._of_type(below, model.openapi_types[fields[key]], f"{where}.{key}")
        # Those that must be given refuse to be nothing.
        made = model.__new__(model)
        made.local_vars_configuration = sys.modules["kubernetes.client.configuration"].Configuration()
        for json, attribute in fields.items():
            if json in value:
                continue
            try:
                setattr(made, attribute, None)
            except ValueError:
                yield f"{where}: has no {json}"

    def _of_type(self, value, kind, where):
        listed = re.fullmatch(r"list\[(.+)\]", kind)
        mapped = re.fullmatch(r"dict\(str, (.+)\)", kind)
        if listed:
            if not isinstance(value, list):
                yield f"{where}: is no list"
                return
            for number, below in enumerate(value):
                yield from self._of_type(below, listed.group(1), f"{where}[{number}]")
        elif mapped:
            if not isinstance(value, dict):
                yield f"{where}: is no object"
                return
            for key, below in value.items():
                if isinstance(below, (int, float)) and set(where.split(".")) & _NUMBER_TOO:
                    continue
                yield from self._of_type(below, mapped.group(1), f"{where}.{key}")
        elif kind in SCALARS:
            if not isinstance(value, SCALARS[kind]) or (kind != "bool" and isinstance(value, bool)):
                yield f"{where}: {value!r} is no {kind}"
        elif kind != "object":
            yield from self._of_model(value, kind, where)


def _of_shape(value, shape, where):
    if isinstance(shape, list):
        if not isinstance(value, list):
            yield f"{where}: is no list"
            return
        for number, below in enumerate(value):
            yield from _of_shape(below, shape[0], f"{where}[{number}]")
    elif isinstance(shape, dict):
        if not isinstance(value, dict):
            yield f"{where}: is no object"
            return
        for key, below in value.items():
            if key in shape:
                yield from _of_shape(below, shape[key], f"{where}.{key}")
            else:
                yield f"{where}: there is no field {key}"
    elif not isinstance(value, shape) or (shape is not bool and isinstance(value, bool)):
        yield f"{where}: {value!r} is no {shape.__name__}"
