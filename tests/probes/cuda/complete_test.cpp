// Whether the page says that a process may hold more than what is shown.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/harness/counting.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/cuda_workload.h"
#include "tests/harness/exporter.h"

using namespace harness;

namespace {

void wait_for_completeness(const Exporter &exporter, const Process &process,
                           const std::string &is_complete) {
    (void)exporter.wait_for("gpusnoop_process_info",
                            {{"pid", std::to_string(process.pid())}, {"complete", is_complete}}, 1);
}

std::string completeness_of(const Page &page, const Process &process) {
    const auto samples =
        page.samples("gpusnoop_process_info", {{"pid", std::to_string(process.pid())}});
    return samples.size() == 1 ? samples[0].labels.at("complete") : "no sample";
}

Process steps(const std::filesystem::path &truth, const std::string &comm,
              std::vector<std::string> more) {
    std::vector<std::string> command = {standin("steps"), "name", comm};
    command.insert(command.end(), more.begin(), more.end());
    return Process(command, {{"STANDIN_TRUTH_DIR", truth.string()}});
}

double held(const TemporaryDirectory &directory, const std::string &comm) {
    return number(truth_of(directory.path(), comm).all_memory().outstanding_bytes);
}

// To the runtime and the driver in every mode, as a driver's calls decide, too.
std::string attached_to_all_by(const std::string &mode) {
    return "cuda: {attach: " + mode + "}\n";
}

}  // namespace

TEST_CASE("what ran before the exporter is a lower bound, and nothing else is",
          "[kernel][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const TemporaryDirectory directory;
    const Process older = steps(directory.path(), "older",
                                {"allocate", "8", "1000", "wait", "allocate", "2", "1000", "wait"});
    older.wait_for_output("waiting 1");
    const Exporter exporter(attached_to_all_by(mode));
    exporter.wait_until_attached_to(standin("driver/libcuda.so.1"));
    const Process younger =
        steps(directory.path(), "younger", {"allocate", "8", "1000", "wait", "wait"});
    younger.wait_for_output("waiting 1");
    older.go_on_to(2);
    wait_for_completeness(exporter, older, "false");
    wait_for_completeness(exporter, younger, "true");

    // Another file's probes say nothing about processes that do not use it.
    const Process other({standin("workload_static"), "--iterations", "1", "--hold"});
    exporter.wait_until_attached_to(standin("workload_static"));
    const Page page =
        exporter.wait_for("gpusnoop_process_info", {{"pid", std::to_string(other.pid())}}, 1);
    CHECK(completeness_of(page, other) == "true");  // its driver's calls were all seen
    CHECK(completeness_of(page, older) == "false");
    CHECK(completeness_of(page, younger) == "true");
    CHECK(outstanding(page, older.pid()) == 2 * 1000);
    CHECK(held(directory, "older") == 10 * 1000);
    CHECK(outstanding(page, younger.pid()) == held(directory, "younger"));

    const auto document = nlohmann::json::parse(http(exporter.port(), "/api/v1/allocations").body);
    for (const auto &process : document.at("processes")) {
        if (process.at("pid") == older.pid() || process.at("pid") == younger.pid()) {
            CHECK(process.at("complete") == (process.at("pid") == younger.pid()));
        }
    }
}

TEST_CASE("a runtime that is not attached to yet hides nothing from the driver's probes",
          "[kernel][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const Exporter exporter(attached_to_all_by(mode));
    const Process holder = hold(exporter);
    const TemporaryDirectory directory;
    std::filesystem::create_directory(directory / "truth");
    std::filesystem::copy_file(standin("12/libcudart.so.12"), directory / "libcudart.so.12");
    const Process first({standin("steps"), "name", "first", "allocate", "100", "1000", "wait"},
                        {{"STANDIN_TRUTH_DIR", (directory / "truth").string()},
                         {"LD_LIBRARY_PATH", directory.path().string()}});
    first.wait_for_output("waiting 1");
    exporter.wait_until_attached_to(directory / "libcudart.so.12");
    wait_for_completeness(exporter, first, "true");
    CHECK(outstanding(exporter.scrape(), first.pid()) == 100 * 1000);
}

TEST_CASE("an exporter that is killed while programs allocate says whose memory it knows in part",
          "[kernel][modes]") {
    require_bpf();
    // Not by perf: the kernel takes a minute to detach from the exporter that was killed.
    const std::string mode = GENERATE(from_range(attach_modes({"session", "multi"})));
    CAPTURE(mode);
    const TemporaryDirectory directory;
    auto first = std::make_unique<Exporter>(attached_to_all_by(mode));
    const Process holder = hold(*first);
    // It works until it is told to stop.
    const Process busy = start(directory.path(), {"--everything", "--threads", "4", "--seconds",
                                                  "600", "--rate", "8000", "--name", "busy"});
    eventually("the program to be in the middle of its work",
               [&] { return outstanding(first->scrape(), busy.pid()) > 0; });
    first->process().signal(SIGKILL);
    (void)first->process().wait();

    const Exporter second(attached_to_all_by(mode));
    second.wait_until_attached_to(standin("driver/libcuda.so.1"));
    const Process after = start(directory.path(), {"--everything", "--threads", "4", "--iterations",
                                                   "100", "--name", "after"});
    after.wait_for_output("holding");
    wait_for_completeness(second, after, "true");
    wait_for_completeness(second, busy, "false");
    eventually("memory of the program to be seen again",
               [&] { return outstanding(second.scrape(), busy.pid()) > 0; });
    busy.signal(SIGUSR1);
    busy.wait_for_output("holding");
    check_outstanding(second.scrape(), truth_of(directory.path(), "after"));
    CHECK(outstanding(second.scrape(), busy.pid()) <= held(directory, "busy"));
}
