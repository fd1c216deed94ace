"""The families of the host probes, of one work: its GPU processes and their data loaders."""

from fleet import buckets


class Host:
    def __init__(self, cuda):
        self.of, self.activity = cuda, next(iter(cuda.work.activities))

    def life(self):
        """Loaders begin with each epoch and end after it; some programs are told to stop."""
        count = self.of.counter
        for role, starts in (("gpu", 0), ("worker", 0.002)):
            labels = {"role": role}
            count("gpusnoop_host_process_starts_total", labels, self.activity, starts)
            for cause, share in (("0", 0.95), ("SIGTERM", 0.05)):
                count("gpusnoop_host_process_exits_total", {**labels, "cause": cause}, self.activity, starts * share)
            self.of.histogram("gpusnoop_host_process_lifetime_seconds", labels, buckets.LIFETIMES, self.activity, starts,
                              900, 0.8)
        for role, signal, sender, per_step in (("gpu", "SIGCHLD", "kernel", 0.002), ("worker", "SIGTERM", "process", 0.0001),
                                               ("worker", "SIGALRM", "kernel", 0.01)):
            count("gpusnoop_host_signals_total", {"role": role, "signal": signal, "sender": sender}, self.activity,
                  per_step)

    def add(self):
        self.life()
