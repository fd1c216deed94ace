// The end of processes in the middle of their work: of the traced ones, and of the exporter.
#include <bpf/bpf.h>
#include <signal.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <chrono>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>

#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;

namespace {

const std::string killed_library = standin("12/libcudart.so.12");

// Programs and links of BPF, by their ids.
struct BpfObjects {
    std::set<std::uint32_t> programs;
    std::set<std::uint32_t> links;

    // Those that a process has open. Other programs of the machine have some of their own.
    static BpfObjects of(pid_t pid) {
        BpfObjects objects;
        const std::string directory = "/proc/" + std::to_string(pid) + "/fdinfo";
        for (const auto &file : std::filesystem::directory_iterator(directory)) {
            std::istringstream lines(read_file(file.path()));
            std::string key;
            std::uint32_t id = 0;
            for (std::string line; std::getline(lines, line);) {
                std::istringstream words(line);
                if (!(words >> key >> id)) {
                    continue;
                }
                if (key == "prog_id:") {
                    objects.programs.insert(id);
                } else if (key == "link_id:") {
                    objects.links.insert(id);
                }
            }
        }
        return objects;
    }

    // Does the kernel have one of them yet?
    [[nodiscard]] bool is_left() const {
        std::uint32_t id = 0;
        while (::bpf_prog_get_next_id(id, &id) == 0) {
            if (programs.contains(id)) {
                return true;
            }
        }
        id = 0;
        while (::bpf_link_get_next_id(id, &id) == 0) {
            if (links.contains(id)) {
                return true;
            }
        }
        return false;
    }
};

}  // namespace

TEST_CASE("a killed exporter leaves programs running and nothing attached",
          "[e2e][core][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const TemporaryDirectory directory;
    // As many as cores would be enough; more are interrupted in more places.
    std::vector<Process> workloads;
    for (int i = 0; i < 4; i++) {
        workloads.emplace_back(
            std::vector<std::string>{standin("workload"), "--seconds", "1000", "--name",
                                     "survivor"},
            Process::Environment{{"STANDIN_TRUTH_DIR", directory.path().string()}});
    }
    const int rounds = mode == "perf" ? 1 : 3;  // each takes the kernel long to detach
    for (int round = 0; round < rounds; round++) {
        Exporter exporter(attached_by(mode));
        exporter.wait_until_attached_to(killed_library);
        eventually("launches", [&] {
            return exporter.scrape().sum("gpusnoop_cuda_kernel_launches_total",
                                         {{"comm", "survivor"}}) > 100;
        });
        const BpfObjects attached = BpfObjects::of(exporter.process().pid());
        REQUIRE(attached.programs.size() > 1);
        REQUIRE(attached.links.size() > 1);
        REQUIRE(attached.is_left());
        exporter.process().signal(SIGKILL);
        CHECK(exporter.process().wait() == 128 + SIGKILL);
        eventually("nothing to be attached", [&] { return !attached.is_left(); });
    }
    // They still work, and end as they would have.
    const auto launches = [&] { return truth::sum(truth::read_truth(directory.path())).launches; };
    const std::uint64_t so_far = launches();
    eventually("more launches", [&] { return launches() > so_far; });
    for (Process &workload : workloads) {
        workload.signal(SIGTERM);
        CHECK(workload.wait() == 0);
        CHECK(workload.output().ends_with("done\n"));
    }
}

TEST_CASE("an exporter that is told to stop does so under load, and detaches",
          "[e2e][core][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    const int signal = GENERATE(SIGTERM, SIGINT);
    CAPTURE(mode, signal);
    Process workload(
        {standin("workload"), "--threads", "4", "--seconds", "1000", "--name", "load"});
    Exporter exporter(attached_by(mode));
    exporter.wait_until_attached_to(killed_library);
    eventually("launches", [&] {
        return exporter.scrape().sum("gpusnoop_cuda_kernel_launches_total", {{"comm", "load"}}) >
               100;
    });
    const BpfObjects attached = BpfObjects::of(exporter.process().pid());
    REQUIRE(attached.links.size() > 1);
    const auto told = std::chrono::steady_clock::now();
    exporter.process().signal(signal);
    CHECK(exporter.process().wait() == 0);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - told;
    WARN(mode << ": stopped after " << took.count() << " s");
    CHECK(exporter.log().find("msg=\"stopping\"") != std::string::npos);
    eventually("nothing to be attached", [&] { return !attached.is_left(); });
    workload.signal(SIGTERM);
    CHECK(workload.wait() == 0);
}

TEST_CASE("a program that dies in the middle of a call is accounted for", "[e2e]") {
    require_bpf();
    const std::string scenario = GENERATE("sigkill", "sigkill_threads", "abort_in_call");
    CAPTURE(scenario);
    const Exporter exporter;
    const Process holder({standin("workload"), "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(killed_library);
    const double stale = exporter.scrape().sum("gpusnoop_probe_stale_calls_total");
    const TemporaryDirectory directory;
    const Finished finished =
        run({standin("faults"), scenario}, {{"STANDIN_TRUTH_DIR", directory.path().string()}});
    CHECK(finished.code > 128);
    const auto truth = truth::sum(truth::read_truth(directory.path()));
    std::uint64_t never_returned = 0;
    for (const auto *function : {"cudaMalloc", "cudaFree", "cudaMemcpy", "cudaMemcpyAsync",
                                 "cudaLaunchKernel", "__cudaLaunchKernel", "__cudaGetKernel"}) {
        never_returned += truth.never_returned(function);
    }
    REQUIRE(never_returned > 0);
    const Page page = exporter.wait_for("gpusnoop_probe_stale_calls_total", {},
                                        stale + static_cast<double>(never_returned));
    const Labels of = {{"comm", "faults"}};
    const truth::Memory &memory = truth.of(truth::MemoryKind::device);
    CHECK(page.sum("gpusnoop_cuda_memory_allocated_bytes_total", of) ==
          static_cast<double>(memory.allocated_bytes));
    eventually("the process's gauges to go", [&] {
        return !exporter.scrape().has("gpusnoop_cuda_memory_outstanding_bytes", of);
    });
    CHECK(exporter.scrape().sum("gpusnoop_cuda_memory_unfreed_at_exit_bytes_total", of) ==
          static_cast<double>(memory.outstanding_bytes));
    CHECK(http(exporter.port(), "/-/healthy").status == 200);
}

TEST_CASE("two exporters at the same time both count everything", "[e2e][long]") {
    require_bpf();
    const std::string modes = GENERATE("session session", "session perf", "multi multi");
    CAPTURE(modes);
    const std::size_t space = modes.find(' ');
    const Exporter one(attached_by(modes.substr(0, space)));
    Exporter other(attached_by(modes.substr(space + 1)));
    const Process holder({standin("workload"), "--hold", "--name", "holder"});
    one.wait_until_attached_to(killed_library);
    other.wait_until_attached_to(killed_library);
    const TemporaryDirectory directory;
    const Process workload({standin("workload"), "--threads", "2", "--iterations", "1000",
                            "--failures", "--leak", "100", "--name", "seen_twice", "--hold"},
                           {{"STANDIN_TRUTH_DIR", directory.path().string()}});
    workload.wait_for_output("holding");
    const auto truth = truth::sum(truth::read_truth(directory.path()));
    for (const Exporter *exporter : {&one, static_cast<const Exporter *>(&other)}) {
        const Page page =
            exporter->wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", "seen_twice"}},
                               static_cast<double>(truth.launches));
        check_counters(page, truth, "seen_twice");
        check_outstanding(page, truth);
    }
    if (modes.ends_with("perf")) {
        other.end_by_perf();
    }
}
