#include "tests/harness/cuda_truth.h"

#include <catch2/catch_test_macros.hpp>
#include <map>

#include "exporter/probes/cuda_errors.h"
#include "exporter/symbols/kernel_name.h"

namespace harness {

namespace {

// The functions that are traced, by the name that the page shows.
const std::map<std::string, std::string> shown_names = {
    {"cudaMalloc", "cudaMalloc"},
    {"cudaFree", "cudaFree"},
    {"cudaMemcpy", "cudaMemcpy"},
    {"cudaMemcpy_ptds", "cudaMemcpy"},
    {"cudaMemcpyAsync", "cudaMemcpyAsync"},
    {"cudaMemcpyAsync_ptsz", "cudaMemcpyAsync"},
    {"cudaLaunchKernel", "cudaLaunchKernel"},
    {"__cudaLaunchKernel", "cudaLaunchKernel"},
    {"__cudaLaunchKernel_ptsz", "cudaLaunchKernel"},
    {"__cudaGetKernel", "__cudaGetKernel"},
};

std::string shape(const std::array<std::uint32_t, 3> &one) {
    return std::to_string(one[0]) + "x" + std::to_string(one[1]) + "x" + std::to_string(one[2]);
}

double number(std::uint64_t value) {
    return static_cast<double>(value);
}

void check_memory(const Page &page, const truth::TruthSnapshot &truth, const Labels &of) {
    const truth::Memory &memory = truth.of(truth::MemoryKind::device);
    CHECK(page.sum("gpusnoop_cuda_memory_allocations_total", of) ==
          number(memory.allocations + truth.empty_allocations));
    CHECK(page.sum("gpusnoop_cuda_memory_allocated_bytes_total", of) ==
          number(memory.allocated_bytes));
    CHECK(page.sum("gpusnoop_cuda_memory_frees_total", of) == number(memory.frees));
    CHECK(page.sum("gpusnoop_cuda_memory_freed_bytes_total", of) == number(memory.freed_bytes));
    CHECK(page.sum("gpusnoop_cuda_memory_unknown_frees_total", of) == number(memory.unknown_frees));
}

void check_copies(const Page &page, const truth::TruthSnapshot &truth, const Labels &of) {
    constexpr std::array kinds = {"h2h", "h2d", "d2h", "d2d"};
    constexpr std::array modes = {"sync", "async"};
    for (std::size_t kind = 0; kind < kinds.size(); kind++) {
        std::uint64_t calls = 0;
        std::uint64_t bytes = 0;
        Labels labels = of;
        labels["kind"] = kinds[kind];
        for (std::size_t mode = 0; mode < modes.size(); mode++) {
            labels["mode"] = modes[mode];
            INFO(kinds[kind] << " " << modes[mode]);
            const truth::Copies &copies = truth.copies[kind][mode];
            CHECK(page.sum("gpusnoop_cuda_memcpy_total", labels) == number(copies.calls));
            CHECK(page.sum("gpusnoop_cuda_memcpy_bytes_total", labels) == number(copies.bytes));
            calls += copies.calls;
            bytes += copies.bytes;
        }
        labels.erase("mode");
        CHECK(page.sum("gpusnoop_cuda_memcpy_size_bytes_count", labels) == number(calls));
        CHECK(page.sum("gpusnoop_cuda_memcpy_size_bytes_sum", labels) == number(bytes));
        CHECK(page.sum("gpusnoop_cuda_memcpy_duration_seconds_count", labels) ==
              number(truth.copies[kind][0].calls));
    }
    Labels unknown = of;
    unknown["kind"] = "unknown";
    CHECK_FALSE(page.has("gpusnoop_cuda_memcpy_total", unknown));
}

void check_launches(const Page &page, const truth::TruthSnapshot &truth, const Labels &of) {
    std::map<Labels, std::uint64_t> expected;
    double threads = 0;
    for (const auto &[launch, count] : truth.launch_table) {
        expected[{{"kernel", gpusnoop::symbols::kernel_name(launch.kernel)},
                  {"grid", shape(launch.grid)},
                  {"block", shape(launch.block)}}] += count;
        double each = 1;
        for (std::size_t i = 0; i < 3; i++) {
            each *= static_cast<double>(launch.grid[i]) * static_cast<double>(launch.block[i]);
        }
        threads += each * number(count);
    }
    for (const auto &[shape, count] : expected) {
        Labels labels = of;
        labels.insert(shape.begin(), shape.end());
        INFO(shape.at("kernel") << " " << shape.at("grid") << " " << shape.at("block"));
        CHECK(page.sum("gpusnoop_cuda_kernel_launches_total", labels) == number(count));
    }
    CHECK(page.sum("gpusnoop_cuda_kernel_launches_total", of) == number(truth.launches));
    CHECK(page.sum("gpusnoop_cuda_kernel_launch_duration_seconds_count", of) ==
          number(truth.launches));
    CHECK(page.sum("gpusnoop_cuda_kernel_launch_threads_sum", of) == threads);
}

void check_errors(const Page &page, const truth::TruthSnapshot &truth, const Labels &of) {
    std::map<std::pair<std::string, std::string>, std::uint64_t> expected;
    std::uint64_t total = 0;
    for (const auto &[result, count] : truth.results) {
        const auto shown = shown_names.find(result.first);
        if (shown != shown_names.end() && result.second != 0) {
            expected[{shown->second,
                      std::string(gpusnoop::probes::cuda_error_name(result.second))}] += count;
            total += count;
        }
    }
    for (const auto &[error, count] : expected) {
        Labels labels = of;
        labels["function"] = error.first;
        labels["error"] = error.second;
        INFO(error.first << " " << error.second);
        CHECK(page.sum("gpusnoop_cuda_api_errors_total", labels) == number(count));
    }
    CHECK(page.sum("gpusnoop_cuda_api_errors_total", of) == number(total));
}

}  // namespace

void check_counters(const Page &page, const truth::TruthSnapshot &truth, const std::string &comm) {
    const Labels of = {{"comm", comm}};
    check_memory(page, truth, of);
    check_copies(page, truth, of);
    check_launches(page, truth, of);
    check_errors(page, truth, of);
}

void check_outstanding(const Page &page, const truth::TruthSnapshot &truth) {
    const Labels of = {{"pid", std::to_string(truth.pid)}};
    const truth::Memory &memory = truth.of(truth::MemoryKind::device);
    CHECK(page.has("gpusnoop_cuda_memory_outstanding_bytes", of));
    CHECK(page.sum("gpusnoop_cuda_memory_outstanding_bytes", of) ==
          number(memory.outstanding_bytes));
    CHECK(page.sum("gpusnoop_cuda_memory_outstanding_allocations", of) ==
          number(memory.outstanding_allocations));
}

void check_account_at_rest(const Exporter &exporter) {
    eventually("no call to be in flight",
               [&] { return exporter.scrape().sum("gpusnoop_probe_in_flight_calls") == 0; });
    const Page page = exporter.scrape();
    CHECK(page.sum("gpusnoop_probe_events_lost_total") == 0);
    CHECK(page.sum("gpusnoop_probe_entries_total") ==
          page.sum("gpusnoop_probe_events_total") + page.sum("gpusnoop_probe_stale_calls_total"));
}

}  // namespace harness
