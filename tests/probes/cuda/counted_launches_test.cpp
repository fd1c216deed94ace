// Launches that are counted where they enter the driver, against what the libraries counted.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <csignal>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bpf/cuda/tables.h"
#include "tests/harness/counting.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/cuda_workload.h"
#include "tests/harness/exporter.h"
#include "tests/harness/gpu_node.h"
#include "tests/harness/pin_directory.h"
#include "tests/probes/cuda/levels.h"

using namespace harness;

namespace {

// No process pauses at that limit.
std::string counted_config(const std::string &mode, const std::string &endings = "auto") {
    return "series: {budget: 100000}\n" + levels_config(mode, "50%", endings);
}

// Both programs launch the same kernel.
std::string fast_kernel(const Exporter &exporter) {
    for (const Sample &sample :
         exporter.scrape().samples(counted_launches_family, {{"comm", "fast"}})) {
        if (sample.labels.at("kernel") != "unknown") {
            return sample.labels.at("kernel");
        }
    }
    FAIL("no kernel has a name");
    return {};
}

}  // namespace

TEST_CASE("launches that are counted in the driver are exact by kernel, shape and GPU",
          "[kernel][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    // With calls inside calls, as the real runtime has them, or without.
    const std::string nests = GENERATE("0", "1");
    CAPTURE(mode, nests);
    const Exporter exporter(counted_config(mode));
    const Process holder = ready_for_launches(exporter, mode);
    const Fast fast;
    fast.wait_until_counted(exporter);
    const std::vector<std::string> apis =
        nests == "0" ? std::vector<std::string>{"both"}
                     : std::vector<std::string>{"runtime", "driver", "both"};
    for (const std::string &api : apis) {
        for (const bool captures : {false, true}) {
            CAPTURE(api, captures);
            std::vector<std::string> command = {"workload", "--hold",       "--threads",
                                                "3",        "--everything", "--api",
                                                api,        "--iterations", "40"};
            if (captures) {
                command.emplace_back("--graphs");
            }
            const CountedRun run("of_" + api + (captures ? "_g" : ""), command,
                                 {{"STANDIN_NEST", nests}});
            run.process.wait_for_output("holding");
            const auto truth = run.truth();
            const Page page =
                exporter.wait_for(counted_launches_family, {{"comm", run.comm}, {"via", "stream"}},
                                  number(truth.launches));
            // What random graphs hold is not all known.
            if (!captures) {
                check_counters(page, truth, run.comm, {}, Launches::counted);
                check_outstanding(page, truth);
            }
            CHECK(page.sum(counted_durations_family, run.of()) == 0);
        }
    }
    CHECK(exporter.scrape().sum("gpusnoop_probe_stale_calls_total", {{"probe", "cuda"}}) == 0);
}

TEST_CASE("launches that are counted in the driver are those of the GPU that the program meant",
          "[kernel]") {
    require_bpf();
    const std::string mode = attach_modes().front();
    const GpuNode node(3);
    const Exporter exporter(counted_config(mode) + node.config());
    const Process holder = ready_for_launches(exporter, mode);
    const Fast fast;
    fast.wait_until_counted(exporter);
    const CountedRun run("gpus",
                         {"workload", "--hold", "--everything", "--api", "both", "--threads", "2",
                          "--iterations", "60"},
                         {{"STANDIN_DEVICES", "2"}, {"CUDA_VISIBLE_DEVICES", "2,0"}});
    run.process.wait_for_output("holding");
    const auto truth = run.truth();
    const Page page = exporter.wait_for(
        counted_launches_family, {{"comm", run.comm}, {"via", "stream"}}, number(truth.launches));
    check_counters(page, truth, run.comm, {"2", "0"}, Launches::counted);
    CHECK(run.timed_on(page) == 0);
}

TEST_CASE("past the shapes of a process that the kernel counts, totals are exact", "[kernel]") {
    require_bpf();
    const std::string mode = attach_modes().front();
    const Exporter exporter(counted_config(mode));
    const Process holder = ready_for_launches(exporter, mode);
    const Fast fast;
    fast.wait_until_counted(exporter);
    const CountedRun run("shapes", {"launcher", "shapes", "3000", "--rate", "1"});
    run.process.wait_for_output("slow");
    run.be("idle", SIGUSR1);
    const double launches = number(run.truth().launches);
    REQUIRE(launches >= 6000);
    const Page page = exporter.wait_for(counted_launches_family, run.of(), launches);
    CHECK(run.timed_on(page) == 0);
    const Labels rest = {{"comm", run.comm}, {"kernel", "other"}};
    CHECK(page.sum(counted_launches_family, rest) > 0);
    const std::size_t series = page.samples(counted_launches_family, run.of()).size();
    CHECK(series ==
          CUDA_MAX_COUNTED_OF_PROCESS + page.samples(counted_launches_family, rest).size());
}

