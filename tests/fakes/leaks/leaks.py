"""Allocates GPU memory at known lines: for tests of call sites in Python.

leaks.py WAY LIBCUDART [forever]

WAY is a method of Job. Loads the library and prints "loaded". At SIGUSR1 makes its first CUDA call and prints "called".
At the next one allocates, prints "site BYTES LABEL" for each call site that must be shown, and "allocated". At the
next one does that once more, at the next one ends. With "forever", its thread is called WAY, and it goes on
allocating without saying so.
"""

import asyncio
import contextlib
import ctypes
import functools
import gc
import itertools
import mmap
import os
import signal
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "site-packages"))
from allocator import PLACE, empty  # noqa: E402
from torch.autograd.graph import _engine_run_backward  # noqa: E402

with open(__file__, encoding="utf-8") as source:
    # Of the comments in the code.
    LINES = {line.rsplit("  # ", 1)[-1].strip(): number for number, line in enumerate(source, 1)}

MIB = 1 << 20
NOWHERE = 0xDEAD000
SET_NAME = 15  # of prctl()

# Of _PyInterpreterFrame, whose address a frame object has behind its head and f_back.
PREVIOUS, CODE = (48, 32) if sys.version_info < (3, 12) else (8, 0)


def interpreter_frame(frame):
    return ctypes.c_uint64.from_address(id(frame) + 24).value


@contextlib.contextmanager
def changed(address, value):
    """The word there, for a while."""
    word = ctypes.c_uint64.from_address(address)
    before, word.value = word.value, value
    gc.disable()  # it would follow what is no object
    try:
        yield
    finally:
        word.value = before
        gc.enable()


def set_name(name):
    ctypes.CDLL(None).prctl(SET_NAME, name.encode())


def place(function, marker):
    return f"leaks.py:{function.__code__.co_qualname}:{LINES[marker]}"


def site(size, *places):
    return size, " < ".join(places)


