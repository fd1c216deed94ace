"""What a CUDA program does, minute by minute: the models say nothing of metrics or alerts.

Each behaviour is a function of the minute since the program's start.
"""
import dataclasses
import typing
import zlib

GIB = 1 << 30
MIB = 1 << 20


def never(_minute):
    return 0


def nothing(_minute):
    return {}


@dataclasses.dataclass
class Copies:
    """Synchronous copies from the host to the GPU, of one minute."""
    number: int
    size: int
    seconds: float


@dataclasses.dataclass
class Program:
    comm: str
    pid: str
    start: int = -1440
    end: int = 10**9
    script: str = ""
    container: str = ""
    slurm: str = ""
    pod: tuple = ()                                  # namespace, name, uid
    gpu: str = "0"
    memory: typing.Callable = never                  # bytes of device memory held
    replaces: float = 0                              # share of what it holds that it frees and allocates again
    launches: typing.Callable = never                # kernel launches
    unseen: float = 0                                # share of the launches that cuda.max_overhead leaves out; the rest has no duration
    late: float = 0                                  # share of the launches that wait for longer than 10 ms
    graphs: typing.Callable = never                  # graph launches
    copies: typing.Callable = lambda minute: None
    utilization: typing.Callable = lambda minute: 90  # of the GPU, in percent
    calls: typing.Callable = nothing                 # (library, function): calls
    slow: typing.Callable = nothing                  # (library, function): calls over slow_threshold
    failures: typing.Callable = nothing              # (library, function, error): failed library calls
    errors: typing.Callable = nothing                # (function, error): failed CUDA calls
    verdict: str = "own_use"                         # why those failed that ran out of memory
    nccl: typing.Callable = never                    # all-reduces
    sends: typing.Callable = never                   # to one other rank
    lost: typing.Callable = never                    # all-reduces whose records found no room
    rank: str = ""
    nranks: str = ""
    communicator: str = ""                           # empty: of all ranks of this job
    blocked: typing.Callable = nothing               # probe: threads inside a call that does not return
    hangs: typing.Callable = nothing                 # (library, function): seconds that a call has not returned for
    traced: bool = True                              # by a library that the probes know
    held: typing.Callable = lambda minute: None      # host.Minute of its launching thread, if that is not as usual
    waits: typing.Callable = lambda minute: "poll"   # the state it waits in while it launches nothing
    workers: float = 0                               # CPUs that its data loaders use
    host_memory: typing.Callable = lambda minute: 3 * GIB
    swap: typing.Callable = never                    # bytes of it that are in swap
    major_faults: typing.Callable = never
    reclaim: typing.Callable = never                 # seconds in which its threads free memory
    segments: typing.Callable = never                # TCP, to other machines
    sent_again: typing.Callable = never              # of these
    connects: typing.Callable = nothing              # error, or "" for those that succeed: TCP connects
    signals: typing.Callable = lambda minute: ()     # (signal, sender)
    cause: str = "0"                                 # of its end
    cause_of_worker: str = ""                        # of the end of a worker at that time
    numa_node: str = "0"                             # where it runs
    first_launch: object = None                      # the minute of it, once somebody has asked

    def runs(self, minute):
        return self.start <= minute < self.end

    def named(self):
        """The communicator's hash, the same of all ranks of a job."""
        of = self.communicator or f"{self.comm} {self.script} {self.slurm} {self.start} {self.nranks}"
        return f"{zlib.crc32(of.encode()):08x}"

    def labels(self):
        of = {"comm": self.comm, "script": self.script, "container_id": self.container, "slurm_job_id": self.slurm}
        return {key: value for key, value in of.items() if value}


def steps(*levels):
    """steps((0, 1), (60, 5)): 1 from minute 0 on, 5 from minute 60 on."""
    def at(minute):
        return [value for begin, value in levels if begin <= minute][-1]
    return at


def ramp(begin, end, top, bottom=0):
    """From bottom to top between two minutes, and flat before and after."""
    def at(minute):
        share = min(max((minute - begin) / (end - begin), 0), 1)
        return int(bottom + (top - bottom) * share)
    return at


def training(minute, every=60, phase=6):
    """Whether a training job of this age is in its hourly validation: no all-reduces then."""
    return minute >= every and minute % every < phase


def trainer(pid, loads=10, model=40 * GIB, cache=2 * GIB, checkpoint=90, ops=60, **more):
    """A PyTorch job: loads its model, warms up, validates every hour, writes a checkpoint, evaluates at the end
    of each third hour. The allocator keeps what it has once asked for, so each new phase is one growth."""
    grows = [(60, cache), (checkpoint, cache // 2), (180, cache)]

    def memory(minute):
        return ramp(0, loads, model, 16 * MIB)(minute) + sum(size for begin, size in grows if minute >= begin)

    def writes(minute):
        return minute >= checkpoint and minute % checkpoint < 3

    defaults = {
        "memory": memory,
        "launches": lambda m: 0 if m < loads or writes(m) else 6000,
        "copies": lambda m: Copies(60, 60_000_000, 0.18),
        "nccl": lambda m: 0 if m < loads or training(m) or writes(m) else ops,
        # Loading kernels, and writing a checkpoint, are slow calls of healthy programs.
        "slow": lambda m: {("libcudart.so.12", "cudaLaunchKernel"): 6} if m == loads else (
            {("libcudart.so.12", "cudaMemcpy"): 4} if writes(m) else {}),
        "calls": lambda m: {("libcudart.so.12", "cudaLaunchKernel"): 6000, ("libcudart.so.12", "cudaMemcpy"): 60,
                            ("libcudart.so.12", "cudaStreamSynchronize"): 60},
        # Ranks are refused until the first one listens.
        "segments": lambda m: 0 if m < 3 else 60_000,
        "sent_again": lambda m: 0 if m < 3 else 6,
        "connects": lambda m: {"ECONNREFUSED": 20} if m < 3 else {"": 16} if m == 3 else {},
        "waits": lambda m: "file" if writes(m) else "futex",
        "workers": 1.5,
        # While rank 0 writes, the others wait for it in a call.
        "blocked": lambda m: {"functions": 1, "cuda": 1},
    }
    return Program(pid=pid, **{"comm": "python3", "script": "train.py", **defaults, **more})
