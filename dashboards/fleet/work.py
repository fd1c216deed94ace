"""What runs: a work is what one container, or one Slurm step, does on one node."""

import dataclasses
import random
import typing

MIB, GIB = 2**20, 2**30
DEVICE_KINDS = ("device", "async", "managed", "vmm")


@dataclasses.dataclass(frozen=True)
class Pod:
    namespace: str
    name: str
    container: str


@dataclasses.dataclass(frozen=True)
class Slurm:
    job: int
    step: int
    user: str
    uid: int


@dataclasses.dataclass(frozen=True)
class Holding:
    """Memory that each process holds on its GPU: bytes over seconds."""
    memory_kind: str
    site: str
    bytes: typing.Callable
    mean_size: int = 8 * MIB
    # Allocated and freed again with each step of an activity: bytes.
    churn: typing.Mapping = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Kernel:
    activity: str
    name: str
    per_step: float
    grid: str
    block: str
    duration: float = 5e-6  # of the launch call
    unobserved: float = 0.0  # seconds of a step in which launches are not seen, by cuda.max_overhead


@dataclasses.dataclass(frozen=True)
class Copy:
    activity: str
    direction: str
    mode: str
    per_step: float
    bytes: int
    bandwidth: float  # of synchronous copies, bytes per second


@dataclasses.dataclass(frozen=True)
class Timing:
    """A time between two events that the program reads."""
    activity: str
    per_step: float
    seconds: float


@dataclasses.dataclass(frozen=True)
class Memset:
    activity: str
    per_step: float
    bytes: int


@dataclasses.dataclass(frozen=True)
class Function:
    activity: str
    library: str
    name: str
    per_step: float
    mean: float
    spread: float = 0.5  # of the logarithm of the duration
    slow: float = 1.0  # seconds from which a call is slow
    unobserved: float = 0.0  # seconds of a step in which it is not seen, by cuda.max_overhead


@dataclasses.dataclass(frozen=True)
class Failure:
    """Failing calls, `per_step` of an activity; without a library, of the CUDA API."""
    activity: str
    function: str
    error: str
    per_step: float = 1.0
    library: str = ""


@dataclasses.dataclass(frozen=True)
class Collective:
    activity: str
    function: str
    datatype: str
    op: str
    per_step: float
    bytes: int


@dataclasses.dataclass(frozen=True)
class SystemCall:
    activity: str
    name: str
    per_step: float
    mean: float
    error: str = ""
    failing: float = 0.0  # the share that fails


@dataclasses.dataclass(frozen=True)
class Process:
    pid: int
    gpu: int
    rank: int


@dataclasses.dataclass
class Work:
    node: str
    comm: str
    gpus: tuple
    exe: str = "/usr/bin/python3.11"
    script: str = ""
    linkage: str = "shared"
    profiler: str = ""
    pod: Pod | None = None
    slurm: Slurm | None = None
    unit: str = ""
    start: float = -86400 * 3.0  # seconds from the start of the picture
    end: float = float("inf")
    first_rank: int = 0
    ranks: int = 0
    lag: typing.Callable | None = None  # operations that its last rank is behind
    unfreed: bool = False  # ends without freeing
    activities: dict = dataclasses.field(default_factory=dict)  # name: steps per second over seconds
    memory: list = dataclasses.field(default_factory=list)
    does: list = dataclasses.field(default_factory=list)
    utilization: typing.Callable = lambda second: 0.0  # of each of its GPUs, 0 to 1
    # Of activities that exclude each other: (phase, state) of the threads that launch, and the share of their time.
    threads: dict = dataclasses.field(default_factory=dict)
    loaders: bool = False  # whether it has data loaders
    cluster: str = ""

    def __post_init__(self):
        self._chance = random.Random(f"{self.node} {self.comm} {self.script} {self.pod} {self.slurm} {self.start}")
        pids = sorted(self._chance.sample(range(4000, 4_000_000), len(self.gpus)))
        self.processes = [Process(pid, gpu, self.first_rank + index)
                          for index, (pid, gpu) in enumerate(zip(pids, self.gpus))]

    def of(self, kind):
        return [one for one in self.does if isinstance(one, kind)]

    @property
    def container_id(self):
        return random.Random(f"{self.cluster} {self.node} {self.pod}").randbytes(32).hex() if self.pod else ""

    @property
    def pod_uid(self):
        if not self.pod:
            return ""
        digits = random.Random(f"{self.cluster} uid {self.pod}").randbytes(16).hex()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    @property
    def labels(self):
        """What each family of a probe may have; a family has those of its row in docs/metrics.md."""
        return {"comm": self.comm, "container_id": self.container_id, "script": self.script,
                "slurm_job_id": str(self.slurm.job) if self.slurm else ""}

    def info(self, complete):
        """What gpusnoop_process_info may have besides."""
        user = self.slurm.user if self.slurm else ("" if self.pod else "root")
        uid = self.slurm.uid if self.slurm else (1000 if self.pod else 0)
        return {"exe": self.exe, "pod_uid": self.pod_uid, "linkage": self.linkage,
                "uid": str(uid), "user": user,
                "slurm_step_id": str(self.slurm.step) if self.slurm else "",
                "systemd_unit": self.unit, "complete": "true" if complete else "false", "profiler": self.profiler}
