// `why`, on programs that spend their time in one way each.
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/harness/exporter.h"
#include "tests/harness/machine/cpu_cgroup.h"
#include "tests/harness/machine/directory.h"
#include "tests/harness/machine/disk_cgroup.h"
#include "tests/harness/machine/memory_cgroup.h"
#include "tests/harness/machine/swap_file.h"
#include "tests/harness/process.h"

using namespace harness;
using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::json;

namespace {

constexpr auto why_enabled = "host: {time: {enabled: true}}\n";

Finished why(const Exporter &exporter, const std::vector<std::string> &more) {
    std::vector<std::string> command = {
        exporter_binary(), "why", "--address=http://127.0.0.1:" + std::to_string(exporter.port())};
    command.insert(command.end(), more.begin(), more.end());
    return run(command);
}

using Steps = std::vector<std::string>;

// What a training step does between a wait for the GPU and the next launch.
Steps training(Steps work, const Steps &launch = {"launch"}) {
    const Steps wait = {"inside", "synchronize", "sleep", "1"};
    work.insert(work.begin(), wait.begin(), wait.end());
    work.insert(work.end(), launch.begin(), launch.end());
    return work;
}

// A loop of ten seconds or more.
Steps again(const Steps &step) {
    Steps steps;
    for (int i = 0; i < 500; i++) {
        steps.insert(steps.end(), step.begin(), step.end());
    }
    return steps;
}

// A program that has launched a kernel, is called `name`, and waits to go on with the steps.
Process why_start(const Exporter &exporter, const std::string &name, const Steps &steps) {
    Steps command = {standin("spends"), "wait", "name", name, "launch", "wait"};
    command.insert(command.end(), steps.begin(), steps.end());
    Process process(command);
    process.wait_for_output("waiting 1");
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    process.signal(SIGUSR1);
    process.wait_for_output("waiting 2");
    return process;
}

// A CPU is there for it whenever it has something to do, also on a machine in use.
void prefer(const Process &process) {
    REQUIRE(::setpriority(PRIO_PROCESS, static_cast<id_t>(process.pid()), -20) == 0);
}

// What `why` says of the process. All of its time is in the numbers.
Json explained(const Exporter &exporter, const Process &process) {
    const std::string pid = "--pid=" + std::to_string(process.pid());
    const Finished said = why(exporter, {pid, "--duration=1s", "--format=json"});
    CAPTURE(said.output, process.output());
    REQUIRE(said.code == 0);
    const Json answer = Json::parse(said.output);
    REQUIRE(answer.at("processes").size() == 1);
    Json one = answer.at("processes").at(0);
    CHECK(one.at("pid") == process.pid());
    CHECK(one.at("threads") == 1);
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
    return one;
}

void check_conclusion(const Exporter &exporter, const Process &process, const std::string &key,
                      const std::string &sentence) {
    const Json one = explained(exporter, process);
    CAPTURE(one.dump());
    CHECK(one.at("conclusion") == key);
    CHECK(one.at("share") > 0.3);
    CHECK_THAT(one.at("sentence").get<std::string>(), ContainsSubstring(sentence));
}

// Most of what the GPU waits for is in this state.
void check_starvation(const Exporter &exporter, const Process &process, const std::string &key,
                      const std::string &state) {
    const Json one = explained(exporter, process);
    CAPTURE(one.dump());
    CHECK(one.at("conclusion") == key);
    CHECK(one.at("starved_share") > 0.5);
    CHECK_THAT(one.at("sentence").get<std::string>(),
               ContainsSubstring(" The host kept the GPU waiting "));
    CHECK(one.at("sentence").get<std::string>().ends_with(", mostly in the state " + state + "."));
    CHECK(one.at("launch_gaps").at("device").at("gaps") > 1);
}

// `only`: the keys of some of the situations.
void check_what_the_gpu_waits_for(const Exporter &exporter,
                                  const std::vector<std::string> &only = {}) {
    struct Situation {
        std::string key;
        Steps work;
        std::string state;
    };
    const TemporaryDirectory directory;
    // The disk takes longer for a page than any machine's CPU: the time is in the waits.
    const auto cgroup = MemoryCgroup::make(std::uint64_t{1} << 30);  // ends after the process
    const DiskCgroup disk;
    for (const auto &[key, work, state] : std::vector<Situation>{
             {"data", {"pipe", "20", "burn", "4"}, "pipe"},
             {"lock", {"futex", "20", "burn", "4"}, "futex"},
             {"memory_calls", {"inside", "allocate", "sleep", "20", "burn", "4"}, "cuda_call"},
             {"host", {"burn", "20", "pipe", "2"}, "running"},
             {"file", {"cold", directory / "data", "100"}, "file"},
         }) {
        if (!only.empty() && std::ranges::find(only, key) == only.end()) {
            continue;
        }
        const Process process = why_start(exporter, "why_" + key, again(training(work)));
        prefer(process);
        if (key == "file" && cgroup) {
            cgroup->take(process.pid());
            disk.limit(process.pid(), *cgroup, directory.path(), 1000);
        }
        process.signal(SIGUSR1);
        check_starvation(exporter, process, key, state);
    }
}

struct Limited {
    std::string key;
    Steps loop;
    std::string sentence;
};

void check_what_limits(const Exporter &exporter, const std::vector<Limited> &more = {}) {
    std::vector<Limited> situations{
        {"gpu",
         {"launch", "inside", "synchronize", "poll", "20", "burn", "4"},
         "The GPU is the limit: the launching thread waited for it"},
        // It reads ahead while the GPU works.
        {"data", {"launch", "launch", "pipe", "20", "burn", "4"}, "mostly in the state pipe"},
        {"idle", {"poll", "20"}, "The program is idle: it launched nothing"},
    };
    situations.insert(situations.end(), more.begin(), more.end());
    for (const auto &[key, loop, sentence] : situations) {
        const Process process = why_start(exporter, "why_" + key, again(loop));
        prefer(process);
        process.signal(SIGUSR1);
        check_conclusion(exporter, process, key, sentence);
    }
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

TEST_CASE("why says what the GPU waits for", "[kernel]") {
    require_bpf();
    const Exporter exporter(why_enabled);
    check_what_the_gpu_waits_for(exporter);
}

TEST_CASE("why says what limits a program that the GPU does not wait for", "[kernel]") {
    require_bpf();
    const Exporter exporter(why_enabled);
    check_what_limits(
        exporter,
        {{"launches", {"inside", "launch", "futex", "20", "burn", "4"}, "in launch calls"}});
}

TEST_CASE("why says the same where launches are only counted", "[kernel]") {
    require_bpf();
    const Exporter exporter(std::string(why_enabled) + "cuda: {max_overhead: 50%}\n");
    const ManyLaunches neighbour(exporter);
    // One between calls and one inside of them: other states are no different.
    check_what_the_gpu_waits_for(exporter, {"data", "memory_calls"});
    check_what_limits(exporter);
}

TEST_CASE("why says the same where launches are observed intermittently", "[kernel]") {
    require_bpf();
    // A little of the overhead budget is left for a program with so many launches.
    const Exporter exporter(std::string(why_enabled) + "cuda: {max_overhead: 1%}\n");
    eventually("the cost of a probe to be measured",
               [&] { return exporter.scrape().has("gpusnoop_probe_cost_seconds"); });
    const Steps launches = {"launches", "1000"};
    int number = 0;
    struct Situation {
        std::string key;
        Steps loop;
    };
    for (const auto &[key, loop] : std::vector<Situation>{
             // One between calls and one inside of them: other states are no different.
             {"data", training({"pipe", "30", "burn", "4"}, launches)},
             {"memory_calls",
              training({"inside", "allocate", "sleep", "30", "burn", "4"}, launches)},
             {"gpu", {"launches", "1000", "inside", "synchronize", "poll", "30", "burn", "4"}},
             // A mix of causes, none of which has half of the time.
             {"data", training({"pipe", "18", "burn", "10", "futex", "8"}, launches)},
         }) {
        const std::string name = "why_seldom_" + std::to_string(number++);
        const Process process = why_start(exporter, name, again(loop));
        prefer(process);
        process.signal(SIGUSR1);
        eventually("a pause in which its launches are not observed", [&] {
            return exporter.scrape().sum("gpusnoop_cuda_launches_unobserved_seconds_total",
                                         {{"comm", name}}) > 0;
        });
        const Json one = explained(exporter, process);
        CAPTURE(one.dump());
        CHECK(one.at("conclusion") == key);
    }
}

TEST_CASE("launches that are only counted are not taken for a slow one of another program",
          "[kernel]") {
    require_bpf();
    const Exporter exporter(std::string(why_enabled) + "cuda: {max_overhead: 50%}\n");
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
    slow.signal(SIGUSR1);
    slow.wait_for_output("waiting 2");
    const Process process =
        why_start(exporter, "why_spins", again({"launch", "inside", "synchronize", "burn", "20"}));
    prefer(process);
    process.signal(SIGUSR1);
    check_conclusion(exporter, process, "gpu", "The GPU is the limit");
}

TEST_CASE("why takes time in launches that are not observed for that", "[kernel]") {
    require_bpf();
    const Exporter exporter(std::string(why_enabled) + "cuda: {max_overhead: 1%}\n");
    const Process holder({standin("workload"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    eventually("the cost of a probe to be measured",
               [&] { return exporter.scrape().has("gpusnoop_probe_cost_seconds"); });
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

TEST_CASE("why and the page say that a call hangs, and which", "[kernel]") {
    require_bpf();
    const Exporter exporter("host: {read_interval: 1s, time: {enabled: true}}\n");
    const Process process =
        why_start(exporter, "why_hangs", {"launch", "inside", "synchronize", "sleep", "60000"});
    process.signal(SIGUSR1);
    std::this_thread::sleep_for(std::chrono::seconds(6));
    const Json one = explained(exporter, process);
    CAPTURE(one.dump());
    CHECK(one.at("conclusion") == "hangs");
    CHECK(one.at("call").at("function") == "cudaDeviceSynchronize");
    CHECK(one.at("call").at("age_seconds") > 5);
    CHECK(one.at("call").at("age_seconds") < 60);
    const std::string sentence =
        "The program hangs: the launching thread has been in cudaDeviceSynchronize for ";
    CHECK(one.at("sentence").get<std::string>().starts_with(sentence));
    eventually("the page says that it hangs",
               [&] { return http(exporter.port(), "/").body.find(sentence) != std::string::npos; });
}

TEST_CASE("why says that neighbours have the CPU", "[kernel]") {
    require_bpf();
    const Exporter exporter(why_enabled);
    const Process process =
        why_start(exporter, "why_crowded", again(training({"pin", "0", "burn", "20"})));
    const Steps burner = {standin("spends"), "pin", "0", "burn_wall", "60000"};
    const Process neighbours[] = {Process(burner), Process(burner)};
    process.signal(SIGUSR1);
    check_starvation(exporter, process, "no_cpu", "runnable");
}

TEST_CASE("why says that a program is swapped out", "[kernel]") {
    require_bpf();
    const Exporter exporter(why_enabled);
    const SwapFile swap(64);
    if (!swap.is_used()) {
        missing("a file to swap to");
    }
    const auto cgroup = MemoryCgroup::make(std::uint64_t{16} << 20);  // ends after the process
    if (!cgroup) {
        missing("cgroups that limit memory");
    }
    const DiskCgroup disk;
    // What it touches for the first time is swapped out only.
    Steps steps = {"touch", "48", "12288", "wait"};
    const Steps loop = again(training({"touch", "48", "100"}));
    steps.insert(steps.end(), loop.begin(), loop.end());
    Process process = why_start(exporter, "why_swaps", steps);
    cgroup->take(process.pid());
    process.signal(SIGUSR1);
    process.wait_for_output("waiting 3");
    disk.limit(process.pid(), *cgroup, std::filesystem::temp_directory_path(), 1000);
    process.signal(SIGUSR1);
    check_starvation(exporter, process, "page_fault", "page_fault");
}

TEST_CASE("why says that the CPU limit of a program's cgroup is too low", "[kernel]") {
    require_bpf();
    const Exporter exporter(why_enabled);
    const CpuCgroup cgroup;  // ends after the process
    const Process process =
        why_start(exporter, "why_throttled", {"pin", "0", "burn_wall", "20000"});
    cgroup.take(process.pid());
    process.signal(SIGUSR1);
    check_conclusion(exporter, process, "throttled", "CPU limit of its cgroup");
}

TEST_CASE("why has a table for people, and the processes that it is asked for", "[kernel][core]") {
    require_bpf();
    const Exporter exporter(why_enabled);
    const Process loads =
        why_start(exporter, "why_loads", again(training({"pipe", "20", "burn", "4"})));
    const Process other = why_start(exporter, "why_other", {});
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
    const Exporter exporter(why_enabled);
    const Finished nobody = why(exporter, {"--comm=why_nobody", "--duration=100ms"});
    CHECK(nobody.code == 1);
    CHECK_THAT(nobody.output, ContainsSubstring("nothing matches --comm=why_nobody: "));
    const Finished no_pid = why(exporter, {"--pid=1", "--duration=100ms", "--format=json"});
    CHECK(no_pid.code == 1);
    CHECK_THAT(no_pid.output, ContainsSubstring("nothing matches --pid=1: ") &&
                                  ContainsSubstring("\"processes\":[]"));
    const Finished all = why(exporter, {"--duration=100ms"});
    CHECK(all.code == 0);
    for (const std::vector<std::string> &wrong :
         {Steps{"--duration=1ms"}, Steps{"--duration=x"}, Steps{"--pid=0"}, Steps{"--format=xml"},
          Steps{"--pid=1", "--comm=a"}, Steps{"--address=ftp://x"}, Steps{"--rows=1"}}) {
        CAPTURE(wrong.front());
        const Finished refused = why(exporter, wrong);
        CHECK(refused.code == 2);
        CHECK(refused.output.starts_with("gpusnoop_exporter: "));
    }
}
