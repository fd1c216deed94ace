// `why`, on programs that spend their time in one way each.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/harness/exporter.h"
#include "tests/harness/process.h"
#include "tests/probes/why/situations.h"

using namespace harness;
using namespace harness::whys;

TEST_CASE("why says what the GPU waits for", "[kernel]") {
    require_bpf();
    const Exporter exporter(whys::enabled);
    check_what_the_gpu_waits_for(exporter);
}

TEST_CASE("why says what limits a program that the GPU does not wait for", "[kernel]") {
    require_bpf();
    const Exporter exporter(whys::enabled);
    check_what_limits(exporter, gpu_does_not_wait());
    check_what_limits(
        exporter,
        {{"launches", {"inside", "launch", "futex", "20", "burn", "4"}, "in launch calls"}});
}

TEST_CASE("why says what most of the time goes to, in many short gaps too", "[kernel]") {
    require_bpf();
    const Exporter exporter(whys::enabled);
    check_mixes(exporter);
}

TEST_CASE("why and the page say that a call hangs, and which", "[kernel]") {
    require_bpf();
    const Exporter exporter("host: {read_interval: 1s, time: {enabled: true}}\n");
    const Process process =
        whys::start(exporter, "why_hangs", {"launch", "inside", "synchronize", "sleep", "60000"});
    process.signal(SIGUSR1);
    std::this_thread::sleep_for(std::chrono::seconds(6));
    check_hang(exporter, process);
    eventually("the page says that it hangs", [&] {
        return http(exporter.port(), "/").body.find(hang_sentence) != std::string::npos;
    });
}

TEST_CASE("why says that neighbours have the CPU", "[kernel]") {
    require_bpf();
    const Exporter exporter(whys::enabled);
    check_neighbors(exporter);
}

TEST_CASE("why says that a program is swapped out", "[kernel]") {
    require_bpf();
    const Exporter exporter(whys::enabled);
    check_swapped_out(exporter);
}

TEST_CASE("why says that the CPU limit of a program's cgroup is too low", "[kernel]") {
    require_bpf();
    const Exporter exporter(whys::enabled);
    check_throttled(exporter, {"burn_wall", "20000"});
}

TEST_CASE("why has a table for people, and the processes that it is asked for", "[kernel][core]") {
    require_bpf();
    const Exporter exporter(whys::enabled);
    const Process loads =
        whys::start(exporter, "why_loads", again(training({"pipe", "20", "burn", "4"})));
    const Process other = whys::start(exporter, "why_other", {});
    loads.signal(SIGUSR1);
    const Finished both = why(exporter, {"--comm=why_*", "--duration=500ms"});
    CHECK(both.code == 0);
    CHECK_THAT(both.output, ContainsSubstring("why_other (pid " + std::to_string(other.pid())));
    const Finished one = why(exporter, {"--comm=why_loads", "--duration=500ms"});
    CAPTURE(one.output);
    CHECK(one.code == 0);
    CHECK(one.output.starts_with("why_loads (pid " + std::to_string(loads.pid()) + "), "));
    CHECK_THAT(one.output, ContainsSubstring(" s of its launching thread:\nData is the limit: "));
    CHECK_THAT(one.output, ContainsSubstring("\n  waiting for the GPU "));
    CHECK_THAT(one.output, ContainsSubstring(" s pipe (another process: a data loader)"));
    CHECK_THAT(one.output, ContainsSubstring("\n  The GPU had no work from it for 0."));
    CHECK(one.output.find("why_other") == std::string::npos);
}

TEST_CASE("why says what is missing, and what is wrong with its command line", "[kernel]") {
    require_bpf();
    const Exporter off;
    const Finished without = why(off, {"--duration=100ms"});
    CHECK(without.code == 1);
    CHECK_THAT(without.output, ContainsSubstring("host.time.enabled: true"));
    const Exporter exporter(whys::enabled);
    const Finished nobody = why(exporter, {"--comm=why_nobody", "--duration=100ms"});
    CHECK(nobody.code == 1);
    CHECK_THAT(nobody.output, ContainsSubstring("nothing matches --comm=why_nobody: "));
    const Finished no_pid = why(exporter, {"--pid=1", "--duration=100ms", "--format=json"});
    CHECK(no_pid.code == 1);
    CHECK_THAT(no_pid.output, ContainsSubstring("nothing matches --pid=1: ") &&
                                  ContainsSubstring("\"processes\":[]"));
    const Finished all = why(exporter, {"--duration=100ms"});
    CHECK(all.code == 0);
    for (const Steps &wrong :
         {Steps{"--duration=1ms"}, Steps{"--duration=x"}, Steps{"--pid=0"}, Steps{"--format=xml"},
          Steps{"--pid=1", "--comm=a"}, Steps{"--address=ftp://x"}, Steps{"--rows=1"}}) {
        CAPTURE(wrong.front());
        const Finished refused = why(exporter, wrong);
        CHECK(refused.code == 2);
        CHECK(refused.output.starts_with("gpusnoop_exporter: "));
    }
}
