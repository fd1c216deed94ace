"""What dcgm-exporter and kube-state-metrics say of the same GPUs and pods."""

from fleet.clock import wobble
from fleet.work import DEVICE_KINDS, MIB

CONTEXT_MIB = 480  # of each process, beside what it allocates


def dcgm(store, node, works, clock):
    store.target = {"cluster": node.cluster, "job": "dcgm-exporter", "instance": f"{node.name}:9400"}
    for gpu in range(4):
        here = [(one, process) for one in works for process in one.processes if process.gpu == gpu]
        used, busy = [0.0] * clock.count, [0.0] * clock.count
        for one, _ in here:
            for index in range(clock.index(one.start), clock.index(one.end)):
                second = clock.seconds[index]
                used[index] += CONTEXT_MIB + sum(holding.bytes(second) for holding in one.memory
                                                 if holding.memory_kind in DEVICE_KINDS) / MIB
                busy[index] += one.utilization(second)
        pods = [one.pod for one, _ in here if one.pod]
        pod = {"namespace": pods[0].namespace, "pod": pods[0].name, "container": pods[0].container} if pods else {}
        labels = {"gpu": gpu, "UUID": node.uuid(gpu), "pci_bus_id": "0000" + node.bus(gpu).upper(),
                  "device": f"nvidia{gpu}", "modelName": node.model, "Hostname": node.name, **pod}
        lost = node.failing if gpu == 2 and node.failing is not None else float("inf")
        shape = wobble(f"{node.name} {gpu} busy", 0.08, 600)
        busy = [0 if second > lost else min(100, 100 * value * shape(second))
                for value, second in zip(busy, clock.seconds)]
        used = [min(node.memory_mib - 300, value + 4) for value in used]
        power = [70 + 5.6 * value for value in busy]
        for name, values in (("FB_USED", used), ("FB_FREE", [node.memory_mib - value for value in used]),
                             ("GPU_UTIL", busy), ("POWER_USAGE", power),
                             ("GPU_TEMP", [31 + value / 14 for value in power])):
            store.gauge(f"DCGM_FI_DEV_{name}", labels, values)
        store.gauge("DCGM_FI_DEV_XID_ERRORS", {**labels, "err_code": "79" if node.failing and gpu == 2 else "0"},
                    [79 if second > lost else 0 for second in clock.seconds])


def kubernetes(store, works, cluster, clock):
    store.target = {"cluster": cluster, "job": "kube-state-metrics", "instance": "kube-state-metrics.monitoring:8080"}
    for one in works:
        if not one.pod:
            continue
        first, last = clock.index(one.start), clock.index(one.end)
        labels = {"namespace": one.pod.namespace, "pod": one.pod.name, "uid": one.pod_uid}
        store.constant("kube_pod_info", {**labels, "node": one.node, "created_by_kind": "Job"}, 1, first, last)
        store.constant("kube_pod_container_info", {**labels, "container": one.pod.container,
                                                   "container_id": f"containerd://{one.container_id}"}, 1, first, last)
        store.constant("kube_pod_container_resource_requests", {**labels, "container": one.pod.container,
                                                                "node": one.node, "resource": "nvidia_com_gpu",
                                                                "unit": "integer"},
                       len(one.gpus), first, last)