TEST_CASE("launches of forked children and before and after an exec are counted in the driver",
          "[kernel][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    const std::string way = GENERATE("forks", "execs");
    CAPTURE(mode, way);
    const Exporter exporter(counted_config(mode));
    const Process holder = ready_for_launches(exporter, mode);
    const Fast fast;
    fast.wait_until_counted(exporter);
    const CountedRun run(way, {"launcher", way, "5", "--rate", "1"});
    run.process.wait_for_output("slow");
    run.be("idle", SIGUSR1);
    const auto truths = truth::read_truth(run.truths.path());
    REQUIRE(truths.size() == 6);
    const Page page =
        exporter.wait_for(counted_launches_family, run.of(), number(truth::sum(truths).launches));
    CHECK(run.timed_on(page) == 0);
}

TEST_CASE("no launch is lost or counted twice when links are exchanged",
          "[kernel][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    const std::string endings = GENERATE_COPY(from_range(endings_by(mode)));
    CAPTURE(mode, endings);
    const Exporter exporter(counted_config(mode, endings));
    const Process holder = ready_for_launches(exporter, mode);
    const Fast fast;
    const CountedRun slow("slow", {"launcher", "--rate", "1"});
    constexpr int exchanges = 3;
    for (int i = 0; i < exchanges; i++) {
        fast.wait_until_counted(exporter);
        fast.be("slow", SIGUSR1);
        fast.wait_until_seen(exporter);
        fast.be("fast", SIGUSR2);
    }
    fast.be("slow", SIGUSR1);
    fast.be("idle", SIGUSR1);
    slow.be("idle", SIGUSR1);
    for (const CountedRun *run : {static_cast<const CountedRun *>(&fast), &slow}) {
        CAPTURE(run->comm);
        const auto truth = run->truth();
        const Page page =
            exporter.wait_for(counted_launches_family, run->of(), number(truth.launches));
        check_counters(page, truth, run->comm, {}, Launches::counted);
        CHECK(page.sum(counted_durations_family, run->of()) > 0);
    }
    check_account_at_rest(exporter);
}

TEST_CASE("launches that are counted count once if longjmp or an exception leaves them",
          "[kernel][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const Exporter exporter(counted_config(mode));
    const Process holder = ready_for_launches(exporter, mode);
    const Fast fast;
    fast.wait_until_counted(exporter);
    constexpr double launches_of_each = 300;  // of which 100 are left
    double launches = 0;
    for (const std::string scenario :
         {"longjmp_out_of_driver_launches", "exception_out_of_driver_launches"}) {
        CAPTURE(scenario);
        const Finished ran = run({standin("faults"), scenario});
        CHECK(ran.code == 0);
        CHECK(ran.output == scenario + " ok\n");
        launches += launches_of_each;
        const Page page =
            exporter.wait_for(counted_launches_family, {{"comm", "faults"}}, launches);
        CHECK(page.sum(counted_durations_family, {{"comm", "faults"}}) == 0);
    }
    fast.be("slow", SIGUSR1);
    fast.be("idle", SIGUSR1);
    check_account_at_rest(exporter);
    const Page page = exporter.scrape();
    CHECK(page.sum("gpusnoop_probe_stale_calls_total", {{"probe", "cuda"}}) == 0);
    CHECK(page.sum(counted_launches_family, {{"comm", "faults"}}) == launches);
}

