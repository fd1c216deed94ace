// Programs that spend their time in one way each, and what `why` says of them.
#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/harness/exporter.h"
#include "tests/harness/machine/cpu_cgroup.h"
#include "tests/harness/machine/directory.h"
#include "tests/harness/machine/disk_cgroup.h"
#include "tests/harness/machine/memory_cgroup.h"
#include "tests/harness/machine/swap_file.h"
#include "tests/harness/process.h"

namespace harness::whys {

using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::json;
using Steps = std::vector<std::string>;

inline constexpr auto enabled = "host: {time: {enabled: true}}\n";

inline Finished why(const Exporter &exporter, const Steps &more) {
    Steps command = {exporter_binary(), "why",
                     "--address=http://127.0.0.1:" + std::to_string(exporter.port())};
    command.insert(command.end(), more.begin(), more.end());
    return run(command);
}

// How the launches of the programs are observed.
struct Observed {
    Steps launch = {"launch"};  // of a step
    bool is_seldom = false;     // they are so many that there are pauses
};

inline Steps joined(Steps first, const Steps &second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

// What a training step does between a wait for the GPU and the next launch.
inline Steps training(const Steps &work, const Observed &observed = {}) {
    return joined(joined({"inside", "synchronize", "sleep", "1"}, work), observed.launch);
}

// A loop of ten seconds or more.
inline Steps again(const Steps &step) {
    Steps steps;
    for (int i = 0; i < 500; i++) {
        steps.insert(steps.end(), step.begin(), step.end());
    }
    return steps;
}

// A program that has launched a kernel, is called `name`, and waits to go on with the steps.
inline Process start(const Exporter &exporter, const std::string &name, const Steps &steps) {
    Process process(joined({standin("spends"), "wait", "name", name, "launch", "wait"}, steps));
    process.wait_for_output("waiting 1");
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    // Launches are only counted of a process each of whose launches is seen in the driver, too.
    exporter.wait_until_attached_to(standin("driver/libcuda.so.1"));
    process.go_on_to(2);
    return process;
}

// A CPU is there for it whenever it has something to do, also on a machine in use.
inline void prefer(const Process &process) {
    REQUIRE(::setpriority(PRIO_PROCESS, static_cast<id_t>(process.pid()), -20) == 0);
}

inline void wait_for_pause(const Exporter &exporter, const std::string &name) {
    constexpr std::size_t most = 15;  // bytes of a process's name
    eventually("a pause in which launches of " + name + " are not observed", [&] {
        return exporter.scrape().sum("gpusnoop_cuda_launches_unobserved_seconds_total",
                                     {{"comm", name.substr(0, most)}}) > 0;
    });
}

// What `why` says of the process. All of its time is in the numbers.
inline Json explained(const Exporter &exporter, const Process &process) {
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

struct Expected {
    std::string key;
    std::string sentence;  // a part of it
    bool keeps_gpu_waiting = true;
};

inline void check(const Exporter &exporter, const Process &process, const std::string &name,
                  const Expected &expected, const Observed &observed) {
    if (observed.is_seldom) {
        wait_for_pause(exporter, name);
    }
    const Json one = explained(exporter, process);
    CAPTURE(one.dump());
    CHECK(one.at("conclusion") == expected.key);
    const auto sentence = one.at("sentence").get<std::string>();
    if (!expected.keeps_gpu_waiting) {
        CHECK(one.at("share") > 0.3);
        CHECK_THAT(sentence, ContainsSubstring(expected.sentence));
    } else if (!observed.is_seldom) {
        CHECK(one.at("starved_share") > 0.5);
        CHECK_THAT(sentence, ContainsSubstring(" The host kept the GPU waiting "));
        CHECK_THAT(sentence, Catch::Matchers::EndsWith(expected.sentence));
        CHECK(one.at("launch_gaps").at("device").at("gaps") > 1);
    }
}

// Most of what the GPU waits for is in this state.
inline Expected starved(const std::string &key, const std::string &state) {
    return {.key = key, .sentence = ", mostly in the state " + state + "."};
}

// `only`: the keys of some of the situations.
inline void check_what_the_gpu_waits_for(const Exporter &exporter, const Observed &observed = {},
                                         const Steps &only = {}) {
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
        const std::string name = "why_" + key;
        const Process process = start(exporter, name, again(training(work, observed)));
        prefer(process);
        if (key == "file" && cgroup) {
            cgroup->take(process.pid());
            disk.limit(process.pid(), *cgroup, directory.path(), 1000);
        }
        process.signal(SIGUSR1);
        check(exporter, process, name, starved(key, state), observed);
    }
}

// No cause has half of the time; and most of the time is in gaps that are too short to be
// explained.
inline void check_mixes(const Exporter &exporter, const Observed &observed = {}) {
    const std::string mixed = "why_mixed";
    const Process several = start(
        exporter, mixed, again(training({"pipe", "18", "burn", "12", "futex", "8"}, observed)));
    prefer(several);
    several.signal(SIGUSR1);
    check(exporter, several, mixed, starved("data", "pipe"), observed);
    const std::string brief = "why_brief";
    const Process short_gaps =
        start(exporter, brief, again(joined(observed.launch, {"brief", "20", "700", "pipe", "6"})));
    prefer(short_gaps);
    short_gaps.signal(SIGUSR1);
    check(exporter, short_gaps, brief,
          {.key = "host", .sentence = "Host code is the limit", .keeps_gpu_waiting = false},
          observed);
}

struct Limited {
    std::string key;
    Steps loop;
    std::string sentence;
};

inline void check_what_limits(const Exporter &exporter, const std::vector<Limited> &situations,
                              const Observed &observed = {}) {
    for (const auto &[key, loop, sentence] : situations) {
        const std::string name = "why_" + key;
        const Process process = start(exporter, name, again(loop));
        prefer(process);
        process.signal(SIGUSR1);
        check(exporter, process, name,
              {.key = key, .sentence = sentence, .keeps_gpu_waiting = false}, observed);
    }
}

// The rest of a step is the wait for the GPU.
inline Limited by_gpu(const Observed &observed = {}) {
    return {"gpu", joined(observed.launch, {"inside", "synchronize", "poll", "20", "burn", "4"}),
            "The GPU is the limit: the launching thread waited for it"};
}

// One that reads ahead while the GPU works, and one that does nothing.
inline std::vector<Limited> gpu_does_not_wait() {
    return {by_gpu(),
            {"data", {"launch", "launch", "pipe", "20", "burn", "4"}, "mostly in the state pipe"},
            {"idle", {"poll", "20"}, "The program is idle: it launched nothing"}};
}

inline void check_neighbors(const Exporter &exporter, const Observed &observed = {}) {
    const std::string name = "why_crowded";
    const Process process =
        start(exporter, name, again(training({"pin", "0", "burn", "20"}, observed)));
    const Steps burner = {standin("spends"), "pin", "0", "burn_wall", "60000"};
    const Process neighbors[] = {Process(burner), Process(burner)};
    process.signal(SIGUSR1);
    check(exporter, process, name, starved("no_cpu", "runnable"), observed);
}

inline void check_swapped_out(const Exporter &exporter, const Observed &observed = {}) {
    const SwapFile swap(64);
    if (!swap.is_used()) {
        missing("a file to swap to");
    }
    const auto cgroup = MemoryCgroup::make(std::uint64_t{16} << 20);  // ends after the process
    if (!cgroup) {
        missing("cgroups that limit memory");
    }
    const DiskCgroup disk;
    const std::string name = "why_swaps";
    // What it touches for the first time is swapped out only.
    Process process = start(exporter, name,
                            joined({"touch", "48", "12288", "wait"},
                                   again(training({"touch", "48", "100"}, observed))));
    cgroup->take(process.pid());
    process.go_on_to(3);
    disk.limit(process.pid(), *cgroup, std::filesystem::temp_directory_path(), 1000);
    process.signal(SIGUSR1);
    check(exporter, process, name, starved("page_fault", "page_fault"), observed);
}

// `loop`: on one CPU.
inline void check_throttled(const Exporter &exporter, const Steps &loop,
                            const Observed &observed = {}) {
    const CpuCgroup cgroup;  // ends after the process
    const std::string name = "why_throttled";
    const Process process = start(exporter, name, joined({"pin", "0"}, loop));
    cgroup.take(process.pid());
    process.signal(SIGUSR1);
    check(exporter, process, name,
          {.key = "throttled", .sentence = "CPU limit of its cgroup", .keeps_gpu_waiting = false},
          observed);
}

inline const std::string hang_sentence =
    "The program hangs: the launching thread has been in cudaDeviceSynchronize for ";

inline void check_hang(const Exporter &exporter, const Process &process) {
    const Json one = explained(exporter, process);
    CAPTURE(one.dump());
    CHECK(one.at("conclusion") == "hangs");
    CHECK(one.at("call").at("function") == "cudaDeviceSynchronize");
    CHECK(one.at("call").at("age_seconds") > 5);
    CHECK(one.at("call").at("age_seconds") < 60);
    CHECK(one.at("sentence").get<std::string>().starts_with(hang_sentence));
}

}  // namespace harness::whys
