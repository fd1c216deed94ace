#include "tests/harness/cuda_truth.h"
#include "tests/harness/counting.h"

#include <sys/utsname.h>

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <map>

#include "exporter/probes/cuda/launches/cuda_kernel_name.h"
#include "exporter/symbols/names/cuda_errors.h"

namespace harness {

namespace {

constexpr std::array memory_kinds = {"device", "async", "managed", "pinned_host", "vmm"};
constexpr std::array copy_kinds = {"h2h", "h2d", "d2h", "d2d"};
constexpr std::array modes = {"sync", "async", "graph"};
// By truth::Captured.
constexpr std::array captured_operations = {"launch",   "copy", "memset",
                                            "allocate", "free", "graph"};

// What a device did, or all of them.
struct Account {
    std::array<truth::Memory, truth::kMemoryKinds> memory{};
    std::array<std::array<truth::Copies, truth::kCopyModes>, truth::kCopyKinds> copies{};
    std::array<truth::Copies, truth::kCopyModes> memsets{};
    std::uint64_t graph_launches = 0;
    std::map<truth::LaunchKey, std::uint64_t> launches;  // by calls, without the device
    std::map<truth::LaunchKey, std::uint64_t> launches_by_graphs;
    std::uint64_t all_launches = 0;  // by calls
    std::uint64_t all_launches_by_graphs = 0;
    bool all_listed = true;
};

truth::LaunchKey on_no_device(truth::LaunchKey launch) {
    launch.device = 0;
    return launch;
}

Account account_of_all(const truth::TruthSnapshot &truth) {
    Account account;
    for (std::size_t kind = 0; kind < memory_kinds.size(); kind++) {
        account.memory[kind] = truth.of(static_cast<truth::MemoryKind>(kind));
    }
    for (std::size_t mode = 0; mode < modes.size(); mode++) {
        for (std::size_t kind = 0; kind < copy_kinds.size(); kind++) {
            account.copies[kind][mode] =
                truth.of(static_cast<truth::CopyKind>(kind), static_cast<truth::CopyMode>(mode));
        }
        account.memsets[mode] = truth.sets(static_cast<truth::CopyMode>(mode));
    }
    account.graph_launches = truth.graphs();
    for (const auto &[launch, count] : truth.launch_table) {
        account.launches[on_no_device(launch)] += count;
    }
    for (const auto &[launch, count] : truth.graph_launch_table) {
        account.launches_by_graphs[on_no_device(launch)] += count;
    }
    account.all_launches = truth.launches;
    account.all_launches_by_graphs = truth.launches_by_graphs;
    account.all_listed = truth.launches_unlisted == 0;
    return account;
}

Account account_of(const truth::TruthSnapshot &truth, std::size_t device) {
    Account account;
    account.memory = truth.memory[device];
    account.copies = truth.copies[device];
    account.memsets = truth.memsets[device];
    account.graph_launches = truth.graph_launches[device];
    for (const auto &[launch, count] : truth.launch_table) {
        if (launch.device == device) {
            account.launches[on_no_device(launch)] = count;
            account.all_launches += count;
        }
    }
    for (const auto &[launch, count] : truth.graph_launch_table) {
        if (launch.device == device) {
            account.launches_by_graphs[on_no_device(launch)] = count;
            account.all_launches_by_graphs += count;
        }
    }
    account.all_listed = truth.launches_unlisted == 0;
    return account;
}

struct Shown {
    std::string_view function;  // as the page calls it
    bool runtime;               // of the errors of which API its results are
};

// The functions whose errors the page shows: not those that only say what a kernel is called, or
// which stream another one follows.
const std::map<std::string, Shown> &shown_functions() {
    static const std::map<std::string, Shown> shown = [] {
        std::map<std::string, Shown> functions;
        const auto add = [&](const char *symbol, const char *name, int operation, bool runtime) {
            if (operation != CUDA_GET_KERNEL && operation != CUDA_GET_FUNCTION &&
                operation != CUDA_REGISTER && operation != CUDA_RECORD_EVENT &&
                operation != CUDA_WAIT_EVENT && operation != CUDA_DESTROY_STREAM) {
                functions[symbol] = {name, runtime};
            }
        };
#define ADD_RUNTIME(symbol, name, operation, ...) add(#symbol, #name, CUDA_##operation, true);
#define ADD_DRIVER(symbol, name, operation, ...) add(#symbol, #name, CUDA_##operation, false);
        CUDA_RUNTIME_FUNCTIONS(ADD_RUNTIME)
        CUDA_DRIVER_FUNCTIONS(ADD_DRIVER)
#undef ADD_RUNTIME
#undef ADD_DRIVER
        return functions;
    }();
    return shown;
}

std::string shape(const std::array<std::uint32_t, 3> &one) {
    return std::to_string(one[0]) + "x" + std::to_string(one[1]) + "x" + std::to_string(one[2]);
}

Labels with(Labels labels, const std::string &name, const std::string &value) {
    labels[name] = value;
    return labels;
}

void check_memory(const Page &page, const Account &account, const Labels &of) {
    for (std::size_t kind = 0; kind < memory_kinds.size(); kind++) {
        const truth::Memory &memory = account.memory[kind];
        const Labels labels = with(of, "memory_kind", memory_kinds[kind]);
        INFO("memory of kind " << memory_kinds[kind]);
        CHECK(page.sum("gpusnoop_cuda_memory_allocations_total", labels) ==
              number(memory.allocations + memory.empty_allocations));
        CHECK(page.sum("gpusnoop_cuda_memory_allocated_bytes_total", labels) ==
              number(memory.allocated_bytes));
        CHECK(page.sum("gpusnoop_cuda_memory_frees_total", labels) ==
              number(memory.frees + memory.freed_by_reset));
        CHECK(page.sum("gpusnoop_cuda_memory_freed_bytes_total", labels) ==
              number(memory.freed_bytes + memory.freed_by_reset_bytes));
        CHECK(page.sum("gpusnoop_cuda_memory_untracked_frees_total", labels) ==
              number(memory.untracked_frees));
    }
}

void check_copies(const Page &page, const Account &account, const Labels &of) {
    for (std::size_t mode = 0; mode < modes.size(); mode++) {
        const Labels in_mode = with(of, "mode", modes[mode]);
        for (std::size_t kind = 0; kind < copy_kinds.size(); kind++) {
            const Labels labels = with(in_mode, "direction", copy_kinds[kind]);
            INFO(copy_kinds[kind] << " " << modes[mode]);
            const truth::Copies &copies = account.copies[kind][mode];
            CHECK(page.sum("gpusnoop_cuda_memcpy_total", labels) == number(copies.calls));
            CHECK(page.sum("gpusnoop_cuda_memcpy_bytes_total", labels) == number(copies.bytes));
        }
        INFO("memset " << modes[mode]);
        CHECK(page.sum("gpusnoop_cuda_memset_total", in_mode) ==
              number(account.memsets[mode].calls));
        CHECK(page.sum("gpusnoop_cuda_memset_bytes_total", in_mode) ==
              number(account.memsets[mode].bytes));
    }
    CHECK_FALSE(page.has("gpusnoop_cuda_memcpy_total", with(of, "direction", "unknown")));
}

// These have no label gpu.
void check_copy_histograms(const Page &page, const Account &account, const Labels &of) {
    for (std::size_t kind = 0; kind < copy_kinds.size(); kind++) {
        const Labels labels = with(of, "direction", copy_kinds[kind]);
        const auto &copies = account.copies[kind];
        INFO(copy_kinds[kind]);
        CHECK(page.sum("gpusnoop_cuda_memcpy_size_bytes_count", labels) ==
              number(copies[0].calls + copies[1].calls));
        CHECK(page.sum("gpusnoop_cuda_memcpy_size_bytes_sum", labels) ==
              number(copies[0].bytes + copies[1].bytes));
        CHECK(page.sum("gpusnoop_cuda_memcpy_duration_seconds_count", labels) ==
              number(copies[0].calls));
    }
}

// Returns the GPU threads of all of them.
double check_shapes(const Page &page, const std::map<truth::LaunchKey, std::uint64_t> &launches,
                    const Labels &of) {
    std::map<Labels, std::uint64_t> expected;
    double threads = 0;
    for (const auto &[launch, count] : launches) {
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
    return threads;
}

void check_launches(const Page &page, const Account &account, const Labels &of, Launches seen) {
    const Labels by_calls = with(of, "via", "stream");
    const Labels by_graphs = with(of, "via", "graph");
    if (account.all_listed) {
        CHECK(page.sum("gpusnoop_cuda_kernel_launch_threads_sum", of) ==
              check_shapes(page, account.launches, by_calls));
        (void)check_shapes(page, account.launches_by_graphs, by_graphs);
    }
    CHECK(page.sum("gpusnoop_cuda_kernel_launches_total", by_calls) ==
          number(account.all_launches));
    CHECK(page.sum("gpusnoop_cuda_kernel_launches_total", by_graphs) ==
          number(account.all_launches_by_graphs));
    if (seen == Launches::to_their_end) {
        CHECK(page.sum("gpusnoop_cuda_kernel_launch_duration_seconds_count", of) ==
              number(account.all_launches));
    }
    CHECK(page.sum("gpusnoop_cuda_graph_launches_total", of) == number(account.graph_launches));
}

// These have no label gpu.
void check_captured(const Page &page, const truth::TruthSnapshot &truth, const Labels &of) {
    for (std::size_t what = 0; what < captured_operations.size(); what++) {
        INFO("captured " << captured_operations[what]);
        CHECK(page.sum("gpusnoop_cuda_graph_captured_total",
                       with(of, "operation", captured_operations[what])) ==
              number(truth.of(static_cast<truth::Captured>(what))));
    }
}

void check_errors(const Page &page, const truth::TruthSnapshot &truth, const Labels &of) {
    std::map<std::pair<std::string, std::string>, std::uint64_t> expected;
    std::uint64_t total = 0;
    for (const auto &[result, count] : truth.results) {
        const auto shown = shown_functions().find(result.first);
        if (shown != shown_functions().end() && result.second != 0) {
            const auto error = shown->second.runtime
                                   ? gpusnoop::probes::cuda_error_name(result.second)
                                   : gpusnoop::probes::cuda_driver_error_name(result.second);
            expected[{std::string(shown->second.function), std::string(error)}] += count;
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

// These have no label gpu.
void check_elapsed(const Page &page, const truth::TruthSnapshot &truth, const Labels &of) {
    CHECK(page.sum("gpusnoop_cuda_event_elapsed_seconds_count", of) == number(truth.elapsed_times));
    CHECK(page.sum("gpusnoop_cuda_event_elapsed_seconds_sum", of) * 1e9 ==
          Catch::Approx(number(truth.elapsed_ns)).epsilon(1e-12));
    CHECK(page.sum("gpusnoop_cuda_event_elapsed_invalid_total", of) ==
          number(truth.elapsed_invalid));
}

void check_account(const Page &page, const Account &account, const Labels &of, Launches seen) {
    check_memory(page, account, of);
    check_copies(page, account, of);
    check_launches(page, account, of, seen);
}

void check_outstanding(const Page &page, const Account &account, const Labels &of) {
    for (std::size_t kind = 0; kind < memory_kinds.size(); kind++) {
        const Labels labels = with(of, "memory_kind", memory_kinds[kind]);
        INFO("memory of kind " << memory_kinds[kind]);
        CHECK(page.sum("gpusnoop_cuda_memory_outstanding_bytes", labels) ==
              number(account.memory[kind].outstanding_bytes));
        CHECK(page.sum("gpusnoop_cuda_memory_outstanding_allocations", labels) ==
              number(account.memory[kind].outstanding_allocations));
    }
}

// Since Linux 7, a program at a tracepoint can be preempted before its guard begins, and other
// threads on that CPU do not run it meanwhile (bpf/lib/guard.bpf.h).
bool may_skip_tracepoint_programs() {
    utsname name{};
    REQUIRE(::uname(&name) == 0);
    return std::atoi(name.release) >= 7;
}

}  // namespace

void check_counters_of(const Page &page, const truth::TruthSnapshot &truth, const Labels &of,
                       Launches seen) {
    const Account all = account_of_all(truth);
    check_account(page, all, of, seen);
    check_copy_histograms(page, all, of);
    check_captured(page, truth, of);
    check_elapsed(page, truth, of);
    check_errors(page, truth, of);
}

void check_counters(const Page &page, const truth::TruthSnapshot &truth, const std::string &comm,
                    const GpuLabels &gpus, Launches seen) {
    const Labels of = {{"comm", comm}};
    check_counters_of(page, truth, of, seen);
    for (std::size_t device = 0; device < gpus.size(); device++) {
        INFO("device " << device << ", gpu " << gpus[device]);
        check_account(page, account_of(truth, device), with(of, "gpu", gpus[device]), seen);
    }
}

void check_outstanding(const Page &page, const truth::TruthSnapshot &truth, const GpuLabels &gpus) {
    const Labels of = {{"pid", std::to_string(truth.pid)}};
    if (truth.all_memory().allocations != 0) {
        CHECK(page.has("gpusnoop_cuda_memory_outstanding_bytes", of));
    }
    check_outstanding(page, account_of_all(truth), of);
    for (std::size_t device = 0; device < gpus.size(); device++) {
        INFO("device " << device << ", gpu " << gpus[device]);
        check_outstanding(page, account_of(truth, device), with(of, "gpu", gpus[device]));
    }
}

// A call whose thread's end was left out seems to be in flight for ever.
double left_out_programs(const Page &page) {
    return page.sum("gpusnoop_probe_events_lost_total", {{"reason", "skipped"}});
}

void check_nothing_lost(const Page &page) {
    CHECK(page.sum("gpusnoop_probe_events_lost_total") == left_out_programs(page));
    if (!may_skip_tracepoint_programs()) {
        CHECK(left_out_programs(page) == 0);
    }
}

void check_account_at_rest(const Exporter &exporter) {
    // Other programs of the machine may make calls now and then.
    eventually("no call to be in flight, and the account to balance", [&] {
        const Page page = exporter.scrape();
        const double in_flight = page.sum("gpusnoop_probe_in_flight_calls");
        return in_flight <= left_out_programs(page) &&
               page.sum("gpusnoop_probe_entries_total") ==
                   page.sum("gpusnoop_probe_events_total") +
                       page.sum("gpusnoop_probe_stale_calls_total") + in_flight;
    });
    check_nothing_lost(exporter.scrape());
}

}  // namespace harness