TEST_CASE("the launches counted for a process stay on the page after its end", "[kernel]") {
    require_bpf();
    const std::string mode = attach_modes().front();
    const Exporter exporter(counted_config(mode));
    const Process holder = ready_for_launches(exporter, mode);
    std::uint64_t launches = 0;
    std::uint64_t allocations = 0;
    {
        const Fast fast;
        fast.wait_until_counted(exporter);
        fast.process.signal(SIGTERM);
        CHECK(const_cast<Process &>(fast.process).wait() == 0);
        launches = fast.truth().launches;
        allocations = fast.truth().calls("cudaMalloc");
    }
    (void)exporter.wait_for(counted_launches_family, {{"comm", "fast"}}, number(launches));
    (void)exporter.wait_for("gpusnoop_cuda_memory_allocations_total", {{"comm", "fast"}},
                            number(allocations));
    // Another process of that name adds to them.
    const Fast next;
    next.wait_until_counted(exporter);
    next.be("slow", SIGUSR1);
    next.be("idle", SIGUSR1);
    (void)exporter.wait_for(counted_launches_family, {{"comm", "fast"}},
                            number(launches + next.truth().launches));
    check_account_at_rest(exporter);
}

TEST_CASE("a launch that hangs is shown while another program's launches are counted",
          "[kernel][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const TemporaryDirectory directory;
    std::filesystem::copy_file(standin("12/libcudart.so.12"), directory / "libcudart.so.12");
    const Exporter exporter("in_flight: {min_age: 1ms}\n" + counted_config(mode));
    const Process holder = ready_for_launches(exporter, mode);
    const Process stuck({standin("lives"), "name", "stuck", "allocate", "16", "wait", "hang",
                         "cudaLaunchKernel", "wait"},
                        {{"LD_LIBRARY_PATH", directory.path().string()}});
    exporter.wait_until_attached_to((directory / "libcudart.so.12").string());
    stuck.wait_for_output("waiting 1");
    stuck.signal(SIGUSR1);
    const auto hangs = [&] {
        const HttpAnswer answer = http(exporter.port(), "/api/v1/in_flight");
        REQUIRE(answer.status == 200);
        UNSCOPED_INFO(answer.body << '\n' << stuck.output() << exporter.log());
        const auto calls = nlohmann::json::parse(answer.body)["in_flight"];
        const auto is_of_stuck = [](const nlohmann::json &call) { return call["comm"] == "stuck"; };
        return std::ranges::count_if(calls, is_of_stuck) == 1 &&
               (*std::ranges::find_if(calls, is_of_stuck))["function"] == "cudaLaunchKernel";
    };
    eventually("the launch to be shown", hangs);
    const Fast fast;
    for (int i = 0; i < 2; i++) {
        fast.wait_until_counted(exporter);
        CHECK(hangs());
        fast.be("slow", SIGUSR1);
        fast.wait_until_seen(exporter);
        CHECK(hangs());
        fast.be("fast", SIGUSR2);
    }
}

TEST_CASE("with pins, launches that are counted after a restart have the names of their kernels",
          "[kernel]") {
    require_bpf();
    const PinDirectory pins;
    const std::string config =
        "log: {level: debug}\n" + pins.config(attach_modes().front()) + "  max_overhead: 50%\n";
    auto first = std::make_unique<Exporter>(config);
    const Process holder = ready_for_launches(*first, attach_modes().front());
    const Fast fast;
    fast.wait_until_counted(*first);
    first.reset();
    const Exporter second(config);
    fast.wait_until_counted(second);
    const Page page = second.scrape();
    CHECK(page.sum(counted_launches_family, fast.of()) > 500);
    CHECK(page.sum(counted_launches_family, {{"comm", "fast"}, {"kernel", "unknown"}}) == 0);
}

TEST_CASE(
    "kernels that a process looked up before it was traced are named beside one that is counted",
    "[kernel][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const CountedRun early("early", {"launcher"});
    early.process.wait_for_output("ready");
    early.be("slow", SIGUSR1);
    early.be("idle", SIGUSR1);
    const Exporter exporter(counted_config(mode));
    const Process holder = ready_for_launches(exporter, mode);
    const Fast fast;
    fast.wait_until_counted(exporter);
    early.be("slow", SIGUSR1);
    const auto launches = [&](const std::string &kernel) {
        return exporter.scrape().sum(counted_launches_family,
                                     {{"comm", "early"}, {"kernel", kernel}});
    };
    const std::string name = fast_kernel(exporter);
    eventually("its kernel to have a name", [&] { return launches(name) > 0; });
    const double unknown = launches("unknown");
    fast.wait_until_counted(exporter);
    const double named = launches(name);
    eventually("more launches", [&] { return launches(name) > named + 100; });
    CHECK(launches("unknown") == unknown);
}
