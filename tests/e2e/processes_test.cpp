// Who made the calls: processes with odd names, and that become others.
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <filesystem>

#include "tests/e2e/child.h"
#include "tests/e2e/prometheus.h"
#include "tests/harness/counting.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;
namespace fs = std::filesystem;

namespace {

const std::string processes_library = standin("12/libcudart.so.12");

// Keeps the library in use. Its calls, all of them counted, make the program's kernels known, so
// that even those of a process that is gone in a moment have names.
Process processes_hold_library(const Exporter &exporter, const fs::path &truth_directory) {
    const TemporaryDirectory directory;
    Process holder({standin("workload"), "--iterations", "50", "--hold", "--name", "holder",
                    "--wait-for-file", directory / "go"},
                   {{"STANDIN_TRUTH_DIR", truth_directory.string()}});
    exporter.wait_until_attached_to(processes_library);
    write_file(directory / "go", "");
    holder.wait_for_output("holding");
    const auto truth = truth::sum(truth::read_truth(truth_directory));
    const Page page = exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", "holder"}},
                                        number(truth.all_launches()));
    CHECK_FALSE(page.has("gpusnoop_cuda_kernel_launches_total",
                         {{"comm", "holder"}, {"kernel", "unknown"}}));
    return holder;
}

// Allocates so many times, each time more, and frees every second one.
void allocate(int times) {
    void *opened = ::dlopen(processes_library.c_str(), RTLD_NOW);
    const auto allocate = e2e::function_of<int(void **, std::size_t)>(opened, "cudaMalloc");
    const auto free = e2e::function_of<int(void *)>(opened, "cudaFree");
    for (int i = 1; i <= times; i++) {
        void *memory = nullptr;
        if (allocate(&memory, static_cast<std::size_t>(i)) != 0 ||
            (i % 2 == 0 && free(memory) != 0)) {
            ::_exit(1);
        }
    }
}

truth::TruthSnapshot truth_of(const fs::path &directory, const std::string &comm) {
    std::vector<truth::TruthSnapshot> found;
    for (const auto &truth : truth::read_truth(directory)) {
        if (truth.comm == comm) {
            found.push_back(truth);
        }
    }
    INFO(comm);
    REQUIRE(found.size() == 1);
    return found.front();
}

}  // namespace

TEST_CASE("a name that is not UTF-8 keeps the page valid", "[e2e]") {
    require_bpf();
    const Exporter exporter;
    const TemporaryDirectory directory;
    const Process holder = processes_hold_library(exporter, directory.path());
    const std::string comm = GENERATE(
        "\xff\xfe"
        "bytes",
        "quote\"back\\slash", "new\nline", "tab\t\x01\x7f", "\xe2\x82");
    CAPTURE(comm);
    const Process workload({standin("workload"), "--iterations", "50", "--hold", "--name", comm},
                           {{"STANDIN_TRUTH_DIR", directory.path().string()}});
    workload.wait_for_output("holding");
    const auto truth = truth::sum(truth::read_truth(directory.path()));
    // The name on the page is another one, but nothing is lost.
    const Labels workloads = {{"exe", standin("workload")}};
    const auto launches = [&](const Page &page) {
        double sum = 0;
        for (const Sample &process : page.samples("gpusnoop_process_info", workloads)) {
            sum += page.sum("gpusnoop_cuda_kernel_launches_total",
                            {{"comm", process.labels.at("comm")}});
        }
        return sum;
    };
    eventually("the launches of both",
               [&] { return launches(exporter.scrape()) == number(truth.all_launches()); });
    const std::string page = http(exporter.port(), "/metrics").body;
    CHECK(page.find('\xff') == std::string::npos);
    CHECK(Page(page).samples("gpusnoop_process_info", workloads).size() == 2);
    e2e::require_prometheus();
    const Finished verdict = e2e::promtool(page);
    CHECK(verdict.output.empty());
    CHECK(verdict.code == 0);
}

