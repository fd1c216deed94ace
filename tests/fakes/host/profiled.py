"""Spends time in functions, and says how much: for tests/probes/profile_python_test.cpp.

profiled.py burn|callback|threads|nap MILLISECONDS [FILE...]

Maps the files as code, as libraries are. Waits for SIGUSR1, works, prints the nanoseconds of CPU time, or of sleep, by function, and waits again.
"""

import mmap
import signal
import sys
import threading
import time


def spin(nanoseconds):
    began = time.thread_time_ns()
    while time.thread_time_ns() < began + nanoseconds:
        sum(range(2000))
    return time.thread_time_ns() - began


class Work:
    def __init__(self):
        self.spent = {"one": 0, "three": 0}

    def burn_one(self, nanoseconds):
        self.spent["one"] += spin(nanoseconds)

    def burn_three(self, nanoseconds):
        self.spent["three"] += spin(3 * nanoseconds)

    def burn(self, milliseconds):
        for _ in range(milliseconds // 40):
            self.burn_one(10_000_000)
            self.burn_three(10_000_000)

    def callback(self, milliseconds):
        """sorted() is C, which calls Python."""

        def größe(number):
            (self.burn_three if number % 2 else self.burn_one)(10_000_000)
            return number

        sorted(range(milliseconds // 20), key=größe)

    def threads(self, milliseconds):
        def other():
            for _ in range(milliseconds // 40):
                self.burn_one(10_000_000)

        thread = threading.Thread(target=other)
        thread.start()
        for _ in range(milliseconds // 40):
            self.burn_three(10_000_000)
        thread.join()

    def nap(self, milliseconds):
        began = time.monotonic_ns()
        time.sleep(milliseconds / 1000)
        self.spent["nap"] = time.monotonic_ns() - began


def wait():
    print("waiting", flush=True)
    signal.sigwait([signal.SIGUSR1])


def map_as_code(path):
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC)


def main():
    mapped = [map_as_code(path) for path in sys.argv[3:]]
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    work = Work()
    wait()
    getattr(work, sys.argv[1])(int(sys.argv[2]))
    for name, nanoseconds in work.spent.items():
        print(name, nanoseconds)
    wait()
    del mapped


main()
