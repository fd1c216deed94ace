"""bpftrace, which a benchmark compares with: attached to functions of libraries until the end of a block."""

import ctypes
import ctypes.util
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time

SYSCALL_BPF = {"x86_64": 321, "aarch64": 280}
TASK_FD_QUERY = 20
UPROBES = (4, 5)  # BPF_FD_TYPE_UPROBE, BPF_FD_TYPE_URETPROBE


class _FdQuery(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint32), ("fd", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("buf_len", ctypes.c_uint32),
                ("buf", ctypes.c_uint64), ("prog_id", ctypes.c_uint32), ("fd_type", ctypes.c_uint32),
                ("probe_offset", ctypes.c_uint64), ("probe_addr", ctypes.c_uint64)]


def path():
    """Where it is, or None."""
    return shutil.which("bpftrace")


def count(functions):
    """A script that counts calls; `functions`: (library, name)."""
    return "".join(f"uprobe:{library}:{name} {{ @{name} = count(); }} " for library, name in functions)


def latency(functions):
    """A script with a histogram of each function's duration."""
    return "".join(f"uprobe:{library}:{name} {{ @start_{name}[tid] = nsecs; }} "
                   f"uretprobe:{library}:{name} /@start_{name}[tid]/ "
                   f"{{ @{name} = hist(nsecs - @start_{name}[tid]); delete(@start_{name}[tid]); }} "
                   for library, name in functions)


class Bpftrace:
    def __init__(self, script):
        self.script = script
        self.ends = len(re.findall(r"\bu(?:ret)?probe:", script))
        libc = ctypes.CDLL(None)
        self.process = subprocess.Popen([path(), "-e", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True,
                                        preexec_fn=lambda: libc.prctl(1, signal.SIGKILL))

    def __enter__(self):
        """When all of it is attached. The kernel is asked, as bpftrace does not say so reliably."""
        until = time.monotonic() + 30
        while time.monotonic() < until and self.process.poll() is None:
            if self._attached() >= self.ends:
                return self
            time.sleep(0.01)
        self.process.kill()
        sys.exit(f"bpftrace does not attach: {self.process.stdout.read()}")

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def _attached(self):
        libc, found = ctypes.CDLL(None, use_errno=True), 0
        for fd in os.listdir(f"/proc/{self.process.pid}/fd"):
            query = _FdQuery(pid=self.process.pid, fd=int(fd))
            answer = libc.syscall(SYSCALL_BPF[platform.machine()], TASK_FD_QUERY, ctypes.byref(query), ctypes.sizeof(query))
            found += answer == 0 and query.fd_type in UPROBES
        return found

    def counts(self):
        """Ends it. function -> calls, if the script counts them."""
        self.process.send_signal(signal.SIGINT)
        said, _ = self.process.communicate(timeout=30)
        return {name: int(calls) for name, calls in re.findall(r"^@(\w+): (\d+)$", said, re.M)}
