// Profiles of programs that know where they spend their time, and where they touch memory.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/harness/counting.h"
#include "tests/harness/exporter.h"
#include "tests/harness/guest.h"
#include "tests/harness/process.h"
#include "tests/probes/host/time.h"
#include "tests/probes/profiles.h"

using namespace harness;
using namespace harness::profiles;

TEST_CASE("samples of the CPU are where a program burns it", "[kernel][core]") {
    require_bpf();
    const Process process = hold({"burn", "2000"});
    Profile profile({pid_option(process), "--format=json", "--frequency=199"});
    auto said = work(process);
    const Json json = Json::parse(profile.finish());
    CHECK(json.at("samples_lost") == 0);
    CHECK(json.at("stacks_lost") == 0);
    const double one = samples_in(json, "burn_one");
    const double three = samples_in(json, "burn_three");
    CAPTURE(one, three, said["one"], said["three"]);
    CHECK(one + three >= least_samples(said["one"] + said["three"]));
    CHECK(one + three <= 1.1 * 199 * (said["one"] + said["three"]) / 1e9 + 5);
    // Where they fall is chance: within the 99.9 % interval of the true share.
    const double share = said["three"] / (said["one"] + said["three"]);
    const double deviation = std::sqrt(share * (1 - share) / (one + three));
    CHECK(std::abs(three / (one + three) - share) <= 3.3 * deviation);
    CHECK(json.at("type") == "cpu");
    for (const Json &stack : json.at("stacks")) {
        CHECK(stack.at("pid") == process.pid());
        CHECK(stack.at("comm") == "stacks");
        CHECK(stack.at("cuda_call").is_null());
    }
}

