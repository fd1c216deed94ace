"""Programs that do what they should."""
from .host import held_up
from .programs import GIB, MIB, Copies, Program, ramp, steps, trainer, training
from .world import Node, World


def healthy_training():
    """A training job loads its model, warms up, validates every hour, writes a checkpoint and evaluates."""
    return World(360, [Node(programs=[trainer("100", start=5)])])


def pretraining():
    """Steps of twelve seconds: every wait for the GPU is longer than slow_threshold, and the launch queue is full."""
    waits = ("libcudart.so.12", "cudaStreamSynchronize")
    jobs = [trainer(str(200 + rank), start=-600, script="pretrain.py", slurm="4711", gpu=str(rank), rank=str(rank), nranks="2",
                    loads=30, model=70 * GIB, cache=512 * MIB, ops=5, late=0.3,
                    launches=lambda m: 0 if m < 30 else 900, slow=lambda m: {waits: 5} if m >= 30 else {},
                    calls=lambda m: {waits: 5} if m >= 30 else {}) for rank in range(2)]
    new = trainer("210", start=30, script="pretrain.py", slurm="4712", gpu="2", loads=10, model=60 * GIB, cache=512 * MIB,
                  ops=5, late=0.3, slow=lambda m: {waits: 5} if m >= 10 else {}, calls=lambda m: {waits: 5} if m >= 10 else {})
    return World(300, [Node(programs=[*jobs, new], gpus=("0", "1", "2"))])


def launch_bound():
    """Tiny kernels and nothing else, so many that they are only counted now and then."""
    return World(300, [Node(programs=[Program("python3", "250", start=5, script="rl.py", memory=lambda m: 2 * GIB,
                                              launches=lambda m: 4_000_000, unseen=0.98)])])


def graph_inference():
    """An inference server calls NCCL while it captures graphs, and only replays them from then on."""
    def server(rank):
        return Program("python3", str(300 + rank), start=10, script="api_server.py", container="c1", gpu=str(rank),
                       pod=("chat", "vllm-0", "u1"), rank=str(rank), nranks="2",
                       memory=ramp(0, 6, 72 * GIB, 500 * MIB), launches=lambda m: 3000 if m < 12 else 0,
                       graphs=lambda m: 0 if m < 12 else 1200, nccl=lambda m: 400 if 6 <= m < 12 else 0,
                       calls=lambda m: {("libcudart.so.12", "cudaGraphLaunch"): 1200} if m >= 12 else {},
                       # A thread waits for the graph, always.
                       blocked=lambda m: {"cuda": 1, "functions": 1})
    return World(180, [Node(programs=[server(0), server(1)], gpus=("0", "1"))])


def autotuning():
    """A batch-size finder doubles the batch until the GPU refuses, ten times over, and trains from then on."""
    oom = {("cudaMalloc", "cudaErrorMemoryAllocation"): 2}

    def memory(minute):
        return (8 + 16 * (minute % 4)) * GIB if minute < 15 else 60 * GIB
    job = trainer("400", start=20, script="tune.py", memory=memory, loads=1, nccl=lambda m: 0,
                  errors=lambda m: oom if m in (3, 7, 11) else {})
    return World(120, [Node(programs=[job])])


