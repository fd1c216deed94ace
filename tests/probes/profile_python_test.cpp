// Profiles of Python programs that know in which of their functions they spend their time.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/harness/exporter.h"
#include "tests/harness/process.h"
#include "tests/harness/pythons.h"
#include "tests/probes/host/time.h"
#include "tests/probes/profiles.h"

using namespace harness;
using namespace harness::profiles;

namespace {

Process profile_python_start(const std::string &interpreter, const std::vector<std::string> &words,
                             std::vector<std::string> command = {}) {
    for (std::string &word : python_words(interpreter)) {
        command.push_back(std::move(word));
    }
    if (!std::filesystem::exists(command.back())) {
        missing(command.back());
    }
    command.emplace_back(GPUSNOOP_SOURCE_DIR "/tests/fakes/host/profiled.py");
    command.insert(command.end(), words.begin(), words.end());
    return hold_program(command);
}

// Python's functions, outermost first: "main < Work.burn".
std::string chain(const Json &stack) {
    std::string text;
    for (const Json &frame : stack.at("stack")) {
        const std::string function = frame.at("function").is_string() ? frame.at("function") : "";
        if (frame.at("module") == "profiled.py") {
            CHECK(function.starts_with("profiled.py:"));
            text = function.substr(12) + (text.empty() ? "" : " > ") + text;
        }
    }
    return text;
}

// Samples, or seconds, by the chain.
std::map<std::string, double> by_chain(const Json &profile, const std::string &member) {
    std::map<std::string, double> sums;
    for (const Json &stack : profile.at("stacks")) {
        sums[chain(stack)] += stack.at(member).get<double>();
    }
    return sums;
}

}  // namespace

TEST_CASE("samples of a Python program are in the functions that burn the time",
          "[kernel][beside]") {
    require_bpf();
    const std::string interpreter = GENERATE(from_range(python_commands()));
    const std::string way = GENERATE("burn", "callback", "threads");
    CAPTURE(interpreter, way);
    const Process process = profile_python_start(interpreter, {way, "1200"});
    Profile profile({pid_option(process), "--format=json", "--frequency=199"});
    auto said = work(process);
    const Json json = Json::parse(profile.finish());
    CHECK(json.at("samples_lost") == 0);
    CHECK(json.at("stacks_lost") == 0);
    const std::map<std::string, std::pair<std::string, std::string>> chains = {
        {"burn", {"Work.burn > Work.burn_one", "Work.burn > Work.burn_three"}},
        {"callback",
         {"Work.callback > Work.callback.<locals>.größe > Work.burn_one",
          "Work.callback > Work.callback.<locals>.größe > Work.burn_three"}},
        {"threads",
         {"Work.threads.<locals>.other > Work.burn_one", "Work.threads > Work.burn_three"}}};
    const std::string before = way == "threads" ? "" : "<module> > main > ";
    const std::string before_three = "<module> > main > ";
    double one = 0;
    double three = 0;
    double all = 0;
    for (const auto &[functions, samples] : by_chain(json, "samples")) {
        CAPTURE(functions);
        all += samples;
        // The time between the functions is none.
        one += functions.starts_with(before + chains.at(way).first) ? samples : 0;
        three += functions.starts_with(before_three + chains.at(way).second) ? samples : 0;
    }
    const double burned = said["one"] + said["three"];
    CAPTURE(one, three, all, said["one"], said["three"], json.dump());
    CHECK(one + three >= least_samples(burned));
    CHECK(one + three <= 1.1 * 199 * burned / 1e9 + 5);
    CHECK(one + three >= 0.97 * all - 3);
    const double share = said["three"] / burned;
    const double deviation = std::sqrt(share * (1 - share) / (one + three));
    CHECK(std::abs(three / (one + three) - share) <= 3.3 * deviation);
}

TEST_CASE("a Python thread sleeps in the function that sleeps", "[kernel][beside]") {
    require_bpf();
    const std::string interpreter = GENERATE(from_range(python_commands()));
    CAPTURE(interpreter);
    const Process process = profile_python_start(interpreter, {"nap", "500"});
    Profile profile({pid_option(process), "--format=json", "--type=offcpu"});
    auto said = work(process);
    const Json json = Json::parse(profile.finish());
    const auto seconds = by_chain(json, "seconds");
    CAPTURE(json.dump(), said["nap"]);
    REQUIRE(seconds.contains("<module> > main > Work.nap"));
    CHECK(host_time::is_near(seconds.at("<module> > main > Work.nap"), said["nap"] / 1e9,
                             in_guest() ? 0.25 : 0));
    REQUIRE(seconds.contains("<module> > main > wait"));
}

