"""Hangs in a call at a known line: for tests of Python's functions on stacks.

hangs.py main|after_work|callback|generator|thread|leave|fork|fork_thread|deep [LIBCUDART]

With a stand-in of CUDA's runtime, the call is cudaDeviceSynchronize, and begins after SIGUSR1; without, it is a sleep.
Prints "process PID thread TID", "at PLACE...", the innermost first, and "hanging" before the call. With "leave", exits
at one more SIGUSR1, while another thread hangs.
"""

import os
import signal
import sys
import threading
import time

with open(__file__, encoding="utf-8") as source:
    # Of the comments in the code.
    LINES = {line.rsplit("  # ", 1)[-1].strip(): number for number, line in enumerate(source, 1)}


def place(function, marker):
    """CPython 3.10 does not know the class of a function."""
    code = function.__code__
    return f"hangs.py:{getattr(code, 'co_qualname', code.co_name)}:{LINES[marker]}"


def say(*places):
    print(f"process {os.getpid()} thread {threading.get_native_id()}")
    print("at", place(Job.step, "step"), *places)
    print("hanging", flush=True)


class Job:
    def __init__(self, wait):
        self.wait = wait

    def step(self, seconds):
        return [
            seconds,
            self.wait(seconds),  # step
        ]

    def main(self):
        say(place(Job.main, "main"), *OUTER)
        for seconds in (1000, 2000):
            print(
                self.step(seconds)  # main
            )

    def after_work(self):
        say(place(Job.after_work, "after_work"), *OUTER)
        self.step(1000)  # after_work

    def callback(self):
        """sorted() is C, which calls Python."""
        say(place(Job.callback, "callback"), *OUTER)
        sorted([1000], key=self.step)  # callback

    def steps(self):
        yield 0
        yield self.step(1000)  # steps

    def generator(self):
        say(place(Job.steps, "steps"), place(Job.generator, "generator"), *OUTER)
        for _ in self.steps():  # generator
            pass

    def of_thread(self):
        say(place(Job.of_thread, "of_thread"))
        self.step(1000)  # of_thread

    def thread(self):
        other = threading.Thread(target=self.of_thread)
        other.start()
        other.join()

    def leave(self):
        threading.Thread(target=self.of_thread).start()
        signal.sigwait([signal.SIGUSR1])
        os._exit(3)

    def fork(self):
        if os.fork() == 0:
            say(place(Job.fork, "fork"), *OUTER)
            self.step(1000)  # fork
        os.wait()

    def of_fork(self):
        if os.fork() == 0:
            say(place(Job.of_fork, "of_fork"))
            self.step(1000)  # of_fork
        os.wait()

    def fork_thread(self):
        other = threading.Thread(target=self.of_fork)
        other.start()
        other.join()

    def fall(self, depth):
        if depth > 0:
            self.fall(depth - 1)  # fall
        else:
            say(place(Job.fall, "ground"), place(Job.fall, "fall"), place(Job.fall, "fall"))
            self.step(1000)  # ground

    def deep(self):
        self.fall(700)


def submit(ctypes, cudart):
    """Some work, which makes this thread a launching one."""
    memory = ctypes.c_void_p()
    cudart.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(16))
    cudart.cudaMemset(memory, 0, ctypes.c_size_t(16))


def run(way, library):
    if library is None:
        job = Job(time.sleep)
    else:
        import ctypes

        cudart = ctypes.CDLL(library)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        print("waiting", flush=True)
        signal.sigwait([signal.SIGUSR1])
        if way == "after_work":
            submit(ctypes, cudart)
        # In the middle of the call, the stand-in calls this, which returns at a signal.
        cudart.standin_set_hook(ctypes.cast(ctypes.CDLL(None).pause, ctypes.c_void_p), None)
        job = Job(cudart.cudaDeviceSynchronize)
    getattr(job, way)()  # run


OUTER = [place(run, "run"), f"hangs.py:<module>:{LINES['module']}"]
run(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)  # module