TEST_CASE("a sample in the probe at a function's first byte is of that function", "[kernel]") {
    require_bpf();
    const Exporter exporter;
    const Process program({standin("workload"), "--threads", "1", "--seconds", "600"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    Profile profile({pid_option(program), "--format=json", "--frequency=199"});
    std::this_thread::sleep_for(std::chrono::seconds(2));
    const Json json = Json::parse(profile.finish());
    double at_first_byte = 0;
    for (const Json &stack : json.at("stacks")) {
        if (!stack.at("stack").empty()) {
            const Json &innermost = stack.at("stack").front();
            const bool is_probed =
                innermost.at("module") == "libcudart.so.12" && innermost.at("function").is_string();
            at_first_byte +=
                is_probed && innermost.at("offset") == 0 ? stack.at("samples").get<double>() : 0;
        }
    }
    CHECK(at_first_byte > 0);
}

TEST_CASE("code that a program makes has the names of its perf map", "[kernel][beside]") {
    require_bpf();
    const Process process = hold({"made", "1000"});
    Profile profile({pid_option(process), "--format=json", "--frequency=199"});
    auto said = work(process);
    const Json json = Json::parse(profile.finish());
    const double made = samples_in(json, "made_loop");
    CAPTURE(made, said["made"], json.dump());
    CHECK(made >= least_samples(said["made"]));
    CHECK(made <= 1.1 * 199 * said["made"] / 1e9 + 5);
}

TEST_CASE("a flame graph has what a program burns", "[kernel][beside]") {
    require_bpf();
    const Process process = hold({"touch", "1000"});
    Profile profile({pid_option(process), "--format=svg", "--type=page_faults"});
    (void)work(process);
    const std::string svg = profile.finish();
    CHECK(svg.starts_with("<?xml "));
    CHECK(svg.find("<title>touch_pages (1,000 faults, ") != std::string::npos);
}

TEST_CASE("each page fault is a sample, with the function that touches the page",
          "[kernel][beside]") {
    require_bpf();
    const Process process = hold({"touch", "1562"});
    Profile profile({pid_option(process), "--format=json", "--type=page_faults"});
    auto said = work(process);
    const double samples = samples_in(Json::parse(profile.finish()), "touch_pages");
    CAPTURE(said["faults"]);
    // More, where the kernel takes pages away to see who uses them (NUMA balancing).
    CHECK(said["faults"] >= 1562);
    // In a guest, somebody in the middle of a bpf() call can lose its CPU for long:
    // docs/profile.md.
    CHECK(samples >= (in_guest() ? 0.2 : 1.0) * said["faults"]);
    CHECK(samples <= said["faults"]);
}

namespace {

// The program allocates by the C library, or by what the environment preloads.
void check_heap(const Process::Environment &environment = {}) {
    const Process process = hold({"keep", "500"}, environment);
    const Process other = hold({"keep", "100"});
    Profile profile({pid_option(process), "--format=json", "--type=heap", "--min-bytes=1000"});
    (void)work(other);
    auto said = work(process);
    const Json json = Json::parse(profile.finish());
    CHECK(json.at("samples_lost") == 0);
    CHECK(json.at("stacks_lost") == 0);
    std::map<std::string, double> counted;
    for (const Json &stack : json.at("stacks")) {
        CAPTURE(stack.dump());
        CHECK(stack.at("pid") == process.pid());
        CHECK(stack.at("samples") > 0);
        for (const std::string what : {"keep", "grow"}) {
            if (has_frame(stack, what + "_blocks")) {
                counted[what + "_blocks"] += stack.at("samples").get<double>();
                counted[what + "_bytes"] += stack.at("bytes").get<double>();
            }
        }
    }
    CHECK(counted["keep_blocks"] == said["kept_blocks"]);
    CHECK(counted["keep_bytes"] == said["kept_bytes"]);
    CHECK(counted["grow_blocks"] == said["grown_blocks"]);
    CHECK(counted["grow_bytes"] == said["grown_bytes"]);
    CHECK(said["kept_blocks"] > 0);
    CHECK(said["grown_blocks"] > 0);
}

}  // namespace

TEST_CASE("a heap profile has what a process allocates and does not free, to the byte",
          "[kernel][core]") {
    require_bpf();
    check_heap();
}

TEST_CASE("a heap profile has what jemalloc and tcmalloc allocate and do not free",
          "[long][beside]") {
    require_bpf();
    const std::string library = GENERATE("libjemalloc.so.2", "libtcmalloc_minimal.so.4");
    const std::string path =
        GPUSNOOP_SOURCE_DIR "/.deps/allocators/usr/lib/x86_64-linux-gnu/" + library;
    CAPTURE(path);
    if (!std::filesystem::exists(path)) {
        missing(path);
    }
    check_heap({{"LD_PRELOAD", path}});
}

TEST_CASE("a heap profile is of one process that has an allocator", "[kernel][beside]") {
    require_bpf();
    const auto refused = [](std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), {exporter_binary(), "profile", "--duration=100ms"});
        return run(std::move(arguments));
    };
    const Finished without = refused({"--type=heap"});
    CHECK(without.code == 2);
    CHECK(without.output.find("needs exactly one --pid") != std::string::npos);
    CHECK(refused({"--type=heap", "--pid=1", "--pid=2"}).code == 2);
    CHECK(refused({"--type=cpu", "--min-bytes=1"}).code == 2);
    CHECK(refused({"--type=heap", "--pid=1", "--min-bytes=much"}).code == 2);
    const Finished gone = refused({"--type=heap", "--pid=4194304"});
    INFO(gone.output);
    CHECK(gone.code == 1);
    CHECK(gone.output.find("no file that defines malloc") != std::string::npos);
}