def notebooks():
    """Notebooks hold memory for days; their users run a cell now and then, and go home."""
    def busy(minute, hours):
        return (minute // 60) % 24 in hours

    def notebook(pid, gpu, hours, levels, uid):
        # Each new level is a cell that loads something.
        return Program("python3", pid, start=30, script="ipykernel_launcher", container=f"c{pid}", gpu=gpu,
                       pod=("lab", f"notebook-{pid}", uid), memory=steps(*levels),
                       launches=lambda m: 200 if busy(m, hours) and m % 20 < 8 else 0,
                       copies=lambda m: Copies(5, 4_000_000, 0.002) if busy(m, hours) and m % 20 < 8 else None,
                       utilization=lambda m: 20 if busy(m, hours) and m % 20 < 8 else 0)
    first = notebook("500", "0", (0, 1, 2, 3), [(0, 2 * GIB), (70, 9 * GIB), (130, 12 * GIB), (200, 12 * GIB + 600 * MIB)], "u500")
    other = notebook("501", "1", (1, 2), [(0, GIB // 2), (80, 20 * GIB), (110, 30 * GIB)], "u501")
    return World(1806, [Node(programs=[first, other], gpus=("0", "1"))], every=7)


def batch_jobs():
    """Short jobs of different tenants run back to back on one node; one copies from pageable memory, and is slow."""
    nodes = []
    for number in range(1, 6):
        jobs, at = [], -120
        for one in range(14):
            length = 35 if one % 2 else 50
            slow = one % 3 == 2
            jobs.append(Program(
                "python3", str(6000 + 100 * number + one), start=at, end=at + length, script=f"job{one % 4}.py",
                slurm=str(9000 + 100 * number + one), memory=ramp(0, 4, (20 + one) * GIB, 16 * MIB),
                launches=lambda m: 4000 if m > 3 else 0,
                copies=lambda m, slow=slow: Copies(60, 60_000_000, 1.2 if slow else 0.18),
                nccl=lambda m: 30, rank="0", nranks="1"))
            at += length + 1
        nodes.append(Node(f"n{number}:19435", jobs))
    return World(420, nodes)


def same_script_of_two_tenants():
    """Two jobs of the same script and size on the same nodes: one makes four operations a second, one a tenth of it."""
    def rank(number, job, ops, uid):
        return trainer(f"{700 + number}{job}", start=-30, container=f"c{job}{number}", pod=(job, f"train-{number}", uid),
                       gpu="0" if job == "red" else "1", rank=str(number), nranks="2", communicator=job, loads=5,
                       nccl=lambda m: ops if m > 5 else 0)
    nodes = [Node(f"n{number + 1}:19435", [rank(number, "red", 240, f"r{number}"), rank(number, "blue", 24, f"b{number}")],
                  gpus=("0", "1")) for number in range(2)]
    return World(150, nodes)


def long_checkpoint():
    """Rank 0 writes a large model for eight minutes; the other rank waits for it inside a call."""
    def ops(minute):
        return 0 if minute < 10 or minute % 60 < 8 else 60
    waits = ("libcudart.so.12", "cudaStreamSynchronize")
    ranks = [trainer(str(800 + number), start=-200, gpu=str(number), rank=str(number), nranks="2", nccl=ops, slurm="77",
                     launches=lambda m: 0 if m < 10 or m % 60 < 8 else 6000,
                     hangs=lambda m, n=number: {waits: m % 60 * 60 + 30} if n == 1 and m % 60 < 8 else {})
             for number in range(2)]
    return World(180, [Node(programs=ranks, gpus=("0", "1"))])


def exclusive_mode():
    """Slurm gives a GPU to one process at a time: a second one finds it busy, tries again and goes away."""
    late = Program("python3", "901", start=60, end=70, script="try.py", slurm="12",
                   errors=lambda m: {("cuCtxCreate_v4", "CUDA_ERROR_DEVICE_UNAVAILABLE"): 1,
                                     ("cudaSetDevice", "cudaErrorDevicesUnavailable"): 1} if m < 8 else {},
                   utilization=lambda m: 0)
    return World(150, [Node(programs=[trainer("900", start=-100, slurm="11"), late])])


def validation_only():
    """A job of one node validates for a quarter of an hour: kernels, and no all-reduce."""
    def ops(minute):
        return 0 if training(minute, 60, 16) else 60
    return World(200, [Node(programs=[trainer("950", start=-100, slurm="13", nccl=ops, rank="0", nranks="1")])])


def pipeline():
    """Ranks on two nodes send to the next one, all at other rates; only now and then do all of them reduce."""
    nodes = []
    for number in range(4):
        stage = trainer(f"96{number}", start=-60, slurm="14", rank=str(number), nranks="4", ops=0,
                        sends=lambda m, n=number: 100 * (n + 1) if m > 10 else 0, nccl=lambda m: 1 if m % 30 == 29 else 0)
        nodes.append(Node(f"n{number + 1}:19435", [stage]))
    return World(200, nodes)


def validation_of_one_rank():
    """Rank 0 validates for twenty minutes of each hour, with kernels of its own. The others wait in an all-reduce."""
    nodes = []
    for number in range(3):
        # The others have made the one operation that rank 0 makes when it is back.
        def ops(minute, n=number):
            at = minute % 60
            return 60 if minute < 60 or at > 21 else 1 if (at == 0 and n) or (at == 21 and not n) else 0
        waits = ("libcudart.so.12", "cudaStreamSynchronize")
        nodes.append(Node(f"n{number + 1}:19435", [trainer(
            f"97{number}", start=-60, slurm="15", rank=str(number), nranks="3", nccl=ops,
            launches=lambda m, n=number: 6000 if m < 60 or m % 60 > 21 or not n else 0,
            hangs=lambda m, n=number: {waits: m % 60 * 60 + 30} if n and m >= 60 and m % 60 <= 21 else {})]))
    return World(200, nodes)


def lost_operations():
    """The exporter of one rank of three has lost operations; all ranks then pause for half an hour, in no call."""
    nodes = []
    for number in range(3):
        nodes.append(Node(f"n{number + 1}:19435", [trainer(
            f"98{number}", start=-60, slurm="16", rank=str(number), nranks="3",
            lost=lambda m, n=number: 7 if n == 1 and m == 30 else 0,
            nccl=lambda m: 0 if m < 10 or 150 <= m < 180 else 60,
            copies=lambda m: None if 150 <= m < 180 else Copies(60, 60_000_000, 0.18),
            launches=lambda m: 0 if m < 10 or 150 <= m < 180 else 6000)]))
    return World(200, nodes)


def ranks_end_at_other_times():
    """A job ends on one node minutes before it ends on the others, which write what they have."""
    return World(120, [Node(f"n{number + 1}:19435", [trainer(
        f"99{number}", start=-60, end=60 if number == 2 else 72, slurm="17", rank=str(number), nranks="3",
        nccl=lambda m: 60 if 10 <= m < 119 else 0, launches=lambda m: 6000 if 10 <= m < 119 else 0,
        copies=lambda m: Copies(60, 60_000_000, 0.18) if m < 119 else None)])
        for number in range(3)])


def servers_wait():
    """Servers wait for requests in other ways, some for minutes, some for half of each; one spins, and an interpreter
    waits for its user. A training job is beside them."""
    programs = [trainer("1000", start=-100, container="c10", pod=("lab", "train-10", "u10"))]
    for number, state in enumerate(("poll", "futex", "socket", "pipe", "running", "device")):
        def seldom(minute):
            return 2000 if minute % 3 == 0 else 0
        programs.append(Program("python3", f"101{number}", start=-100, script="serve.py", container=f"c11{number}", gpu="1",
                                launches=seldom, waits=lambda m, s=state: s))
        programs.append(Program("python3", f"102{number}", start=-100, script="busy.py", container=f"c12{number}", gpu="1",
                                launches=lambda m: 2000, held=lambda m, s=state: held_up(s, 36, 30)))
    return World(150, [Node(programs=programs, gpus=("0", "1"))])


def slow_start():
    """A job compiles its kernels for ten minutes; another reads its model from slow storage for twenty. Both run on."""
    compiles = trainer("1030", start=20, slurm="18", held=lambda m: held_up("running", 50) if m < 20 else None)
    loads = trainer("1031", start=20, slurm="19", gpu="1", loads=1, held=lambda m: held_up("file", 45) if m < 20 else None)
    return World(150, [Node(programs=[compiles, loads], gpus=("0", "1"))])


def jobs_are_cancelled():
    """Slurm ends a job at its time limit: it asks, and kills what has not ended. Ctrl+C ends another one."""
    limit = [trainer(f"104{rank}", start=-100, end=61, slurm="20", gpu=str(rank), rank=str(rank), nranks="2", cause="SIGKILL",
                     signals=lambda m: (("SIGTERM", "process"),) if m == 160 else ()) for rank in range(2)]
    user = trainer("1045", start=-100, end=62, slurm="21", gpu="2", cause="SIGINT")
    return World(120, [Node(programs=[*limit, user], gpus=("0", "1", "2"))])


def job_is_preempted():
    """A scheduler kills the ranks of a job without asking, and starts another one."""
    nodes = []
    for number in range(2):
        old = trainer(f"105{number}", start=-100, end=60, slurm="22", rank=str(number), nranks="2", cause="SIGKILL")
        new = trainer(f"106{number}", start=62, slurm="23", rank=str(number), nranks="2")
        nodes.append(Node(f"n{number + 1}:19435", [old, new]))
    return World(120, nodes)


def mapped_data():
    """A job reads mapped files that are not in memory, and has a little in swap; its cgroup is full of cached files."""
    job = trainer("1070", start=-100, slurm="24", major_faults=lambda m: 60_000, swap=lambda m: 20 * MIB,
                  reclaim=lambda m: 0.5)
    return World(120, [Node(programs=[job])])


def two_sockets():
    """Ranks of one job run on both sockets of a node, each beside its GPU."""
    ranks = [trainer(f"108{number}", start=-100, slurm="25", gpu=str(number), rank=str(number), nranks="4",
                     numa_node=str(number // 2)) for number in range(4)]
    return World(150, [Node(programs=ranks, gpus=("0", "1", "2", "3"), numa={"2": 1, "3": 1})])


def two_addresses():
    """A server tries both addresses of its storage at once, and gives up the slower connect."""
    server = Program("server", "1090", start=-100, launches=lambda m: 600, connects=lambda m: {"": 30, "given_up": 30})
    return World(90, [Node(programs=[server])])


ALL = [healthy_training, pretraining, launch_bound, graph_inference, autotuning, notebooks, batch_jobs, same_script_of_two_tenants,
       long_checkpoint, exclusive_mode, validation_only, pipeline, validation_of_one_rank, lost_operations,
       ranks_end_at_other_times, servers_wait, slow_start, jobs_are_cancelled, job_is_preempted, mapped_data, two_sockets,
       two_addresses]
