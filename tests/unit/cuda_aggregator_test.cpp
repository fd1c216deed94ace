// The aggregator without BPF: records in, families out.
#include "exporter/probes/cuda_aggregator.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <random>

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t pid = 42;
constexpr std::uint64_t since = 1'000;

template <typename T>
std::span<const std::byte> bytes_of(const T &record) {
    return std::as_bytes(std::span(&record, 1));
}

cuda_record head(std::uint16_t type, std::uint16_t function, std::uint64_t ended_ns,
                 int result = 0) {
    cuda_record record{};
    record.ended_ns = ended_ns;
    record.duration_ns = 1'000;
    record.since_ns = since;
    record.tgid = pid;
    record.type = type;
    record.function = function;
    record.result = result;
    return record;
}

cuda_process_record process(const char *comm = "python") {
    cuda_process_record record{};
    record.head = head(CUDA_RECORD_PROCESS, 0, 1'000);
    std::memcpy(record.comm, comm, std::min(std::strlen(comm), sizeof(record.comm)));
    return record;
}

cuda_allocation_record allocation(std::uint64_t address, std::uint64_t bytes, std::uint64_t at) {
    return {head(CUDA_RECORD_ALLOCATE, CUDA_FUNCTION_cudaMalloc, at), address, bytes};
}

cuda_allocation_record release(std::uint64_t address, std::uint64_t at) {
    return {head(CUDA_RECORD_FREE, CUDA_FUNCTION_cudaFree, at), address, 0};
}

cuda_copy_record copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes, std::uint32_t kind,
                      std::uint64_t at) {
    return {head(CUDA_RECORD_COPY, CUDA_FUNCTION_cudaMemcpy, at), to, from, bytes, kind, 0};
}

cuda_launch_record launch(std::uint64_t kernel, std::uint32_t grid, std::uint64_t at = 2'000) {
    return {head(CUDA_RECORD_LAUNCH, CUDA_FUNCTION_cudaLaunchKernel, at),
            kernel,
            {grid, 1, 1},
            {32, 2, 1}};
}

// An aggregator whose kernels are asked for, and whose ring of allocations holds `late` records
// until it is drained once more.
struct Bench {
    std::vector<symbols::KernelRequest> asked;
    std::vector<cuda_process_record> late;
    bool complete = true;
    CudaSettings settings;
    std::unique_ptr<CudaAggregator> aggregator;

    explicit Bench(CudaSettings with = {}) : settings(std::move(with)) {
        aggregator = std::make_unique<CudaAggregator>(
            settings, CudaSurroundings{
                          .catch_up =
                              [this] {
                                  for (const auto &record : std::exchange(late, {})) {
                                      aggregator->on_allocations_record(bytes_of(record));
                                  }
                              },
                          .remember_executable = [](const auto &) {},
                          .ask_for_kernel = [this](auto request) { asked.push_back(request); },
                          .describe = [this](Process &one) { one.book_is_complete = complete; }});
    }

    template <typename T>
    void allocations(const T &record) const {
        aggregator->on_allocations_record(bytes_of(record));
    }
    template <typename T>
    void calls(const T &record) const {
        aggregator->on_calls_record(bytes_of(record));
    }

    // The sum of a family's values over the label sets that contain all of `labels`.
    [[nodiscard]] std::uint64_t sum(const std::string &name,
                                    const std::vector<std::string> &labels = {}) const {
        std::uint64_t sum = 0;
        for (const auto &family : aggregator->report(5'000s)) {
            if (family.description->name != "gpusnoop_" + name) {
                continue;
            }
            for (std::size_t i = 0; i < family.labels.size(); i++) {
                const auto &own = *family.labels[i];
                if (std::ranges::all_of(labels, [&](const auto &label) {
                        return std::ranges::find(own, label) != own.end();
                    })) {
                    sum += family.values[i * family.stride];
                }
            }
        }
        return sum;
    }
};

cuda_exit_record exit_record(std::uint64_t at) {
    return {head(CUDA_RECORD_EXIT, 0, at)};
}

}  // namespace

