"""Programs, GPUs and exporters in trouble."""
from .programs import GIB, MIB, Copies, Program, ramp, trainer
from .world import Node, World

OOM = {("cudaMalloc", "cudaErrorMemoryAllocation"): 3}


def leaky(pid, per_minute, model=10 * GIB, **more):
    return trainer(pid, memory=lambda m: ramp(0, 10, model, 16 * MIB)(m) + per_minute * max(0, m - 10), **more)


def fast_leak():
    """A program holds 200 MiB more each minute, until it ends."""
    return World(330, [Node(programs=[leaky("2000", 200 * MIB, start=5, end=300, slurm="80"),
                                      trainer("2001", start=5, slurm="81", gpu="1")], gpus=("0", "1"))])


def slow_leak():
    """A server holds 40 MiB more each hour of its day, a hundredth of what it holds; it launches all the time."""
    leak = Program("server", "2100", start=-3000, memory=lambda m: 4 * GIB + m * 2 * MIB // 3, launches=lambda m: 600,
                   graphs=lambda m: 60)
    return World(660, [Node(programs=[leak])])


def oom_kills():
    """A job is refused memory, and ends of it; another of the same script runs on."""
    def victim(pid, gpu, slurm, **more):
        return trainer(pid, slurm=slurm, gpu=gpu, model=70 * GIB, **more)
    return World(120, [Node(programs=[victim("2200", "0", "82", start=0, end=46, errors=lambda m: OOM if m == 45 else {}),
                                      victim("2201", "1", "83", start=0)], gpus=("0", "1"))])


def oom_again_and_again():
    """A server is refused memory for every large request, frees its cache, and lives on."""
    server = Program("python3", "2300", start=-100, script="serve.py", memory=lambda m: 70 * GIB, launches=lambda m: 900,
                     errors=lambda m: {("cudaMalloc", "cudaErrorMemoryAllocation"): 2} if 130 <= m < 220 else {})
    return World(180, [Node(programs=[server])])


def ecc_error():
    """The memory of a GPU fails: the first error of its kind on this node. The job ends with it."""
    job = trainer("2400", start=-100, end=61, slurm="84",
                  errors=lambda m: {("cudaMemcpy", "cudaErrorECCUncorrectable"): 1} if m == 160 else {})
    return World(180, [Node(programs=[job])])


def ecc_error_unseen():
    """The memory of a GPU fails while the node cannot be scraped."""
    job = trainer("2450", start=-100, slurm="84",
                  errors=lambda m: {("cudaMemcpy", "cudaErrorECCUncorrectable"): 1} if m in (50, 170) else {})
    return World(240, [Node(programs=[job], down=[(60, 80)])])


def off_the_bus():
    """A GPU falls off the bus: all reads of its configuration space give ones, and the calls of its job fail."""
    job = trainer("2500", start=-100, end=75, slurm="85",
                  launches=lambda m: 6000 if m < 160 else 0, nccl=lambda m: 60 if m < 160 else 0,
                  errors=lambda m: {("cudaStreamSynchronize", "cudaErrorUnknown"): 20} if 160 <= m else {})
    return World(200, [Node(programs=[job], all_ones=lambda m: (12, 12 if m >= 60 else 0))])


def xid_of_hardware():
    """The driver reports that a GPU fell off the bus, and the channels of its job that it removes. The job ends."""
    job = trainer("2550", start=-100, end=62, slurm="88")
    def reports(minute):
        return {60: [("79", "hardware", None, 1)], 61: [("45", "information", job, 8)]}.get(minute, [])
    return World(200, [Node(programs=[job], xids=reports)])


def xid_of_application():
    """A kernel reads past its memory: the driver reports a fault and the end of the channel, and the job ends."""
    job = trainer("2560", start=-100, end=62, container="c27", pod=("lab", "train-27", "u27"))
    def reports(minute):
        return [("31", "application", job, 1), ("43", "information", job, 2)] if minute == 60 else []
    return World(120, [Node(programs=[job], xids=reports)])