TEST_CASE("time off the CPU is where a thread waits, by the CUDA call that it is inside of",
          "[kernel]") {
    require_bpf();
    Process process({standin("spends"), "wait", "name", "profiled", "launch", "inside",
                     "synchronize", "sleep", "300", "pipe", "200", "sleep", "100", "wait"});
    process.wait_for_output("waiting 1");
    Profile profile({"--comm=spends", "--format=json", "--type=offcpu"});
    process.go_on_to(2);
    const Json json = Json::parse(profile.finish());
    const host_time::Notes notes = host_time::notes_in(process.output());
    INFO(process.output());
    std::map<std::string, double> seconds;
    double all = 0;
    double in_main = 0;
    for (const Json &stack : json.at("stacks")) {
        if (stack.at("pid") != process.pid() || stack.at("tid") != process.pid()) {
            continue;
        }
        const double time = stack.at("seconds");
        all += time;
        const std::string text = stack.at("kernel_stack").dump();
        CAPTURE(stack.dump());
        std::string where;
        if (stack.at("cuda_call") == "cudaDeviceSynchronize") {
            where = "wait";
        } else if (text.find("pipe_read") != std::string::npos) {
            where = "pipe";
        } else if (text.find("nanosleep") != std::string::npos) {
            where = "sleep";
        }
        seconds[where] += time;
        in_main += has_frame(stack, "main") ? time : 0;
    }
    CAPTURE(seconds["wait"], seconds["pipe"], seconds["sleep"], all);
    // What lies between the program's clock and a switch takes long while the CPUs of an emulated
    // machine do not run.
    const double unknown = in_guest() ? 0.25 : 0;
    CHECK(host_time::is_near(seconds["wait"], notes.spent.at({"wait", "sleep"}), unknown));
    CHECK(host_time::is_near(seconds["pipe"], notes.spent.at({"host", "pipe"}), unknown));
    CHECK(host_time::is_near(seconds["sleep"], notes.spent.at({"host", "sleep"}), unknown));
    // Some functions of the C library have no frame pointers.
    CAPTURE(in_main);
    CHECK(in_main >= 0.9 * (seconds["wait"] + seconds["pipe"] + seconds["sleep"]));
    // With the waits before and after the work, all of the profile is there.
    CHECK(all <= json.at("seconds").get<double>());
    CHECK(all >= (in_guest() ? 0.2 : 0.5) * json.at("seconds").get<double>());
    process.finish();
}

TEST_CASE("a thread that is off the CPU all the time is in the profile", "[kernel][beside]") {
    require_bpf();
    const Process process = hold({"burn", "1"});
    Profile profile({pid_option(process), "--format=json", "--type=offcpu"});
    const Json json = Json::parse(profile.finish());
    REQUIRE(json.at("stacks").size() == 1);
    CHECK(json.at("stacks")[0].at("kernel_stack") == Json({"[off the CPU all the time]"}));
    CHECK(json.at("stacks")[0].at("seconds") == json.at("seconds"));
    CHECK(json.at("stacks")[0].at("thread") == "stacks");
}

TEST_CASE("processes that live for a moment only are in a profile of what started them",
          "[kernel][beside]") {
    require_bpf();
    const Process shell({"sh", "-c", "echo waiting; while true; do sleep 0.05; echo slept; done"});
    shell.wait_for_output("waiting");
    Profile profile({pid_option(shell), "--format=json", "--type=page_faults"});
    const std::size_t before = count(shell.output(), "slept");
    eventually("some to have lived", [&] { return count(shell.output(), "slept") > before + 5; });
    const Json json = Json::parse(profile.finish());
    std::set<int> sleepers;
    for (const Json &stack : json.at("stacks")) {
        if (stack.at("pid") != shell.pid()) {
            sleepers.insert(stack.at("pid").get<int>());
        }
    }
    CHECK(sleepers.size() >= 3);
}

TEST_CASE("go tool pprof reads a profile", "[kernel][beside]") {
    require_bpf();
    const Process process = hold({"touch", "500"});
    Profile profile({pid_option(process), "--format=pprof", "--type=page_faults"});
    (void)work(process);
    (void)profile.finish();
    const Finished read = run({"go", "tool", "pprof", "-sample_index=page_faults", "-top",
                               "-nodecount=1000", profile.path()});
    INFO(read.output);
    CHECK(read.code == 0);
    CHECK(read.output.find("Type: page_faults") != std::string::npos);
    std::istringstream lines(read.output);
    bool is_found = false;
    for (std::string line; std::getline(lines, line);) {
        if (line.ends_with(" touch_pages")) {
            is_found = true;
            CHECK(std::stod(line) == 500);
        }
    }
    CHECK(is_found);
    // What has no name can be looked up by the build id of its file.
    const Finished raw = run({"go", "tool", "pprof", "-raw", profile.path()});
    CHECK(raw.code == 0);
    const Finished id = run({"readelf", "-n", standin("stacks")});
    const std::size_t at = id.output.find("Build ID: ");
    REQUIRE(at != std::string::npos);
    const std::string build_id = id.output.substr(at + 10, 40);
    CAPTURE(build_id, raw.output);
    CHECK(raw.output.find("standin_stacks " + build_id) + raw.output.find("stacks " + build_id) !=
          2 * std::string::npos);
}