TEST_CASE("a process that becomes another program by exec is two processes", "[e2e]") {
    require_bpf();
    const Exporter exporter;
    const TemporaryDirectory directory;
    const Process holder = processes_hold_library(exporter, directory.path());
    const e2e::Child child([&] {
        ::setenv("STANDIN_TRUTH_DIR", directory.path().c_str(), 1);
        ::prctl(PR_SET_NAME, "before_exec");
        allocate(11);
        ::execl(standin("workload").c_str(), "workload", "--everything", "--api", "both",
                "--iterations", "20", "--hold", "--leak", "7", "--name", "after_exec", nullptr);
        return 1;
    });
    eventually("the second program's calls", [&] {
        const auto truths = truth::read_truth(directory.path());
        return truths.size() == 3 && truth::sum(truths).launches >= 20 + 40;
    });
    const auto before = truth_of(directory.path(), "before_exec");
    CHECK(before.pid == child.pid());
    // It holds now: its truth stands still.
    truth::TruthSnapshot after = truth_of(directory.path(), "after_exec");
    eventually("the second program to have made its calls", [&] {
        ::usleep(100'000);
        const auto last = std::exchange(after, truth_of(directory.path(), "after_exec"));
        return after.entered == last.entered;
    });
    Page page = exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", "after_exec"}},
                                  number(after.all_launches()));
    const auto calls = [&] {
        double sum = 0;
        for (const std::string family : {"memory_allocations_total", "memory_frees_total",
                                         "memcpy_total", "api_errors_total"}) {
            sum += page.sum("gpusnoop_cuda_" + family, {{"comm", "after_exec"}});
        }
        return sum;
    };
    eventually("what came behind the last launch", [&] {
        const double seen = calls();
        ::usleep(100'000);
        page = exporter.scrape();
        return calls() == seen;
    });
    check_counters(page, before, "before_exec");
    check_counters(page, after, "after_exec");
    check_outstanding(page, after);
    CHECK_FALSE(page.has("gpusnoop_cuda_memory_outstanding_bytes", {{"comm", "before_exec"}}));
    CHECK(page.sum("gpusnoop_cuda_memory_unfreed_at_exit_bytes_total", {{"comm", "before_exec"}}) ==
          number(before.of(truth::MemoryKind::device).outstanding_bytes));
}

TEST_CASE("a forked child is a process of its own", "[e2e]") {
    require_bpf();
    const Exporter exporter;
    const TemporaryDirectory directory;
    const Process holder = processes_hold_library(exporter, directory.path());
    const e2e::Child parent([&] {
        ::setenv("STANDIN_TRUTH_DIR", directory.path().c_str(), 1);
        ::prctl(PR_SET_NAME, "parent");
        allocate(20);
        if (::fork() == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            ::prctl(PR_SET_NAME, "forked_child");
            allocate(7);
            write_file(directory / "child_done", "");
            e2e::pause_for_ever();
        }
        e2e::wait_for_file(directory / "child_done");
        allocate(5);
        write_file(directory / "parent_done", "");
        e2e::pause_for_ever();
        return 0;
    });
    eventually("their calls", [&] { return fs::exists(directory / "parent_done"); });
    for (const auto *comm : {"parent", "forked_child"}) {
        const auto truth = truth_of(directory.path(), comm);
        const Page page =
            exporter.wait_for("gpusnoop_cuda_memory_allocations_total", {{"comm", comm}},
                              number(truth.of(truth::MemoryKind::device).allocations));
        check_counters(page, truth, comm);
        check_outstanding(page, truth);
    }
}

TEST_CASE("past the series budget, launches are counted as other and none is lost", "[e2e]") {
    require_bpf();
    const std::string family = "gpusnoop_cuda_kernel_launches_total";
    const Exporter exporter("series:\n  budgets: {" + family + ": 10}\n");
    const TemporaryDirectory directory;
    const Process holder = processes_hold_library(exporter, directory.path());
    const Process workload(
        {standin("workload"), "--iterations", "500", "--hold", "--name", "shapes"},
        {{"STANDIN_TRUTH_DIR", directory.path().string()}});
    workload.wait_for_output("holding");
    const auto truth = truth::sum(truth::read_truth(directory.path()));
    REQUIRE(truth.launch_table.size() > 10);
    // Of all processes of the machine, whatever their label sets have become.
    const std::string durations = "gpusnoop_cuda_kernel_launch_duration_seconds_count";
    eventually("the launches", [&] {
        const Page now = exporter.scrape();
        return now.sum(durations, {{"comm", "shapes"}}) ==
                   number(truth_of(directory.path(), "shapes").launches) &&
               now.sum(family) == now.sum(durations);
    });
    const Page page = exporter.scrape();
    CHECK(page.sum(family) >= number(truth.all_launches()));
    CHECK(page.samples(family).size() == 11);
    const Labels other = {
        {"comm", "other"}, {"kernel", "other"}, {"grid", "other"}, {"block", "other"}};
    CHECK(page.sum(family, other) > 0);
    CHECK(page.sum("gpusnoop_series", {{"metric", family}}) == 11);
    CHECK(page.sum("gpusnoop_series_folded_total", {{"metric", family}}) > 0);
    // Each set of a process is folded once, however often it is launched.
    CHECK(page.sum("gpusnoop_series_folded_total", {{"metric", family}}) <
          number(truth.all_launches()) / 4);
    // The other families have budgets of their own.
    CHECK(page.sum("gpusnoop_series_folded_total") ==
          page.sum("gpusnoop_series_folded_total", {{"metric", family}}));
}