def row_remapped():
    """A GPU remaps a row of its memory, and the job runs on. Another report is of a code that nobody knows."""
    job = trainer("2570", start=-100, slurm="89")
    def reports(minute):
        return {60: [("63", "information", None, 1)], 80: [("999", "unknown", None, 1)]}.get(minute, [])
    return World(120, [Node(programs=[job], xids=reports)])


def switch_error():
    """A link of an NVSwitch fails for good, after errors that the link recovered from."""
    job = trainer("2580", start=-100, slurm="90")
    def reports(minute):
        return {50: {("12028", "nonfatal"): 3}, 60: {("20034", "fatal"): 1}}.get(minute, {})
    return World(200, [Node(programs=[job], sxids=reports)])


def context_lost():
    """A kernel writes past its memory; each later call of the process fails, for a while."""
    def errors(minute):
        return {("cudaDeviceSynchronize", "cudaErrorIllegalAddress"): 1 if minute == 160 else 30} if 160 <= minute < 185 else {}
    job = trainer("2600", start=-100, end=90, container="c26", pod=("lab", "train-26", "u26"), errors=errors)
    return World(180, [Node(programs=[job])])


def calls_fail():
    """A program asks for what its GPU cannot do, again and again, of CUDA and of cuDNN."""
    convolve = ("libcudnn.so.9", "cudnnBackendExecute")
    job = trainer("2700", start=-100, slurm="86", calls=lambda m: {convolve: 600},
                  failures=lambda m: {(*convolve, "CUDNN_STATUS_NOT_SUPPORTED"): 30} if m >= 150 else {},
                  errors=lambda m: {("cudaMemcpy", "cudaErrorInvalidValue"): 30} if m >= 150 else {})
    return World(120, [Node(programs=[job])])


def hang_in_a_launch():
    """The GPU of a job hangs: the queue is full, and cudaLaunchKernel does not return."""
    job = trainer("2800", start=-100, slurm="87", rank="0", nranks="1", nccl=lambda m: 60 if 10 < m < 160 else 0,
                  launches=lambda m: 6000 if 10 < m < 160 else 0, copies=lambda m: Copies(60, 60_000_000, 0.18) if m < 160 else None,
                  blocked=lambda m: {"cuda": 1}, calls=lambda m: {}, slow=lambda m: {},
                  hangs=lambda m: {("libcudart", "cudaLaunchKernel"): (m - 160) * 60 + 30} if m >= 160 else {})
    return World(150, [Node(programs=[job])])


def nccl_hang():
    """One rank of four crashes; the others wait for it in an all-reduce, for ever."""
    nodes, waits = [], ("libcudart.so.12", "cudaStreamSynchronize")
    for number in range(4):
        job = trainer(f"29{number}0", start=-100, slurm="88", rank=str(number), nranks="4",
                      end=60 if number == 3 else 10**6, cause="SIGSEGV", nccl=lambda m: 60 if 10 < m < 160 else 0,
                      launches=lambda m: 6000 if 10 < m < 160 else 0, blocked=lambda m: {"functions": 1}, slow=lambda m: {},
                      copies=lambda m: Copies(60, 60_000_000, 0.18) if m < 160 else None, calls=lambda m: {},
                      hangs=lambda m: {waits: (m - 160) * 60 + 30} if m >= 160 else {})
        nodes.append(Node(f"n{number + 1}:19435", [job]))
    return World(150, nodes)


def process_hangs():
    """A solver without NCCL hangs in a wait for its GPU, and is killed after an hour; one like it works on."""
    waits = ("libcudart.so.12", "cudaDeviceSynchronize")
    stuck = Program("solver", "2850", start=-100, end=120, slurm="97", memory=lambda m: 20 * GIB,
                    launches=lambda m: 900 if m < 160 else 0,
                    hangs=lambda m: {waits: (m - 160) * 60 + 30} if m >= 160 else {})
    # Each of its waits takes a minute and a half.
    works = Program("solver", "2851", start=-100, slurm="98", gpu="1", memory=lambda m: 20 * GIB, launches=lambda m: 2,
                    hangs=lambda m: {waits: 30 + m % 2 * 60})
    return World(150, [Node(programs=[stuck, works], gpus=("0", "1"))])