class Job:
    def __init__(self, cudart):
        self.cudart = cudart
        self.malloc = cudart.cudaMalloc
        self.kept = []

    def grow(self):
        self.kept.append(empty(self.malloc, MIB))  # grow

    def list(self):
        for _ in range(5):
            self.grow()  # list
        return [site(5 * MIB, PLACE, place(Job.grow, "grow"), place(Job.list, "list"))]

    def fill(self):
        for _ in range(3):
            self.kept.append(empty(self.malloc, 2 * MIB))  # fill

    def thread(self):
        other = threading.Thread(target=self.fill)
        other.start()
        other.join()
        return [site(6 * MIB, PLACE, place(Job.fill, "fill"))]

    async def handle(self, reader, writer):
        await reader.readline()
        self.kept.append(empty(self.malloc, 3 * MIB))  # handle
        writer.close()

    async def talk(self):
        server = await asyncio.start_server(self.handle, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        for _ in range(4):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"more\n")
            await reader.read()
            writer.close()
        server.close()

    def server(self):
        asyncio.run(self.talk())  # server
        return [site(12 * MIB, PLACE, place(Job.handle, "handle"), place(Job.server, "server"))]

    def refused(self):
        with contextlib.suppress(MemoryError):
            empty(self.malloc, 1 << 40)  # refused
        return [site(0, PLACE, place(Job.refused, "refused"), place(run, "run"))]

    def crowded(self):
        """Another job has the memory."""
        self.kept.append(empty(self.malloc, 50 * MIB))  # own
        with contextlib.suppress(MemoryError):
            empty(self.malloc, 200 * MIB)  # crowded
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.cudart.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total))
        return [site(0, PLACE, place(Job.crowded, "crowded"), place(run, "run"))]

    def hog(self):
        self.kept.append(empty(self.malloc, 300 * MIB))  # hog
        return [site(300 * MIB, PLACE, place(Job.hog, "hog"), place(run, "run"))]

    def generated(self):
        """Files that packages and notebooks make have one name."""
        files = {
            "<eval_with_key>.7": "[generated]:made",
            "<eval_with_key>.8": "[generated]:made",
            "/tmp/torchinductor_me/ab/cab.py": "[torchinductor]:made",
            "/tmp/ipykernel_77/12345.py": "[notebook]:made:2",
        }
        sizes = {}
        for file, shown in files.items():
            scope = {}
            exec(compile("def made(call):\n    return call()\n", file, "exec"), scope)
            pointer = ctypes.c_void_p()
            scope["made"](functools.partial(self.malloc, ctypes.byref(pointer), ctypes.c_size_t(MIB)))  # generated
            self.kept.append(scope)
            sizes[shown] = sizes.get(shown, 0) + MIB
        places = place(Job.generated, "generated"), place(run, "run")
        return [site(size, shown, *places) for shown, size in sizes.items()]

    def replaced(self):
        """Code objects that are gone when somebody asks for them, with others in their place."""
        places = place(Job.replaced, "replaced"), place(run, "run")
        sites = []
        for i in range(200):
            scope = {}
            text = f"def made_{i}(call):\n" + i * "    call\n" + "    return call()\n"
            exec(compile(text, f"made_{i}.py", "exec"), scope)
            pointer = ctypes.c_void_p()
            size = (i + 1) * 4096
            scope[f"made_{i}"](functools.partial(self.malloc, ctypes.byref(pointer), ctypes.c_size_t(size)))  # replaced
            sites.append(site(size, f"made_{i}.py:made_{i}:{i + 2}", *places))
        return sites

    def circle(self):
        own, outer = sys._getframe(), sys._getframe(1)
        with changed(interpreter_frame(outer) + PREVIOUS, interpreter_frame(own)):
            self.kept.append(empty(self.malloc, MIB))  # circle
        return [site(MIB, PLACE, place(Job.circle, "circle"), place(run, "run"))]

    def unmapped(self):
        with changed(interpreter_frame(sys._getframe(1)) + PREVIOUS, NOWHERE):
            self.kept.append(empty(self.malloc, MIB))  # unmapped
        return [site(MIB, PLACE, place(Job.unmapped, "unmapped"), place(run, "run"))]

    def no_code(self):
        with changed(interpreter_frame(sys._getframe(1)) + CODE, NOWHERE):
            self.kept.append(empty(self.malloc, MIB))  # no_code
        return [site(MIB, PLACE, place(Job.no_code, "no_code"), f"leaks.py:<module>:{LINES['module']}")]

    def fall(self, depth):
        if depth > 0:
            self.fall(depth - 1)  # fall
        else:
            self.kept.append(empty(self.malloc, MIB))  # ground

    def deep(self):
        sys.setrecursionlimit(20_000)
        self.fall(10_000)
        return [site(MIB, PLACE, place(Job.fall, "ground"), place(Job.fall, "fall"))]

    def autograd(self):
        """The calls that run a thread of autograd's, whose functions are none of Python's, and wait for its end."""
        libc = ctypes.CDLL(None)
        pointer = ctypes.c_void_p()
        call = ctypes.cast(self.malloc, ctypes.c_void_p).value
        code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        # mov $&pointer, %rdi; mov $MIB, %rsi; mov $cudaMalloc, %rax; sub $8, %rsp; call *%rax; add $8, %rsp; ret
        for opcode, value in ((b"\x48\xbf", ctypes.addressof(pointer)), (b"\x48\xbe", MIB), (b"\x48\xb8", call)):
            code.write(opcode + struct.pack("<Q", value))
        code.write(b"\x48\x83\xec\x08\xff\xd0\x48\x83\xc4\x08\xc3")
        start = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(code)))
        thread = ctypes.c_ulong()
        self.kept.append((pointer, code, start, thread))
        return [
            functools.partial(libc.prctl, SET_NAME, b"pt_autograd_0"),
            functools.partial(libc.pthread_create, ctypes.byref(thread), None, start, None),
            functools.partial(libc.prctl, SET_NAME, b"python"),
            functools.partial(libc.pthread_join, thread, None),
        ]

    def backward(self):
        """The main thread is elsewhere: it is not known for whom the thread works."""
        for call in self.autograd():
            call()
        return [site(MIB, "[backward]")]

    def run_backward(self):
        _engine_run_backward(self.autograd())  # run_backward
        return [site(MIB, "[backward]", place(Job.run_backward, "run_backward"), place(run, "run"))]


def wait(word):
    print(word, flush=True)
    signal.sigwait([signal.SIGUSR1])


def run(way, library, forever):
    cudart = ctypes.CDLL(library)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    job = Job(cudart)
    if forever:
        set_name(way)
    wait("loaded")
    cudart.cudaFree(None)
    wait("called")
    for word in itertools.chain(("allocated", "allocated again"), itertools.repeat("") if forever else ()):
        for size, label in getattr(job, way)():  # run
            if word:
                print("site", size, label)
        if word:
            wait(word)
        else:
            time.sleep(0.05)


run(sys.argv[1], sys.argv[2], len(sys.argv) > 3)  # module
