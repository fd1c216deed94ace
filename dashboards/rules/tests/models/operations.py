"""What happens to exporters, to Prometheus and to clusters while programs are healthy."""
from .healthy import graph_inference
from .programs import GIB, MIB, Copies, Program, ramp, trainer
from .world import Node, World

# Of last week: it was a page then, and is none now.
OLD_ECC = {("cudaMemcpy", "cudaErrorECCUncorrectable"): 1}


def ranks(nodes, **more):
    """One job with a rank on each node."""
    return [Node(f"n{number + 1}:19435", [
        trainer(str(1000 + number), start=-300, slurm="50", rank=str(number), nranks=str(nodes), **more)]) for number in range(nodes)]


def scarred(pid):
    """A program that met an ECC error an hour ago, and still runs."""
    return trainer(pid, start=-50, slurm="51", errors=lambda m: OLD_ECC if m == 0 else {})


def exporter_restart():
    """An exporter restarts beside a job that replaces what it holds bit by bit, without pins."""
    job = trainer("1100", start=-300, end=330, slurm="52", replaces=0.004)
    return World(360, [Node(programs=[job], starts=(-14400, 30))])


def exporter_restart_with_pins():
    """An exporter restarts with pinned tables: it knows what was allocated before."""
    job = trainer("1150", start=-300, slurm="53", replaces=0.004)
    return World(240, [Node(programs=[job], starts=(-14400, 30), pins=True)])


def rollout():
    """A new version rolls over twelve nodes that run one job, a node every two minutes."""
    nodes = ranks(12, replaces=0.004)
    for number, node in enumerate(nodes):
        node.starts = (-14400, 20 + 2 * number)
    return World(240, nodes)


def prometheus_restart_with_data():
    """Prometheus is away for three minutes, and has its data of before."""
    return World(150, [Node(programs=[scarred("1200")]), *ranks(3)[1:]], unseen=[(60, 63)])


def prometheus_restart_without_data():
    """Prometheus begins without data: all that exporters have counted for days is new to it."""
    holder = Program("python3", "1310", start=-600, script="serve.py", memory=lambda m: 30 * GIB, launches=lambda m: 100)
    failed = Program("python3", "1320", start=-55, end=-40, script="broken.py", gpu="2",
                     slow=lambda m: {("libcudart.so.12", "cudaMemcpy"): 5},
                     errors=lambda m: {("cudaMalloc", "cudaErrorMemoryAllocation"): 9,
                                       ("cudaDeviceSynchronize", "cudaErrorIllegalAddress"): 1})
    node = Node(programs=[scarred("1300"), holder, failed], gpus=("0", "1", "2"), folded=lambda m: 5 if m == -30 else 0,
                attach_failures=lambda m: 1 if m == -30 else 0, sink_lost=lambda m: 5 if m == -30 else 0,
                all_ones=lambda m: (10, 10) if m == -30 else (1, 0))
    return World(150, [node], begins=10)


def no_scrapes():
    """The network is gone for half an hour, and then all is as it was."""
    nodes = [Node(programs=[scarred("1400")], down=[(60, 90)]), *ranks(3)[1:]]
    return World(240, nodes)


def scaled_to_zero():
    """An autoscaler takes all GPU nodes away for the night, and brings them back."""
    there = ((-1440, 60), (300, 10**9))
    def job(pid, start, end):
        return trainer(pid, start=start, end=end, container=pid, pod=("lab", f"train-{pid}", pid))
    nodes = [Node(f"n{number}:19435", [job(f"15{number}0", -100, 55), job(f"15{number}1", 310, 10**6)],
                  starts=(-14400, 300), here=there) for number in (1, 2)]
    return World(420, nodes)


def two_clusters():
    """Two clusters whose nodes and pids have the same names."""
    nodes = []
    for cluster in ("east", "west"):
        copies = Copies(60, 60_000_000, 0.18 if cluster == "east" else 0.9)
        for number in range(4):
            jobs = [trainer(str(1600 + number), start=-100, slurm="60", rank=str(number), nranks="4",
                            copies=lambda m, copies=copies: copies,
                            nccl=lambda m, c=cluster: 0 if m < 10 else 60 if c == "east" else 20)]
            nodes.append(Node(f"n{number + 1}:19435", jobs, cluster=cluster))
    return World(200, nodes)


def ubuntu():
    """A node whose capabilities are not enough for kprobes, and without NVLink: probes are unsupported, not failed, and
    those of hosts are off."""
    node = graph_inference().nodes[0]
    node.host = False
    node.states = {"pcie": "unsupported", "nvlink": "unsupported", "fence": "unsupported", "syscall": "disabled"}
    return World(120, [node])


def without_dcgm():
    """Nodes without dcgm-exporter and kube-state-metrics: a job, a server that replays graphs, and an idle GPU."""
    server = Program("server", "1700", start=-400, memory=ramp(0, 5, 60 * GIB, 16 * MIB), graphs=lambda m: 600,
                     copies=lambda m: Copies(100, 300_000, 0.002), gpu="1")
    return World(200, [Node(programs=[trainer("1701", start=-400), server], gpus=("0", "1", "2"), dcgm=False, host=False)])


ALL = [exporter_restart, exporter_restart_with_pins, rollout, prometheus_restart_with_data, prometheus_restart_without_data,
       no_scrapes, scaled_to_zero, two_clusters, ubuntu, without_dcgm]