TEST_CASE("a Python thread that is off the CPU all the time shows its functions and lines",
          "[kernel][beside]") {
    require_bpf();
    const std::string interpreter = GENERATE(from_range(python_commands()));
    CAPTURE(interpreter);
    std::vector<std::string> command = python_words(interpreter);
    if (!std::filesystem::exists(command.back())) {
        missing(command.back());
    }
    command.insert(command.end(), {GPUSNOOP_SOURCE_DIR "/tests/fakes/hangs/hangs.py", "callback"});
    const Process process(std::move(command));
    process.wait_for_output("hanging");
    const std::string output = process.output();
    const std::size_t at = output.find("at ") + 3;
    const auto places = python_words(output.substr(at, output.find('\n', at) - at));
    // It may not sleep yet when a profile begins.
    Json motionless;
    eventually("the thread to be off the CPU all the time", [&] {
        Profile profile({pid_option(process), "--format=json", "--type=offcpu"});
        const Json json = Json::parse(profile.finish());
        for (const Json &stack : json.at("stacks")) {
            if (stack.at("kernel_stack") == Json({"[off the CPU all the time]"})) {
                motionless = stack;
            }
        }
        return !motionless.is_null();
    });
    std::vector<std::string> found;
    for (const Json &frame : motionless.at("stack")) {
        found.push_back(frame.at("function"));
    }
    CHECK(found == places);
}

TEST_CASE("a Python program begins while it is profiled", "[kernel][beside]") {
    require_bpf();
    const std::string interpreter = GENERATE(from_range(python_commands()));
    CAPTURE(interpreter);
    const std::string program = GPUSNOOP_SOURCE_DIR "/tests/fakes/host/profiled.py";
    const Process process(
        {"sh", "-c", "echo waiting; sleep 1; exec " + interpreter + " " + program + " burn 4000"});
    process.wait_for_output("waiting");
    Profile profile({pid_option(process), "--format=json", "--frequency=199"});
    eventually("the program to wait", [&] {
        return process.output().find("waiting") != process.output().rfind("waiting");
    });
    process.signal(SIGUSR1);
    process.wait_for_output("three ");
    const Json json = Json::parse(profile.finish());
    double burned = 0;
    for (const auto &[functions, samples] : by_chain(json, "samples")) {
        burned += functions.find("Work.burn > Work.burn_") != std::string::npos ? samples : 0;
    }
    CAPTURE(json.dump());
    CHECK(burned >= least_samples(4e9 - 2e9));  // it may be found a second after its begin
}

TEST_CASE("a Python program with ids of its own, as in a container, shows its functions",
          "[kernel][beside]") {
    require_bpf();
    const std::string interpreter = GENERATE(from_range(python_commands()));
    CAPTURE(interpreter);
    const Process process = profile_python_start(interpreter, {"threads", "1000"},
                                                 {"unshare", "--pid", "--fork", "--kill-child"});
    const Finished found = run({"pgrep", "--parent", std::to_string(process.pid())});
    REQUIRE(found.code == 0);
    const std::string program = found.output.substr(0, found.output.find('\n'));
    Profile profile({"--pid=" + program, "--format=json", "--frequency=199"});
    REQUIRE(run({"kill", "-USR1", program}).code == 0);
    process.wait_for_output("three ");
    const Json json = Json::parse(profile.finish());
    double one = 0;
    double three = 0;
    for (const auto &[functions, samples] : by_chain(json, "samples")) {
        one += functions.starts_with("Work.threads.<locals>.other > Work.burn_one") ? samples : 0;
        three +=
            functions.starts_with("<module> > main > Work.threads > Work.burn_three") ? samples : 0;
    }
    CAPTURE(one, three, json.dump());
    CHECK(one >= least_samples(0.25e9));
    CHECK(three >= least_samples(0.75e9));
}

TEST_CASE("a Python program with twenty other files of its interpreter's name shows its functions",
          "[kernel][beside]") {
    require_bpf();
    const std::string interpreter = GENERATE(from_range(python_commands()));
    CAPTURE(interpreter);
    const TemporaryDirectory directory;
    std::vector<std::string> words = {"burn", "800"};
    for (int i = 0; i < 20; i++) {
        words.push_back((directory / ("libpython3." + std::to_string(i) + ".so")).string());
        std::filesystem::copy_file(standin("libcalls.so.1"), words.back());
    }
    const Process process = profile_python_start(interpreter, words);
    Profile profile({pid_option(process), "--format=json", "--frequency=199"});
    auto said = work(process);
    const Json json = Json::parse(profile.finish());
    double burned = 0;
    for (const auto &[functions, samples] : by_chain(json, "samples")) {
        burned += functions.find("Work.burn > Work.burn_") != std::string::npos ? samples : 0;
    }
    CAPTURE(json.dump());
    CHECK(burned >= least_samples(said["one"] + said["three"]));
}
