"""Programs that their host keeps waiting, or ends."""
from .host import held_up
from .programs import GIB, MIB, Program, trainer
from .world import Node, World


def from_minute(begin, end, state, seconds):
    """held() of a program that started at -100: between two minutes of the world, its thread is in that state."""
    return lambda minute: held_up(state, seconds) if begin + 100 <= minute < end + 100 else None


def one_is_held_up(pid, state, seconds):
    """A program that is held up for an hour and a half, and another one that is not."""
    job = trainer(pid, start=-100, slurm="110", held=from_minute(30, 120, state, seconds))
    return World(180, [Node(programs=[job, trainer(f"{pid}0", start=-100, slurm="111", gpu="1")], gpus=("0", "1"))])


def slow_loader():
    """The data loaders of a job are too slow, and its launching thread waits for them in a pipe."""
    return one_is_held_up("5000", "pipe", 26)


def slow_loader_of_pytorch():
    """The same, where the thread waits in poll."""
    return one_is_held_up("5010", "poll", 26)


def cold_files():
    """A job without workers reads its data from slow storage between its steps."""
    job = trainer("5020", start=-100, slurm="112", workers=0, held=from_minute(30, 120, "file", 26))
    return World(180, [Node(programs=[job])])


def throttled():
    """The cgroup of a job has too low a CPU limit."""
    return one_is_held_up("5030", "throttled", 26)


def neighbour_burns():
    """Another job uses the CPUs that a job launches from."""
    return one_is_held_up("5040", "runnable", 26)


def swapping():
    """A job is partly in swap, and reads it back all the time; another one frees memory of its cgroup."""
    swaps = trainer("5050", start=-100, slurm="113", swap=lambda m: 6 * GIB,
                    major_faults=lambda m: 60_000 if 130 <= m < 200 else 0)
    frees = trainer("5051", start=-100, slurm="114", gpu="1", reclaim=lambda m: 6 if 160 <= m < 200 else 0)
    return World(150, [Node(programs=[swaps, frees], gpus=("0", "1"))])


def host_memory_leak():
    """A server keeps 200 MiB more of host memory each hour, for half a day; another one's grows for its first hours."""
    leak = Program("server", "5060", start=-3000, launches=lambda m: 600, workers=0, end=700,
                   host_memory=lambda m: 8 * GIB + max(0, m - 3000) * 200 * MIB // 60)
    cache = Program("python3", "5061", start=-60, script="serve.py", gpu="1", launches=lambda m: 600,
                    host_memory=lambda m: 2 * GIB + min(m, 150) * 100 * MIB)
    return World(780, [Node(programs=[leak, cache], gpus=("0", "1"))])


def wrong_socket():
    """A job runs on the socket that its GPU is not attached to."""
    job = trainer("5070", start=-100, end=160, slurm="115", gpu="1", numa_node="0")
    return World(180, [Node(programs=[job, trainer("5071", start=-100, slurm="116")], gpus=("0", "1"), numa={"1": 1})])


def processes_are_killed():
    """The kernel kills a job that has used up its memory; a server crashes; workers of a third find /dev/shm full."""
    oom = trainer("5080", start=-100, end=60, slurm="117", cause="oom_kill")
    crash = Program("server", "5081", start=-100, end=62, container="c51", pod=("chat", "server-0", "u51"), gpu="1",
                    launches=lambda m: 600, cause="SIGSEGV")
    loader = trainer("5082", start=-100, end=64, slurm="118", gpu="2", cause="1", cause_of_worker="SIGBUS")
    return World(180, [Node(programs=[oom, crash, loader], gpus=("0", "1", "2"))])


def lossy_link():
    """A link of a node loses each fiftieth segment of a job for an hour; a server sends hardly anything, to a machine that is
    gone."""
    job = trainer("5090", start=-100, slurm="119", sent_again=lambda m: 1_200 if 140 <= m < 200 else 6)
    quiet = Program("server", "5091", start=-100, gpu="1", launches=lambda m: 600, segments=lambda m: 10,
                    sent_again=lambda m: 8)
    return World(150, [Node(programs=[job, quiet], gpus=("0", "1"))])


def storage_is_gone():
    """The storage of a server does not answer any more, and each connect to it times out."""
    server = Program("server", "5100", start=-100, launches=lambda m: 600,
                     connects=lambda m: {"ETIMEDOUT": 6} if 140 <= m < 200 else {"": 6})
    # Its other connects go on.
    other = Program("server", "5101", start=-100, gpu="1", container="c52", launches=lambda m: 600,
                    connects=lambda m: {"": 12, **({"ECONNREFUSED": 6} if 140 <= m < 200 else {})})
    return World(150, [Node(programs=[server, other], gpus=("0", "1"))])


ALL = [slow_loader, slow_loader_of_pytorch, cold_files, throttled, neighbour_burns, swapping, host_memory_leak, wrong_socket,
       processes_are_killed, lossy_link, storage_is_gone]
