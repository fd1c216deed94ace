// From a record's bytes to its counters: the cost of each event for the aggregating thread.
#include <chrono>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "bench/micro/measured.h"
#include "exporter/probes/fence/aggregator.h"
#include "exporter/probes/functions/count/aggregator.h"
#include "exporter/probes/pcie/aggregator.h"
#include "exporter/probes/syscall/aggregator.h"
#include "tests/unit/probes/cuda/fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;

namespace {

using bench::measure;
using bench::measure_each;

constexpr std::uint32_t budget = 2'000;

template <typename Record>
std::span<const std::byte> bytes_of(const Record &record) {
    return std::as_bytes(std::span(&record, 1));
}

process_identity train() {
    process_identity identity{};
    identity.start_boottime_ns = 5;
    std::memcpy(identity.comm, "train", 5);
    return identity;
}

void cuda_launch(benchmark::State &state) {
    Fixture bench;
    bench.allocations(process("train"));
    std::vector<cuda_launch_record> records;
    for (std::uint64_t kernel = 1; kernel <= 64; kernel++) {
        records.push_back(launch(kernel * 4'096, 32));
        bench.calls(records.back());
    }
    bench.name_kernels("gemm");
    measure_each(state, records, [&](const auto &record) { bench.calls(record); });
}
BENCHMARK(cuda_launch);

void cuda_copy(benchmark::State &state) {
    Fixture bench;
    bench.allocations(process("train"));
    std::vector<cuda_copy_record> records;
    for (std::uint64_t i = 0; i < 64; i++) {
        records.push_back(
            copy(1, 2, std::uint64_t{1} << (i % 24), static_cast<std::uint32_t>(i % 4), 2'000));
    }
    measure_each(state, records, [&](const auto &record) { bench.calls(record); });
}
BENCHMARK(cuda_copy);

// With this number of other live allocations.
void cuda_allocation_and_free(benchmark::State &state) {
    Fixture bench;
    bench.allocations(process("train"));
    std::uint64_t at = 2'000;
    const auto live = static_cast<std::uint64_t>(state.range(0));
    for (std::uint64_t i = 1; i <= live; i++) {
        bench.allocations(allocation(i << 20U, 4'096, at++));
    }
    bench.apply_all();
    measure(state, 64, [&] {
        for (std::uint64_t i = 1; i <= 64; i++) {
            const auto made = allocation((live + i) << 20U, 4'096, at++);
            bench.allocations(made);
            bench.allocations(release(made, at++));
        }
        bench.apply_all();
    });
}
BENCHMARK(cuda_allocation_and_free)->Arg(1'000)->Arg(100'000);

void func_call(benchmark::State &state) {
    FunctionIds table;
    FunctionsAggregator aggregator(
        {.budget = [](std::string_view) { return budget; }, .retention = std::chrono::minutes(1)},
        table, [](ProcessIdentity &) { return true; });
    func_process_record first{};
    first.head = {1'000, 1'000, 42, FUNC_RECORD_PROCESS};
    first.identity = train();
    aggregator.on_record(bytes_of(first));
    std::vector<func_call_record> records;
    for (std::uint64_t i = 0; i < 64; i++) {
        probes::FunctionOptions options;
        options.slow_threshold = std::chrono::milliseconds(50);
        options.errors = probes::ErrorKind::cublas_status;
        func_call_record record{};
        record.head = {2'000, 1'000, 42, FUNC_RECORD_RETURN};
        record.duration_ns = std::uint64_t{1'000} << (i % 12);
        record.function = table.add({.library = "libcublas.so.12",
                                     .group = "cublas",
                                     .name = "function" + std::to_string(i),
                                     .options = std::move(options)});
        records.push_back(record);
    }
    measure_each(state, records,
                 [&](const auto &record) { aggregator.on_record(bytes_of(record)); });
}
BENCHMARK(func_call);

void pcie_access(benchmark::State &state) {
    PcieAggregator aggregator(
        {.budget = [](std::string_view) { return budget; }, .retention = std::chrono::minutes(1)});
    std::vector<pcie_record> records;
    for (std::uint32_t i = 0; i < 64; i++) {
        pcie_record record{};
        record.ended_ns = 10'000;
        record.duration_ns = 700;
        record.device = pcie_device(0, 0x3b, i % 8);
        record.access = 4 | (i % 2 == 0 ? PCIE_WRITES : 0U);
        record.tgid = 0x7fffffff;
        record.identity = train();
        records.push_back(record);
    }
    measure_each(state, records, [&](const auto &record) { aggregator.on_record(record); });
}
BENCHMARK(pcie_access);

traced_start_record started() {
    traced_start_record record{};
    record.head = {1, 1, 42, PROCESS_STARTED};
    record.identity = train();
    return record;
}

void fence_event_of_eight_timelines(benchmark::State &state) {
    FenceAggregator aggregator({.budget = [](std::string_view) { return budget; },
                                .retention = std::chrono::minutes(1),
                                .look_up = [](ProcessIdentity &) { return true; }});
    const auto process = started();
    aggregator.on_record(bytes_of(process));
    std::vector<fence_record> records;
    for (std::uint32_t i = 0; i < 64; i++) {
        fence_record record{};
        record.head = {2, 1, 42, FENCE_RECORD + i % FENCE_EVENT_COUNT};
        record.has_duration = 1;
        record.nanoseconds = 1'000;
        std::memcpy(record.names.driver, "nvidia-drm", 10);
        const std::string timeline = "channel" + std::to_string(i % 8);
        std::memcpy(record.names.timeline, timeline.data(), timeline.size());
        records.push_back(record);
    }
    measure_each(state, records,
                 [&](const auto &record) { aggregator.on_record(bytes_of(record)); });
}
BENCHMARK(fence_event_of_eight_timelines);

// System calls are counted in the kernel: the cost is for an entry of its table, twice a second.
void syscall_table_entry(benchmark::State &state) {
    SyscallAggregator aggregator({.budget = [](std::string_view) { return budget; },
                                  .retention = std::chrono::minutes(1),
                                  .look_up = [](ProcessIdentity &) { return true; }});
    const auto process = started();
    aggregator.on_record(bytes_of(process));
    SyscallReading reading;
    for (std::uint16_t number = 0; number < 64; number++) {
        reading.counts.push_back({{1, 42, number, 0}, {}});
    }
    measure(state, 64, [&] {
        for (auto &[key, counts] : reading.counts) {
            counts.calls[key.number % SYSCALL_BUCKETS]++;
            counts.nanoseconds += 1'000;
        }
        aggregator.on_reading(reading);
    });
}
BENCHMARK(syscall_table_entry);

}  // namespace
