"""The families of the probe cuda, of one work."""

from collections import deque
from itertools import accumulate

from fleet import buckets, work

AGES = {"1m": 60, "10m": 600, "1h": 3600}
LAUNCH_COST = 2 * 1.7e-6 + 0.4e-6  # of the probes: the runtime calls the driver, and there is one record
LINGER = 120.0  # seconds for which counters are there after the end of the last process


def lowest(values, width):
    """The least of each value and the `width` before it: what is older than that."""
    found, window = [], deque()
    for index, value in enumerate(values):
        while window and values[window[-1]] >= value:
            window.pop()
        window.append(index)
        if window[0] < index - width:
            window.popleft()
        found.append(values[window[0]])
    return found


def risen(values):
    """The sum of all that a gauge went up, from nothing."""
    total, before, found = 0.0, 0.0, []
    for value in values:
        total += max(0.0, value - before)
        before = value
        found.append(total)
    return found

# Of each layer, in a graph.
GRAPH_KERNELS = (("paged_attention_v2_kernel<c10::BFloat16>", "32x8x4", "128x1x1"),
                 ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn", "32x1x6", "128x1x1"))


class Cuda:
    def __init__(self, store, one, totals):
        """`totals`: of each activity, the steps until each scrape."""
        self.store, self.work, self.totals, self.clock = store, one, totals, store.clock
        self.first, self.last = self.clock.index(one.start), self.clock.index(one.end)
        self.counted_until = self.clock.index(one.end + LINGER)

    def counter(self, name, labels, activity, factor, whole=True):
        self.store.add(name, {**self.work.labels, **labels}, self.totals[activity], factor, self.first,
                       self.counted_until, whole=whole)

    def histogram(self, name, labels, bounds, activity, factor, mean, spread):
        self.store.histogram(name, {**self.work.labels, **labels}, bounds, self.totals[activity], factor, mean, spread,
                             self.first, self.counted_until)

    def gauge(self, name, process, labels, values):
        self.store.gauge(name, {**self.work.labels, "pid": process.pid, **labels}, values, self.first, self.last)

    def held(self, holding):
        """Bytes over all scrapes; after a restart of the exporter, what was allocated since."""
        values = [holding.bytes(second) if index >= self.first else 0.0
                  for index, second in enumerate(self.clock.seconds)]
        restart = self.store.restart
        if restart and self.first < restart:
            least = values[restart]
            for index in range(restart, len(values)):
                least = min(least, values[index])
                values[index] -= least
        return values

    def memory(self):
        one, first, until = self.work, self.first, self.counted_until
        of_kind = {}
        for holding in one.memory:
            of_kind.setdefault(holding.memory_kind, []).append((holding, self.held(holding)))
        for process in one.processes:
            everything = [0.0] * self.clock.count
            for memory_kind, holdings in of_kind.items():
                labels = {"gpu": process.gpu, "memory_kind": memory_kind}
                total = [sum(values) for values in zip(*(held for _, held in holdings))]
                number = [sum(values) for values in zip(*([value / holding.mean_size for value in held]
                                                          for holding, held in holdings))]
                everything = [a + b for a, b in zip(everything, total)]
                self.gauge("gpusnoop_cuda_memory_outstanding_bytes", process, labels, total)
                self.gauge("gpusnoop_cuda_memory_outstanding_allocations", process, labels, number)
                for values, allocated, freed in ((total, "allocated_bytes_total", "freed_bytes_total"),
                                                 (number, "allocations_total", "frees_total")):
                    up = risen(values)
                    down = [above - value for above, value in zip(up, values)]
                    for name, series in ((allocated, up), (freed, down)):
                        self.store.add(f"gpusnoop_cuda_memory_{name}", {**one.labels, **labels}, series, 1.0, first,
                                       until)
                for holding, _ in holdings:
                    for activity, size in holding.churn.items():
                        for name, factor in (("allocated_bytes_total", size), ("freed_bytes_total", size),
                                             ("allocations_total", size / holding.mean_size),
                                             ("frees_total", size / holding.mean_size)):
                            self.counter(f"gpusnoop_cuda_memory_{name}", labels, activity, factor)
                untracked = [0.0] * self.clock.count
                if self.store.restart and first < self.store.restart:
                    lost = sum(holding.bytes(self.clock.seconds[self.store.restart]) / holding.mean_size
                               for holding, _ in holdings)
                    untracked = [0.02 * lost if index > self.store.restart + 20 else 0.0
                                 for index in range(self.clock.count)]
                self.store.add("gpusnoop_cuda_memory_untracked_frees_total", {**one.labels, **labels}, untracked, 1.0,
                               first, until)
            for age, seconds in AGES.items():
                self.gauge("gpusnoop_cuda_memory_outstanding_older_than_bytes", process, {"age": age},
                           lowest(everything, seconds // self.clock.step))
            for holdings in of_kind.values():
                for holding, values in holdings:
                    self.gauge("gpusnoop_cuda_memory_site_outstanding_bytes", process, {"site": holding.site}, values)
            if one.unfreed and one.end < self.clock.seconds[-1]:
                left = [everything[self.last - 1] if index >= self.last else 0.0 for index in range(self.clock.count)]
                for name, divisor in (("bytes", 1), ("allocations", 8 * work.MIB)):
                    self.store.add(f"gpusnoop_cuda_memory_unfreed_at_exit_{name}_total",
                                   {**one.labels, "gpu": process.gpu}, left, 1 / divisor, first, until)

    def spans(self):
        """From and until which scrape each exporter saw the processes, and whether it saw all that they did."""
        first, last, restart = self.first, self.last, self.store.restart
        if restart and first < restart:
            return [(first, restart, True), (restart, last, False)]
        return [(first, last, True)]

    def on_gpu(self):
        """What each process holds of its GPU, over all scrapes."""
        held = [self.held(holding) for holding in self.work.memory if holding.memory_kind in work.DEVICE_KINDS]
        return [sum(values) for values in zip(*held)] or [0.0] * self.clock.count

    def peaks(self):
        on_gpu = self.on_gpu()
        if max(on_gpu) == 0:
            return
        for first, last, complete in self.spans():
            peak = [0.0] * first + list(accumulate(on_gpu[first:], max))
            for process in self.work.processes:
                self.store.gauge("gpusnoop_cuda_memory_peak_bytes",
                                 {**self.work.labels, "pid": process.pid, "gpu": process.gpu,
                                  "complete": "true" if complete else "false"}, peak, first, last)

    def idle(self):
        """After a minute without work; every program waits for its last kernel."""
        used = {one.activity for kind in (work.Kernel, work.Copy, work.Memset) for one in self.work.of(kind)}
        works = [any(self.work.activities[activity](second) > 0 for activity in used) for second in self.clock.seconds]
        minute = max(1, 60 // self.clock.step)
        idle = [self.clock.step if held > 0 and not any(works[max(0, index - minute):index + 1]) else 0
                for index, held in enumerate(self.on_gpu())]
        if any(idle):
            for process in self.work.processes:
                self.store.add("gpusnoop_gpu_idle_held_seconds_total",
                               {**self.work.labels, "gpu": process.gpu, "last_work": "ended"}, list(accumulate(idle)), 1.0,
                               self.first, self.counted_until)

    def tensors(self):
        """Of programs that hold memory of the device: nine tenths of it is in tensors, in blocks of a MiB."""
        one = self.work
        holdings = [(holding, self.held(holding)) for holding in one.memory if holding.memory_kind == "device"]
        if not holdings:
            return
        reserved = [sum(values) for values in zip(*(held for _, held in holdings))]
        allocated = [0.9 * value for value in reserved]
        number = [value / work.MIB for value in allocated]
        for process in one.processes:
            device = {"device": "cuda:0"}
            for name, values in (("allocated_bytes", allocated), ("reserved_bytes", reserved),
                                 ("peak_allocated_bytes", list(accumulate(allocated, max))),
                                 ("outstanding_bytes", allocated), ("outstanding_allocations", number)):
                self.gauge(f"gpusnoop_torch_memory_{name}", process, device, values)
            for holding, values in holdings:
                for name, share in (("outstanding", 0.9), ("error", 0.05)):
                    self.gauge(f"gpusnoop_torch_memory_site_{name}_bytes", process, {"site": holding.site},
                               [share * value for value in values])
            for values, allocations, frees in ((allocated, "allocation_bytes", "free_bytes"),
                                               (number, "allocations", "frees")):
                up = risen(values)
                down = [above - value for above, value in zip(up, values)]
                for name, series in ((allocations, up), (frees, down)):
                    self.store.add(f"gpusnoop_torch_memory_{name}_total", {**one.labels, **device}, series, 1.0,
                                   self.first, self.counted_until)
            for name in ("memory_untracked_frees", "out_of_memory"):
                self.store.add(f"gpusnoop_torch_{name}_total", {**one.labels, **device}, [0.0] * self.clock.count, 1.0,
                               self.first, self.counted_until)

    def copies(self):
        gpus = [process.gpu for process in self.work.processes]
        for copy in self.work.of(work.Copy):
            labels = {"direction": copy.direction, "mode": copy.mode}
            seconds = copy.bytes / copy.bandwidth if copy.mode == "sync" else 6e-6
            for gpu in gpus:
                where = {**labels, "gpu": gpu}
                self.counter("gpusnoop_cuda_memcpy_total", where, copy.activity, copy.per_step)
                self.counter("gpusnoop_cuda_memcpy_bytes_total", where, copy.activity, copy.per_step * copy.bytes)
                self.counter("gpusnoop_cuda_memcpy_seconds_total", where, copy.activity, copy.per_step * seconds, False)
            number, way = copy.per_step * len(gpus), {"direction": copy.direction}
            self.histogram("gpusnoop_cuda_memcpy_size_bytes", way, buckets.SIZES, copy.activity, number, copy.bytes,
                           0.9)
            if copy.mode == "sync":
                self.histogram("gpusnoop_cuda_memcpy_bandwidth_bytes_per_second", way, buckets.BANDWIDTHS,
                               copy.activity, number, copy.bandwidth, 0.35)
                self.histogram("gpusnoop_cuda_memcpy_duration_seconds", way, buckets.DURATIONS, copy.activity, number,
                               seconds, 0.8)
            else:
                steps = self.work.activities[copy.activity]
                for process in self.work.processes:
                    self.gauge("gpusnoop_cuda_memcpy_async_in_flight_estimated_bytes", process, {},
                               self.clock.sampled(lambda second, copy=copy, steps=steps:
                                                  copy.bytes * min(4.0, copy.per_step * steps(second) / 4)))
        for memset in self.work.of(work.Memset):
            for gpu in gpus:
                where = {"mode": "async", "gpu": gpu}
                self.counter("gpusnoop_cuda_memset_total", where, memset.activity, memset.per_step)
                self.counter("gpusnoop_cuda_memset_bytes_total", where, memset.activity, memset.per_step * memset.bytes)

    def launches(self):
        for kernel in self.work.of(work.Kernel):
            for process in self.work.processes:
                gpu = {"gpu": process.gpu}
                if not kernel.grid:
                    self.graphs(kernel, gpu)
                    continue
                self.counter("gpusnoop_overhead_seconds_total", {"probe": "cuda"}, kernel.activity,
                             kernel.per_step * LAUNCH_COST, whole=False)
                if kernel.unobserved:
                    self.counter("gpusnoop_cuda_launches_unobserved_seconds_total", {}, kernel.activity,
                                 kernel.unobserved, whole=False)
                    self.counter("gpusnoop_cuda_launches_unobserved_total", gpu, kernel.activity,
                                 kernel.unobserved * kernel.per_step)
                self.counter("gpusnoop_cuda_kernel_launches_total",
                             {"kernel": kernel.name, "grid": kernel.grid, "block": kernel.block, "via": "stream", **gpu},
                             kernel.activity, kernel.per_step)
                self.histogram("gpusnoop_cuda_kernel_launch_duration_seconds", gpu, buckets.DURATIONS, kernel.activity,
                               kernel.per_step, kernel.duration, 0.6)
                threads = 1
                for number in f"{kernel.grid}x{kernel.block}".split("x"):
                    threads *= int(number)
                self.histogram("gpusnoop_cuda_kernel_launch_threads", gpu, buckets.THREADS, kernel.activity,
                               kernel.per_step, threads, 0.3)

    def graphs(self, graph, gpu):
        """A graph that was captured when its program began, of one layer's kernels for each of 32 layers."""
        self.counter("gpusnoop_cuda_graph_launches_total", {"content": "known", **gpu}, graph.activity, graph.per_step)
        for kernel, grid, block in GRAPH_KERNELS:
            self.counter("gpusnoop_cuda_kernel_launches_total",
                         {"kernel": kernel, "grid": grid, "block": block, "via": "graph", **gpu},
                         graph.activity, 32 * graph.per_step)
        for operation in ("launch", "copy", "memset"):
            self.counter("gpusnoop_cuda_graph_captured_total", {"operation": operation}, graph.activity, 0)

    def timings(self):
        self.counter("gpusnoop_cuda_event_elapsed_invalid_total", {}, next(iter(self.work.activities)), 0)
        for timing in self.work.of(work.Timing):
            self.histogram("gpusnoop_cuda_event_elapsed_seconds", {}, buckets.ELAPSED, timing.activity,
                           timing.per_step * len(self.work.processes), timing.seconds, 0.3)

    def errors(self):
        for failure in self.work.of(work.Failure):
            if not failure.library:
                self.counter("gpusnoop_cuda_api_errors_total", {"function": failure.function, "error": failure.error},
                             failure.activity, failure.per_step)
                if failure.error == "cudaErrorMemoryAllocation":
                    for process in self.work.processes:
                        self.counter("gpusnoop_cuda_out_of_memory_total", {"gpu": str(process.gpu), "verdict": "own_use"},
                                     failure.activity, failure.per_step / len(self.work.processes))

    def processes(self):
        for process in self.work.processes:
            for begin, end, complete in self.spans():
                labels = {**self.work.labels, "pid": process.pid, **self.work.info(complete)}
                self.store.constant("gpusnoop_process_info", labels, 1, begin, end)

    def add(self):
        self.processes()
        self.memory()
        self.peaks()
        self.idle()
        self.tensors()
        self.copies()
        self.launches()
        self.timings()
        self.errors()