def straggler():
    """One rank of eight waits for its data for forty minutes. The others have made two operations more, and ask
    again and again whether these are done."""
    nodes = []
    for number in range(8):
        def ops(minute, n=number):
            stands = 150 <= minute < 190
            return 0 if minute < 10 or (stands and (n == 5 or minute > 150)) else 2 if stands else 60
        job = trainer(f"30{number}0", start=-100, slurm="89", rank=str(number), nranks="8", nccl=ops,
                      copies=lambda m: None if 150 < m < 190 else Copies(60, 60_000_000, 0.18),
                      launches=lambda m: 0 if m < 10 or 150 < m < 190 else 6000)
        nodes.append(Node(f"n{number + 1}:19435", [job]))
    return World(150, nodes)


def rank_never_begins():
    """A job starts; one of its ranks does not come to its first operation, in which the others hang."""
    nodes, waits = [], ("libcudart.so.12", "cudaStreamSynchronize")
    for number in range(4):
        job = trainer(f"31{number}0", start=20, slurm="99", rank=str(number), nranks="4",
                      nccl=lambda m, n=number: 1 if m == 5 and n != 2 else 0, launches=lambda m: 6000 if m < 5 else 0,
                      copies=lambda m: None,
                      hangs=lambda m, n=number: {waits: (m - 5) * 60 + 30} if m > 5 and n != 2 else {})
        nodes.append(Node(f"n{number + 1}:19435", [job]))
    return World(150, nodes)


def rank_hangs():
    """One rank of four hangs in a launch; the others wait for it in an all-reduce that it has not come to."""
    nodes, waits = [], ("libcudart.so.12", "cudaStreamSynchronize")
    for number in range(4):
        where = ("libcudart", "cudaLaunchKernel") if number == 1 else waits
        job = trainer(f"32{number}0", start=-100, slurm="100", rank=str(number), nranks="4",
                      nccl=lambda m, n=number: 60 if 10 < m < 160 else 1 if m == 160 and n != 1 else 0,
                      launches=lambda m: 6000 if 10 < m < 160 else 0, slow=lambda m: {}, calls=lambda m: {},
                      copies=lambda m: Copies(60, 60_000_000, 0.18) if m < 160 else None,
                      hangs=lambda m, where=where: {where: (m - 160) * 60 + 30} if m >= 160 else {})
        nodes.append(Node(f"n{number + 1}:19435", [job]))
    return World(150, nodes)


def slow_copies():
    """The link of a node falls back to a quarter of its width while the same server runs on, one of five such."""
    nodes = []
    for number in range(1, 6):
        server = Program("python3", f"31{number}0", start=-60, script="serve.py", slurm="90", memory=lambda m: 30 * GIB,
                         launches=lambda m: 3000, graphs=lambda m: 60,
                         copies=lambda m, n=number: Copies(60, 60_000_000, 0.72 if n == 1 and m >= 460 else 0.18))
        nodes.append(Node(f"n{number}:19435", [server]))
    return World(540, nodes)


def becomes_slow():
    """A function of a job that has run for hours becomes slow, and so do its launches, while its GPU has nothing to do."""
    waits = ("libnccl.so.2", "ncclAllReduce")
    job = trainer("3200", start=-300, slurm="91", calls=lambda m: {waits: 60}, late=0, slow=lambda m: {waits: 3} if m >= 400 else {},
                  utilization=lambda m: 90 if m < 400 else 10)
    launcher = trainer("3201", start=-300, slurm="92", gpu="1", late=0.4, utilization=lambda m: 15)
    return World(180, [Node(programs=[job, launcher], gpus=("0", "1"))])


def exporter_down():
    """One exporter of twelve cannot be scraped for forty minutes."""
    nodes = [Node(f"n{number}:19435", [trainer(f"33{number}", start=-100)]) for number in range(1, 13)]
    nodes[3].down = [(30, 70)]
    return World(120, nodes)


