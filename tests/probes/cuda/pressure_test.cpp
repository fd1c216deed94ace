// More events than the exporter may or can take: what is left out is counted, and never an
// allocation.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;

namespace {

// Calls of the ring of calls: copies and launches, failed ones too.
double ring_calls(const truth::TruthSnapshot &truth) {
    std::uint64_t calls = 0;
    for (const char *function : {"cudaMemcpy", "cudaMemcpyAsync", "cudaLaunchKernel"}) {
        calls += truth.calls(function);
    }
    return static_cast<double>(calls);
}

// Of these, and of others that share the ring and are not counted here: calls that wait for the
// GPU, and failures to choose one.
bool is_every_call(double shown_or_lost, const std::vector<truth::TruthSnapshot> &truths) {
    double calls = 0;
    double waits = 0;
    for (const auto &truth : truths) {
        calls += ring_calls(truth);
        waits += static_cast<double>(truth.waits() + truth.calls("cudaSetDevice") -
                                     truth.result("cudaSetDevice", 0));
    }
    UNSCOPED_INFO(shown_or_lost << " of " << calls << " and " << waits);
    return shown_or_lost >= calls && shown_or_lost <= calls + waits;
}

double shown_ring_calls(const Page &page, const std::string &comm) {
    double sum = page.sum("gpusnoop_cuda_memcpy_total", {{"comm", comm}}) +
                 page.sum("gpusnoop_cuda_kernel_launches_total", {{"comm", comm}});
    for (const char *function : {"cudaMemcpy", "cudaMemcpyAsync", "cudaLaunchKernel"}) {
        sum += page.sum("gpusnoop_cuda_api_errors_total", {{"comm", comm}, {"function", function}});
    }
    return sum;
}

double cuda_pressure_lost(const Page &page, const std::string &reason) {
    return page.sum("gpusnoop_probe_events_lost_total", {{"reason", reason}});
}

void check_allocations(const Page &page, const truth::TruthSnapshot &truth) {
    const truth::Memory &memory = truth.of(truth::MemoryKind::device);
    const Labels of = {{"comm", truth.comm}};
    CHECK(page.sum("gpusnoop_cuda_memory_allocated_bytes_total", of) ==
          static_cast<double>(memory.allocated_bytes));
    CHECK(page.sum("gpusnoop_cuda_memory_freed_bytes_total", of) ==
          static_cast<double>(memory.freed_bytes));
    check_outstanding(page, truth);
}

// Two processes at once: one calls as fast as it can, the other now and then. They make no call
// before begin().
struct Pair {
    TemporaryDirectory directory;
    TemporaryDirectory begins;
    std::vector<Process> processes;

    explicit Pair(const Exporter &exporter, const std::string &iterations = "1000") {
        const Process holder(
            {standin("workload"), "--iterations", "0", "--hold", "--name", "holder"});
        exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
        exporter.wait_until_attached_to(standin("driver/libcuda.so.1"));
        const Process::Environment truth_in = {{"STANDIN_TRUTH_DIR", directory.path().string()}};
        processes.emplace_back(
            std::vector<std::string>{standin("workload"), "--threads", "4", "--iterations",
                                     iterations, "--failures", "--name", "loud", "--hold",
                                     "--wait-for-file", go()},
            truth_in);
        processes.emplace_back(
            std::vector<std::string>{standin("workload"), "--iterations", "20", "--rate", "200",
                                     "--name", "quiet", "--hold", "--wait-for-file", go()},
            truth_in);
        for (const Process &process : processes) {
            process.wait_for_output("ready");
        }
    }

    [[nodiscard]] std::string go() const { return (begins.path() / "go").string(); }
    void begin() const { write_file(go(), ""); }
    void wait() const {
        for (const Process &process : processes) {
            process.wait_for_output("holding");
        }
    }

    [[nodiscard]] truth::TruthSnapshot truth_of(const std::string &comm) const {
        for (const auto &truth : truth::read_truth(directory.path())) {
            if (truth.comm == comm) {
                return truth;
            }
        }
        FAIL("no truth of " << comm);
        return {};
    }
};

// Other programs of the machine may make calls now and then.
void check_balance(const Exporter &exporter) {
    eventually("the account to balance", [&] {
        const Page page = exporter.scrape();
        return page.sum("gpusnoop_probe_entries_total") ==
               page.sum("gpusnoop_probe_events_total") +
                   page.sum("gpusnoop_probe_events_lost_total");
    });
}

}  // namespace

TEST_CASE("a flood by one process is that process's loss", "[kernel]") {
    require_bpf();
    const Exporter exporter(without_company("cuda:\n  max_calls_per_second: 1000\n"));
    const Pair pair(exporter);
    pair.begin();
    pair.wait();
    const auto loud = pair.truth_of("loud");
    const auto quiet = pair.truth_of("quiet");
    Page page = exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", "quiet"}},
                                  static_cast<double>(quiet.launches));
    eventually("the names of the kernels", [&] {
        page = exporter.scrape();
        return !page.has("gpusnoop_cuda_kernel_launches_total",
                         {{"comm", "quiet"}, {"kernel", "unknown"}});
    });
    CHECK(cuda_pressure_lost(page, "throttled") > 0);
    CHECK(is_every_call(shown_ring_calls(page, "loud") + cuda_pressure_lost(page, "throttled"),
                        {loud}));
    check_allocations(page, loud);
    check_counters(page, quiet, "quiet");
    check_outstanding(page, quiet);
    CHECK(cuda_pressure_lost(page, "ring_full") == 0);
    check_balance(exporter);
}

TEST_CASE("a ring that is too small loses calls, counted, and no allocation", "[kernel]") {
    require_bpf();
    const Exporter exporter(
        without_company("cuda:\n  call_ring_bytes: 4KiB\n  drain_interval: 100ms\n"));
    const Pair pair(exporter, "4000");
    pair.begin();
    pair.wait();
    const auto loud = pair.truth_of("loud");
    const auto quiet = pair.truth_of("quiet");
    eventually("the names of the kernels", [&] {
        const Page now = exporter.scrape();
        return is_every_call(shown_ring_calls(now, "loud") + shown_ring_calls(now, "quiet") +
                                 cuda_pressure_lost(now, "ring_full"),
                             {loud, quiet});
    });
    const Page page = exporter.scrape();
    CHECK(cuda_pressure_lost(page, "ring_full") > 0);
    check_allocations(page, loud);
    check_allocations(page, quiet);
}

TEST_CASE("an exporter that was stopped for a while catches up", "[kernel]") {
    require_bpf();
    Exporter exporter;
    const Pair pair(exporter);
    exporter.process().signal(SIGSTOP);
    pair.begin();
    pair.wait();  // all calls are made by then
    exporter.process().signal(SIGCONT);
    const auto loud = pair.truth_of("loud");
    eventually("the names of the kernels", [&] {
        const Page now = exporter.scrape();
        return shown_ring_calls(now, "loud") + cuda_pressure_lost(now, "ring_full") >=
               ring_calls(loud);
    });
    const Page page = exporter.scrape();
    check_allocations(page, loud);
    check_balance(exporter);
}
