"""The families of the probes functions and syscall, of one work."""

import zlib

from fleet import buckets, work


class Calls:
    def __init__(self, cuda):
        self.of, self.store, self.work = cuda, cuda.store, cuda.work

    def functions(self):
        one = self.work
        per_process = len(one.processes)
        for function in one.of(work.Function):
            labels = {"library": function.library, "function": function.name}
            number = function.per_step * per_process
            self.of.counter("gpusnoop_function_calls_total", labels, function.activity, number)
            self.of.histogram("gpusnoop_function_duration_seconds", labels, buckets.FUNCTIONS, function.activity,
                              number, function.mean, function.spread)
            self.of.counter("gpusnoop_overhead_seconds_total", {"probe": "functions"}, function.activity, number * 2.1e-6,
                            whole=False)
            if function.unobserved:
                # Of all programs with this library.
                self.store.add("gpusnoop_function_unobserved_seconds_total", labels, self.of.totals[function.activity],
                               function.unobserved, self.of.first, self.of.counted_until, whole=False)
            slow = 1 - buckets.share_below(function.slow, function.mean, function.spread)
            self.of.counter("gpusnoop_function_slow_calls_total", labels, function.activity, number * slow)
        self.extremes()
        for failure in one.of(work.Failure):
            if failure.library:
                self.of.counter("gpusnoop_function_errors_total",
                                {"library": failure.library, "function": failure.function, "error": failure.error},
                                failure.activity, failure.per_step)

    def extremes(self):
        """The shortest and the longest call of each whole minute in which there were some."""
        clock, one = self.store.clock, self.work
        of_name = {}
        for function in one.of(work.Function):
            of_name.setdefault((function.library, function.name), []).append(function)
        for (library, name), functions in of_name.items():
            minimum, maximum = [], []
            for index in range(clock.count):
                minute = max(0, index - 60 // clock.step)
                alive = [function for function in functions
                         if self.of.totals[function.activity][index] > self.of.totals[function.activity][minute]]
                alive = alive or functions[:1]
                minimum.append(min(buckets.quantile(each.mean, each.spread, -2.6) for each in alive))
                jitter = 2.6 + ((index * 7919) % 100) / 100
                maximum.append(max(buckets.quantile(each.mean, each.spread, jitter) for each in alive))
            labels = {**one.labels, "library": library, "function": name}
            for suffix, values in (("min", minimum), ("max", maximum)):
                self.store.gauge(f"gpusnoop_function_duration_{suffix}_seconds", labels, values, self.of.first,
                                 self.of.last, whole=False)

    def collectives(self):
        one = self.work
        communicator = f"{zlib.crc32(' '.join(map(str, one.labels.values())).encode()):08x}"
        made = {}
        for collective in one.of(work.Collective):
            steps = self.of.totals[collective.activity]
            for process in one.processes:
                values = [value * collective.per_step for value in steps]
                if one.lag and process is one.processes[-1]:
                    behind = [one.lag(second) for second in self.store.clock.seconds]
                    values, before = [], 0.0
                    for total, lag in zip(steps, behind):
                        before = max(before, total * collective.per_step - lag)
                        values.append(before)
                place = {"communicator": communicator, "rank": process.rank, "nranks": one.ranks}
                labels = {**one.labels, "library": "libnccl.so.2", "function": collective.function,
                          "datatype": collective.datatype, "op": collective.op, **place}
                for name, factor in (("operations", 1), ("bytes", collective.bytes)):
                    self.store.add(f"gpusnoop_nccl_{name}_total", labels, values, factor, self.of.first,
                                   self.of.counted_until)
                labels = {**one.labels, "pid": process.pid, **place}
                so_far = made.setdefault(process.pid, (labels, [0.0] * len(values)))[1]
                so_far[:] = [old + new for old, new in zip(so_far, values)]
        for labels, sequence in made.values():
            self.store.gauge("gpusnoop_nccl_sequence", labels, sequence, self.of.first, self.of.last)
            moved, last = [], None
            for second, number in zip(self.store.clock.seconds, map(int, sequence)):
                if number != last:
                    at, last = self.store.clock.start + second, number
                moved.append(at)
            self.store.gauge("gpusnoop_nccl_last_operation_timestamp_seconds", labels, moved, self.of.first, self.of.last)

    def in_flight(self):
        """Where a rank lags, the others wait for it for some seconds, again and again."""
        clock = self.store.clock
        for process in self.work.processes[:-1] if self.work.lag else ():
            ages = [2 + (index * 7919 + process.pid) % 400 / 100 for index in range(clock.count)]
            labels = {"library": "libcudart.so.12", "function": "cudaStreamSynchronize"}
            self.of.gauge("gpusnoop_calls_in_flight", process, labels, [1] * clock.count)
            self.store.gauge("gpusnoop_oldest_call_seconds", {**self.work.labels, "pid": process.pid, **labels}, ages,
                             self.of.first, self.of.last, whole=False)

    def system_calls(self):
        for call in self.work.of(work.SystemCall):
            labels = {"syscall": call.name}
            self.of.counter("gpusnoop_syscalls_total", labels, call.activity, call.per_step)
            self.of.histogram("gpusnoop_syscall_duration_seconds", labels, buckets.SYSTEM_CALLS, call.activity,
                              call.per_step, call.mean, 1.0)
            if call.error:
                self.of.counter("gpusnoop_syscall_errors_total", {**labels, "error": call.error}, call.activity,
                                call.per_step * call.failing)

    def add(self):
        self.functions()
        self.collectives()
        self.in_flight()
        self.system_calls()
