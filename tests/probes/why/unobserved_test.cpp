// What `why` says of programs whose launches are only counted, or are observed part of the time.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/harness/exporter.h"
#include "tests/harness/machine/directory.h"
#include "tests/harness/page.h"
#include "tests/harness/process.h"
#include "tests/probes/why/situations.h"

using namespace harness;
using namespace harness::whys;

namespace {

// A little of the overhead budget is left for a program with so many launches.
const std::string seldom = std::string(whys::enabled) + "cuda: {max_overhead: 1%}\n";
const Observed with_pauses{.launch = {"launches", "3000"}, .is_seldom = true};

void wait_for_cost(const Exporter &exporter) {
    eventually("the cost of a probe to be measured",
               [&] { return exporter.scrape().has("gpusnoop_probe_cost_seconds"); });
}

// A program with so many launches that those of all programs with its runtime are only counted.
class ManyLaunches {
public:
    explicit ManyLaunches(const Exporter &exporter)
        : process_({standin("launcher"), "paced", "20", "--name", "many_launches"}) {
        process_.wait_for_output("ready");
        eventually("launches without a duration, and none with one", [&] {
            const Page before = exporter.scrape();
            Page after = before;
            eventually("more launches", [&] {
                after = exporter.scrape();
                return all(after) > all(before) + 500;
            });
            return timed(after) == timed(before);
        });
    }

private:
    static double all(const Page &page) {
        return page.sum("gpusnoop_cuda_kernel_launches_total", {{"comm", "many_launches"}});
    }
    static double timed(const Page &page) {
        return page.sum("gpusnoop_cuda_kernel_launch_duration_seconds_count",
                        {{"comm", "many_launches"}});
    }

    Process process_;
};

}  // namespace

TEST_CASE("why says the same where launches are only counted", "[kernel]") {
    require_bpf();
    const Exporter exporter(std::string(whys::enabled) + "cuda: {max_overhead: 50%}\n");
    const ManyLaunches neighbour(exporter);
    // One between calls and one inside of them: other states are no different.
    check_what_the_gpu_waits_for(exporter, {}, {"data", "memory_calls"});
    check_what_limits(exporter, gpu_does_not_wait());
}

TEST_CASE("why says the same where launches are observed intermittently", "[kernel]") {
    require_bpf();
    const Exporter exporter(seldom);
    wait_for_cost(exporter);
    // One between calls and one inside of them.
    check_what_the_gpu_waits_for(exporter, with_pauses, {"data", "memory_calls"});
    check_what_limits(exporter, {by_gpu(with_pauses)}, with_pauses);
    check_mixes(exporter, with_pauses);
}

TEST_CASE("why says the same of all else where launches are observed intermittently",
          "[kernel][long]") {
    require_bpf();
    const Exporter exporter(seldom);
    wait_for_cost(exporter);
    // Not "host": beside so many launches, how long they take decides what the limit is.
    check_what_the_gpu_waits_for(exporter, with_pauses, {"lock", "file"});
    check_neighbors(exporter, with_pauses);
    check_throttled(exporter, again(joined(with_pauses.launch, {"burn_wall", "5"})), with_pauses);
    check_swapped_out(exporter, with_pauses);
}

TEST_CASE("why says that a call hangs, after launches that were observed intermittently",
          "[kernel]") {
    require_bpf();
    const Exporter exporter(seldom);
    wait_for_cost(exporter);
    const std::string name = "why_hangs_late";
    const Process process = whys::start(exporter, name,
                                        joined(again(training({"sleep", "20"}, with_pauses)),
                                               {"inside", "synchronize", "sleep", "60000"}));
    process.signal(SIGUSR1);
    wait_for_pause(exporter, name);
    const Json one = explained(exporter, process);
    CAPTURE(one.dump());
    CHECK(one.at("conclusion") != "hangs");
    eventually("the call to hang", [&] {
        const Json now = explained(exporter, process);
        return now.at("conclusion") == "hangs";
    });
    check_hang(exporter, process);
}

TEST_CASE("launches that are only counted are not taken for a slow one of another program",
          "[kernel]") {
    require_bpf();
    const Exporter exporter(std::string(whys::enabled) + "cuda: {max_overhead: 50%}\n");
    const ManyLaunches neighbour(exporter);
    // Its copy of the runtime is still observed in full.
    const TemporaryDirectory directory;
    const std::filesystem::path copy = directory.path() / "libcudart.so.12";
    std::filesystem::copy_file(standin("12/libcudart.so.12"), copy);
    const Process slow(
        {standin("spends"), "wait", "name", "slow", "inside", "launch", "sleep", "300", "wait"},
        {{"LD_LIBRARY_PATH", directory.path().string()}});
    slow.wait_for_output("waiting 1");
    exporter.wait_until_attached_to(copy.string());
    slow.go_on_to(2);
    const Process process = whys::start(exporter, "why_spins",
                                        again({"launch", "inside", "synchronize", "burn", "20"}));
    prefer(process);
    process.signal(SIGUSR1);
    check(exporter, process, "why_spins",
          {.key = "gpu", .sentence = "The GPU is the limit", .keeps_gpu_waiting = false}, {});
}

TEST_CASE("why takes time in launches that are not observed for that", "[kernel]") {
    require_bpf();
    const Exporter exporter(seldom);
    const Process holder({standin("workload"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    wait_for_cost(exporter);
    // It does nothing else, so it is observed for a small part of the time.
    const Process process({standin("launcher"), "busy", "20", "--name", "why_pauses"});
    const auto unobserved = [&] {
        return exporter.scrape().sum("gpusnoop_cuda_launches_unobserved_seconds_total",
                                     {{"comm", "why_pauses"}});
    };
    eventually("a pause after another", [&] { return unobserved() > 3; });
    const double before = unobserved();
    const Json one = explained(exporter, process);
    CAPTURE(one.dump(), before, unobserved());
    CHECK(unobserved() > before);
    CHECK(one.at("conclusion") == "launches");
    CHECK(one.at("share") > 0.5);
}
