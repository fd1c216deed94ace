// `why`, on programs that spend their time in one way each.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/harness/cpu_cgroup.h"
#include "tests/harness/exporter.h"
#include "tests/harness/process.h"

using namespace harness;
using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::json;

namespace {

constexpr auto enabled = "host: {time: {enabled: true}}\n";

Finished why(const Exporter &exporter, const std::vector<std::string> &more) {
    std::vector<std::string> command = {
        exporter_binary(), "why", "--address=http://127.0.0.1:" + std::to_string(exporter.port())};
    command.insert(command.end(), more.begin(), more.end());
    return run(command);
}

using Steps = std::vector<std::string>;

// A loop of ten seconds or more.
Steps again(const Steps &step) {
    Steps steps;
    for (int i = 0; i < 500; i++) {
        steps.insert(steps.end(), step.begin(), step.end());
    }
    return steps;
}

// A program that has launched a kernel, is called `name`, and waits to go on with the steps.
Process start(const Exporter &exporter, const std::string &name, const Steps &steps) {
    Steps command = {standin("spends"), "wait", "name", name, "launch", "wait"};
    command.insert(command.end(), steps.begin(), steps.end());
    Process process(command);
    process.wait_for_output("waiting 1");
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    process.signal(SIGUSR1);
    process.wait_for_output("waiting 2");
    return process;
}

// Most of the time goes where it is said to go, and all of it is in the numbers.
void check_conclusion(const Exporter &exporter, const Process &process, const std::string &key,
                      const std::string &sentence) {
    const std::string pid = "--pid=" + std::to_string(process.pid());
    const Finished said = why(exporter, {pid, "--duration=1s", "--format=json"});
    CAPTURE(key, said.output);
    REQUIRE(said.code == 0);
    const Json answer = Json::parse(said.output);
    REQUIRE(answer.at("processes").size() == 1);
    const Json &one = answer.at("processes").at(0);
    CHECK(one.at("pid") == process.pid());
    CHECK(one.at("threads") == 1);
    CHECK(one.at("conclusion") == key);
    CHECK(one.at("share") > 0.4);
    CHECK_THAT(one.at("sentence").get<std::string>(), ContainsSubstring(sentence));
    double sum = 0;
    for (const auto &[phase, states] : one.at("seconds").items()) {
        for (const auto &[state, value] : states.items()) {
            sum += value.get<double>();
        }
    }
    const double elapsed = answer.at("elapsed_seconds").get<double>();
    CAPTURE(sum, elapsed);
    CHECK(elapsed >= 1);
    // The two readings of the thread are a moment before those of the clock.
    CHECK(sum > 0.9 * elapsed);
    CHECK(sum < 1.1 * elapsed);
}

}  // namespace

TEST_CASE("why says what limits a program", "[e2e]") {
    require_bpf();
    const Exporter exporter(enabled);
    struct Situation {
        std::string key;
        Steps loop;
        std::string sentence;
    };
    for (const auto &[key, loop, sentence] : std::vector<Situation>{
             {"data", {"pipe", "20", "burn", "4"}, "mostly in the state pipe"},
             {"lock", {"futex", "20", "burn", "4"}, "Another thread is the limit"},
             {"memory_calls",
              {"inside", "allocate", "sleep", "20", "burn", "4"},
              "inside of cudaMalloc"},
             {"gpu", {"inside", "synchronize", "poll", "20", "burn", "4"}, "The GPU is the limit"},
             {"launches", {"inside", "launch", "futex", "20", "burn", "4"}, "inside of them"},
             {"no_cpu", {"pin", "0", "compete", "500"}, "had no CPU"},
         }) {
        const Process process = start(exporter, "why_" + key, again(loop));
        process.signal(SIGUSR1);
        check_conclusion(exporter, process, key, sentence);
    }
}

TEST_CASE("why says that the CPU limit of a program's cgroup is too low", "[e2e]") {
    require_bpf();
    const Exporter exporter(enabled);
    const CpuCgroup cgroup;  // ends after the process
    const Process process = start(exporter, "why_throttled", {"pin", "0", "burn_wall", "20000"});
    cgroup.take(process.pid());
    process.signal(SIGUSR1);
    check_conclusion(exporter, process, "throttled", "CPU limit of its cgroup");
}

TEST_CASE("why has a table for people, and the processes that it is asked for", "[e2e]") {
    require_bpf();
    const Exporter exporter(enabled);
    const Process loads = start(exporter, "why_loads", again({"pipe", "20", "burn", "4"}));
    const Process other = start(exporter, "why_other", {});
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
    CHECK(one.output.find("why_other") == std::string::npos);
}

TEST_CASE("why says what is missing, and what is wrong with its command line", "[e2e]") {
    require_bpf();
    const Exporter off;
    const Finished without = why(off, {"--duration=100ms"});
    CHECK(without.code == 1);
    CHECK_THAT(without.output, ContainsSubstring("host.time.enabled: true"));
    const Exporter exporter(enabled);
    const Finished nobody = why(exporter, {"--comm=why_nobody", "--duration=100ms"});
    CHECK(nobody.code == 0);
    CHECK_THAT(nobody.output, ContainsSubstring("No thread that launches work on a GPU"));
    for (const std::vector<std::string> &wrong :
         {Steps{"--duration=1ms"}, Steps{"--duration=x"}, Steps{"--pid=0"}, Steps{"--format=xml"},
          Steps{"--pid=1", "--comm=a"}, Steps{"--address=ftp://x"}, Steps{"--rows=1"}}) {
        CAPTURE(wrong.front());
        const Finished refused = why(exporter, wrong);
        CHECK(refused.code == 2);
        CHECK(refused.output.starts_with("gpusnoop_exporter: "));
    }
}