TEST_CASE("allocations and frees make the outstanding bytes") {
    Bench bench;
    bench.allocations(process());
    bench.allocations(allocation(0x1000, 100, 2'000));
    bench.allocations(allocation(0x2000, 10, 3'000));
    bench.allocations(release(0x1000, 4'000));
    bench.allocations(release(0x9000, 5'000));
    bench.allocations(release(0, 6'000));
    bench.aggregator->settle(1s);
    CHECK(bench.sum("cuda_memory_allocations_total", {"python", "device"}) == 2);
    CHECK(bench.sum("cuda_memory_allocated_bytes_total") == 110);
    CHECK(bench.sum("cuda_memory_frees_total") == 1);
    CHECK(bench.sum("cuda_memory_freed_bytes_total") == 100);
    CHECK(bench.sum("cuda_memory_unknown_frees_total") == 1);
    CHECK(bench.sum("cuda_memory_outstanding_bytes", {"42"}) == 10);
    CHECK(bench.sum("cuda_memory_outstanding_allocations", {"42"}) == 1);
    CHECK(bench.sum("cuda_memory_aged_bytes", {"1h"}) == 10);
}

TEST_CASE("a failed call is an error by name and nothing else") {
    Bench bench;
    bench.allocations(process());
    auto failed = allocation(0, 1 << 30, 2'000);
    failed.head.result = 2;
    bench.allocations(failed);
    auto bad_copy = copy(1, 2, 50, 1, 3'000);
    bad_copy.head.result = 987'654;
    bench.calls(bad_copy);
    bench.aggregator->settle(1s);
    CHECK(bench.sum("cuda_api_errors_total", {"cudaMalloc", "cudaErrorMemoryAllocation"}) == 1);
    CHECK(bench.sum("cuda_api_errors_total", {"cudaMemcpy", "code_987654"}) == 1);
    CHECK(bench.sum("cuda_memory_allocations_total") == 0);
    CHECK(bench.sum("cuda_memcpy_bytes_total") == 0);
}

TEST_CASE("a Default copy is what the book says, whatever order the rings are read in") {
    Bench bench;
    bench.allocations(process());
    // Read in the order free, copies, allocation; they happened in the order of their times.
    bench.allocations(release(0x1000, 9'000));
    bench.calls(copy(0x1010, 0x7fff, 1, CUDA_COPY_DEFAULT, 3'000));
    bench.calls(copy(0x7fff, 0x1010, 2, CUDA_COPY_DEFAULT, 4'000));
    bench.calls(copy(0x1000, 0x1010, 4, CUDA_COPY_DEFAULT, 5'000));
    bench.calls(copy(0x7fff, 0x8fff, 8, CUDA_COPY_DEFAULT, 6'000));
    bench.calls(copy(0x1010, 0x7fff, 16, CUDA_COPY_DEFAULT, 9'500));
    bench.allocations(allocation(0x1000, 0x100, 2'000));
    bench.aggregator->settle(9'000ns);
    CHECK(bench.sum("cuda_memcpy_bytes_total", {"h2d"}) == 1);
    CHECK(bench.sum("cuda_memcpy_bytes_total", {"d2h"}) == 2);
    CHECK(bench.sum("cuda_memcpy_bytes_total", {"d2d"}) == 4);
    CHECK(bench.sum("cuda_memcpy_bytes_total", {"h2h"}) == 8);
    bench.aggregator->settle(9'500ns);
    CHECK(bench.sum("cuda_memcpy_bytes_total", {"h2h"}) == 8 + 16);
}

TEST_CASE("where the book may lack allocations, a Default copy is of unknown kind") {
    Bench bench;
    bench.complete = false;
    bench.allocations(process());
    bench.allocations(allocation(0x1000, 0x1000, 2'000));
    bench.calls(copy(0x1000, 0x9000, 8, CUDA_COPY_DEFAULT, 3'000));
    bench.calls(copy(0x1000, 0x1800, 4, CUDA_COPY_DEFAULT, 3'000));
    bench.aggregator->settle(1s);
    CHECK(bench.sum("cuda_memcpy_bytes_total", {"unknown", "sync"}) == 12);  // gpu is unknown, too
    CHECK(bench.sum("cuda_memcpy_bytes_total", {"d2d"}) == 4);
}

TEST_CASE("launches wait for their kernel's name and lose none") {
    Bench bench;
    bench.allocations(process());
    for (int i = 0; i < 10; i++) {
        bench.calls(launch(0xabc, 7));
    }
    bench.calls(launch(0xabc, 8));
    REQUIRE(bench.asked.size() == 1);
    CHECK(bench.asked[0].address == 0xabc);
    CHECK(bench.sum("cuda_kernel_launches_total") == 0);
    bench.aggregator->on_kernel_name({bench.asked[0].ticket, "gemm"});
    CHECK(bench.sum("cuda_kernel_launches_total", {"gemm", "7x1x1", "32x2x1"}) == 10);
    bench.calls(launch(0xabc, 8));
    CHECK(bench.sum("cuda_kernel_launches_total", {"gemm", "8x1x1"}) == 2);
}

TEST_CASE("a launch by handle is named by the handle's host function") {
    Bench bench;
    bench.allocations(process());
    bench.allocations(cuda_kernel_record{
        head(CUDA_RECORD_KERNEL, CUDA_FUNCTION___cudaGetKernel, 1'500), 0x5000, 0x400});
    bench.calls(launch(0x5000, 1));
    REQUIRE(bench.asked.size() == 1);
    CHECK(bench.asked[0].address == 0x400);
}

TEST_CASE("a kernel without a name is unknown once its process is gone for good") {
    Bench bench;
    bench.allocations(process());
    bench.calls(launch(0xabc, 7));
    bench.allocations(exit_record(3'000));
    bench.aggregator->settle(1s);
    bench.aggregator->tidy(2s);
    CHECK(bench.sum("cuda_kernel_launches_total") == 0);
    bench.aggregator->tidy(60s);
    CHECK(bench.sum("cuda_kernel_launches_total", {"unknown", "7x1x1"}) == 1);
}

TEST_CASE("grid and block are multiplied in 64 bits") {
    Bench bench;
    bench.allocations(process());
    auto wide = launch(1, 0x7fffffff);
    wide.block[0] = 1024;
    wide.block[1] = 1;
    bench.calls(wide);
    for (const auto &family : bench.aggregator->report(1s)) {
        if (family.description->name == "gpusnoop_cuda_kernel_launch_threads") {
            REQUIRE(family.labels.size() == 1);
            CHECK(family.values.back() == 0x7fffffffULL * 1024);
        }
    }
}

TEST_CASE("a call whose process is announced behind it in the other ring finds its process") {
    Bench bench;
    bench.late.push_back(process("late"));
    bench.calls(copy(1, 2, 64, 1, 2'000));
    CHECK(bench.sum("cuda_memcpy_bytes_total", {"late", "h2d"}) == 64);
}

TEST_CASE("a call whose process's record was lost is counted for a process without a name") {
    Bench bench;
    bench.calls(copy(1, 2, 64, 1, 2'000));
    CHECK(bench.sum("cuda_memcpy_bytes_total", {"unknown", "h2d"}) == 64);
}

TEST_CASE("a process's record that comes behind its calls does not split its account") {
    Bench bench;
    bench.calls(copy(1, 2, 64, 1, 2'000));
    bench.allocations(process("late"));
    bench.calls(copy(1, 2, 64, 1, 2'500));
    bench.allocations(exit_record(3'000));
    bench.aggregator->settle(1s);
    bench.aggregator->tidy(2s);
    CHECK(bench.sum("cuda_memcpy_bytes_total", {"unknown", "h2d"}) == 128);
}

TEST_CASE("launches of a running process do not wait for a name for ever") {
    Bench bench;
    bench.aggregator->tidy(1s);
    bench.allocations(process());
    bench.calls(launch(0xabc, 7));
    bench.aggregator->tidy(5s);
    CHECK(bench.sum("cuda_kernel_launches_total") == 0);
    bench.aggregator->tidy(12s);
    CHECK(bench.sum("cuda_kernel_launches_total", {"unknown", "7x1x1"}) == 1);
    bench.aggregator->on_kernel_name({bench.asked[0].ticket, "too late"});
    bench.calls(launch(0xabc, 7));
    CHECK(bench.sum("cuda_kernel_launches_total", {"unknown", "7x1x1"}) == 2);
}

TEST_CASE("one process cannot make more kernels, shapes or errors than there is room for") {
    Bench bench({.budget = [](std::string_view) { return 1'000'000U; }});
    bench.allocations(process());
    constexpr std::uint64_t many = 100'000;
    for (std::uint64_t i = 1; i <= many; i++) {
        bench.calls(launch(i * 16, 7));
        auto failed = copy(1, 2, 50, 1, 3'000);
        failed.head.result = static_cast<int>(i);
        bench.calls(failed);
    }
    CHECK(bench.asked.size() == 16'384);
    CHECK(bench.sum("cuda_kernel_launches_total", {"other"}) == many - 16'384);
    CHECK(bench.sum("cuda_api_errors_total") == many);
    CHECK(bench.sum("cuda_api_errors_total", {"other"}) == many - 1'000);
    bench.aggregator->tidy(60s);
    CHECK(bench.sum("cuda_kernel_launches_total") == many);
}

TEST_CASE("what a process had not freed is counted when it ends, and its gauges go") {
    Bench bench;
    bench.allocations(process());
    bench.allocations(exit_record(5'000));  // read before the allocation, but later
    bench.allocations(allocation(0x1000, 100, 2'000));
    bench.aggregator->settle(1s);
    CHECK(bench.sum("cuda_memory_unfreed_at_exit_bytes_total") == 100);
    CHECK(bench.sum("cuda_memory_unfreed_at_exit_allocations_total") == 1);
    for (const auto &family : bench.aggregator->report(1s)) {
        if (family.description->name == "gpusnoop_cuda_memory_outstanding_bytes") {
            CHECK(family.labels.empty());
        }
    }
}

TEST_CASE("a process's series stay for the retention time, then leave") {
    Bench bench({.retention = 60s});
    bench.allocations(process());
    bench.allocations(allocation(0x1000, 100, 2'000));
    bench.allocations(exit_record(1'000'000'000));
    bench.aggregator->settle(2s);
    bench.aggregator->tidy(50s);
    CHECK(bench.sum("cuda_memory_allocated_bytes_total") == 100);
    bench.aggregator->tidy(62s);
    CHECK(bench.sum("cuda_memory_allocated_bytes_total") == 0);

    SECTION("and come back from zero with the next process of that name") {
        auto again = process();
        again.head.since_ns = 99;
        auto more = allocation(0x1000, 7, 70'000'000'000);
        more.head.since_ns = 99;
        bench.allocations(again);
        bench.allocations(more);
        bench.aggregator->settle(80s);
        CHECK(bench.sum("cuda_memory_allocated_bytes_total") == 7);
    }
}

TEST_CASE("the label pid is on every family where it is asked for") {
    Bench bench({.pid_label = true});
    bench.allocations(process());
    bench.calls(copy(1, 2, 64, 1, 2'000));
    CHECK(bench.sum("cuda_memcpy_bytes_total", {"42"}) == 64);
}

TEST_CASE("bytes that are no record are counted and change nothing") {
    Bench bench;
    std::mt19937 random(1);
    std::vector<std::byte> junk(300);
    for (int i = 0; i < 20'000; i++) {
        for (std::byte &one : junk) {
            one = static_cast<std::byte>(random());
        }
        junk[28] = static_cast<std::byte>(random() % 9);  // the type, mostly a known one
        junk[29] = std::byte{0};
        const auto part = std::span(junk).first(random() % junk.size());
        bench.aggregator->on_allocations_record(part);
        bench.aggregator->on_calls_record(part);
    }
    bench.aggregator->settle(std::chrono::nanoseconds::max());
    CHECK(bench.aggregator->undecodable() > 30'000);
}