def many_down():
    """Three exporters of twelve cannot be scraped for an hour."""
    nodes = [Node(f"n{number}:19435", [trainer(f"34{number}", start=-100)]) for number in range(1, 13)]
    for node in nodes[:3]:
        node.down = [(30, 90)]
    return World(150, nodes)


def exporters_missing():
    """dcgm-exporter sees GPUs, but discovery finds none of our exporters."""
    node = Node(programs=[trainer("3500", start=-100)], here=((-1440, 10**9),))
    world = World(120, [node])
    ours = world.step

    def step(node, minute, exporters, seen):
        ours(node, minute, exporters, seen)
        if 30 <= minute < 80:
            for key in [key for key in seen if 'job="gpusnoop"' in key]:
                del seen[key]
    world.step = step
    return world


def probe_failed():
    """A probe does not load on one node; on the other it is not supported."""
    bad = Node(programs=[trainer("3600", start=-100)], states={"cuda": "failed", "nvlink": "unsupported"})
    good = Node("n2:19435", [trainer("3601", start=-100)], states={"pcie": "unsupported", "nvlink": "unsupported"})
    return World(90, [bad, good])


def events_lost():
    """An exporter gets too little CPU and loses calls; on another node a program is throttled."""
    slow = Node(programs=[trainer("3700", start=-100)], lost=lambda m: {("cuda", "ring_full"): 300} if 30 <= m < 80 else {})
    flood = Node("n2:19435", [trainer("3701", start=-100)], lost=lambda m: {("cuda", "throttled"): 2000} if 30 <= m < 80 else {})
    return World(150, [slow, flood])


def exporter_troubles():
    """New kernels all the time, a library that cannot be attached to, a full sink, a broken configuration."""
    node = Node(programs=[trainer("3800", start=-100)], folded=lambda m: 4 if 30 <= m < 60 else 0,
                attach_failures=lambda m: 2 if m == 30 else 0, sink_lost=lambda m: 7 if 30 <= m < 40 else 0,
                reload_failed=[(30, 60)])
    return World(180, [node])


def crash_loop():
    """An exporter crashes every ten minutes."""
    return World(150, [Node(programs=[trainer("3900", start=-100)], starts=(-14400, 20, 30, 40, 50, 60))])


def idle_hoarder():
    """A job of a user who has gone holds a GPU and launches nothing; others on the node work."""
    idle = Program("python3", "4000", start=-100, end=120, script="explore.py", slurm="93", memory=lambda m: 40 * GIB,
                   launches=lambda m: 300 if m < 130 else 0, utilization=lambda m: 30 if m < 130 else 0)
    return World(147, [Node(programs=[idle, trainer("4001", start=-100, slurm="94", gpu="1")], gpus=("0", "1"))], every=7)


def memory_nearly_full():
    """Two programs share a GPU; one grows by 400 MiB a minute and fills it within hours."""
    small = trainer("4100", start=-100, slurm="95", model=4 * GIB, cache=MIB)
    grows = leaky("4101", 300 * MIB, start=5, slurm="96", model=8 * GIB)
    return World(240, [Node(programs=[small, grows])])


def not_traced():
    """A GPU works, as dcgm-exporter says, for a program whose libraries are not traced."""
    hidden = Program("strange", "4200", start=30, end=120, memory=lambda m: 20 * GIB, launches=lambda m: 100, traced=False)
    return World(182, [Node(programs=[hidden, trainer("4201", start=-100, gpu="1")], gpus=("0", "1"))], every=7)


ALL = [fast_leak, slow_leak, oom_kills, oom_again_and_again, ecc_error, ecc_error_unseen, off_the_bus,
       xid_of_hardware, xid_of_application, row_remapped, switch_error, context_lost, calls_fail, hang_in_a_launch,
       nccl_hang, rank_hangs, rank_never_begins, process_hangs, straggler, slow_copies, becomes_slow, exporter_down, many_down, exporters_missing,
       probe_failed, events_lost, exporter_troubles, crash_loop, idle_hoarder, memory_nearly_full, not_traced]
