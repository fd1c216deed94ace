// What programs do between two USDT probes, against the programs' own counts.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <filesystem>
#include <map>
#include <sstream>

#include "tests/harness/calls_truth.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"
#include "tests/probes/functions_reload.h"

using namespace harness;
namespace fs = std::filesystem;

namespace {

constexpr const char *duration_sum = "gpusnoop_function_duration_seconds_sum";

struct Passed {
    double calls = 0;
    double inside_seconds = 0;
    double around_seconds = 0;
};

// What `marked` prints.
std::map<std::string, Passed> parse(const std::string &output) {
    std::map<std::string, Passed> passed;
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string name;
        Passed one;
        if (words >> name >> one.calls >> one.inside_seconds >> one.around_seconds) {
            one.inside_seconds /= 1e9;
            one.around_seconds /= 1e9;
            passed[name] = one;
        }
    }
    return passed;
}

constexpr const char *marks = R"(
    marks:
      libraries: [marked]
      functions: [marked_step]
      usdt:
        - {name: plain, provider: marked, begin: plain__begin, end: plain__end}
        - {name: guarded, provider: marked, begin: guarded__begin, end: guarded__end}
        - {name: held, provider: marked, begin: held__begin, end: held__end}
        - {name: inner, provider: marked, begin: inner__begin, end: inner__end}
        - {name: again, provider: marked, begin: again__begin, end: again__end}
)";

void check_passed(const Exporter &exporter, const std::map<std::string, Passed> &passed) {
    REQUIRE(passed.size() == 5);
    for (const auto &[name, truth] : passed) {
        CAPTURE(name);
        const Labels of = {{"comm", "marked"}, {"function", name}};
        const Page page = exporter.wait_for(calls_total, of, truth.calls);
        CHECK(page.sum("gpusnoop_function_duration_seconds_count", of) == truth.calls);
        CHECK(page.sum(duration_sum, of) >= truth.inside_seconds);
        CHECK(page.sum(duration_sum, of) <= truth.around_seconds);
    }
}

// A program whose file name is the interpreter's, if it has the probes of python.
std::string python_with_probes() {
    const std::string python = fs::canonical("/usr/bin/python3");
    if (run({"readelf", "-n", python}).output.find("gc__start") == std::string::npos) {
        missing("a python3 with USDT probes");
    }
    return python;
}

constexpr const char *python_group = R"(
    interpreter:
      libraries: ["libpython3*.so*", "python3.[0-9]", "python3.[0-9][0-9]"]
      functions:
        - {name: gil_wait, symbol: PyEval_RestoreThread, endings: returns}
        - {name: gil_wait, symbol: PyEval_AcquireThread, endings: returns}
      usdt: [{name: gc, provider: python, begin: gc__start, end: gc__done}]
)";

}  // namespace

TEST_CASE("what a program does between USDT probes is counted, with semaphores and without",
          "[kernel][modes]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    std::string semaphores;
    const Process program({standin("marked"), "4", "300"});
    {
        const Exporter exporter(only_groups(mode) + marks);
        exporter.wait_until_attached_to(standin("marked"));
        program.wait_for_output("ready");
        program.signal(SIGUSR1);
        program.wait_for_output("semaphores");
        const auto passed = parse(program.output());
        REQUIRE(passed.at("plain").calls == 1200);
        REQUIRE(passed.at("guarded").calls == 1200);
        check_passed(exporter, passed);
        CHECK(calls(exporter.scrape(), "marked", "marked_step") == 3600);
        CHECK(program.output().find("semaphores 1 1\n") != std::string::npos);
        // Each that never ended is stale.
        check_account_at_rest(exporter);
    }
    program.wait_for_output("ready");
    program.signal(SIGUSR1);
    program.wait_for_output("semaphores 0 0\n");
}

TEST_CASE("a file without a USDT probe is a failure of its own, and its functions are counted",
          "[kernel]") {
    require_bpf();
    const Exporter exporter(only_groups("auto") + R"(
    lacks:
      libraries: [marked]
      functions: [marked_step]
      usdt: [{name: gc, provider: marked, begin: gc__start, end: plain__end}]
)");
    const Process program({standin("marked"), "1", "100"});
    exporter.wait_until_attached_to(standin("marked"));
    program.wait_for_output("ready");
    program.signal(SIGUSR1);
    program.wait_for_output("semaphores 0 0\n");
    const Page page =
        exporter.wait_for(calls_total, {{"comm", "marked"}, {"function", "marked_step"}}, 300);
    CHECK_FALSE(page.has(calls_total, {{"comm", "marked"}, {"function", "gc"}}));
    CHECK(page.sum("gpusnoop_probe_attach_failures_total",
                   {{"probe", "functions"}, {"reason", "no_probe"}}) == 1);
    CHECK(exporter.log().find("marked:gc__start") != std::string::npos);
}

TEST_CASE("USDT probes come and go with a reload", "[kernel][modes]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const std::string without = only_groups(mode) + R"(
    marks: {libraries: [marked], functions: [marked_step]}
)";
    Exporter exporter(without);
    const Process first({standin("marked"), "2", "100"});
    exporter.wait_until_attached_to(standin("marked"));
    reload_by_signal(exporter, only_groups(mode) + marks);
    first.wait_for_output("ready");
    first.signal(SIGUSR1);
    first.wait_for_output("semaphores 1 1\n");
    auto passed = parse(first.output());
    check_passed(exporter, passed);

    reload_by_signal(exporter, without);
    const Process second({standin("marked"), "2", "100"});
    second.wait_for_output("ready");
    second.signal(SIGUSR1);
    second.wait_for_output("semaphores");
    const Page page =
        exporter.wait_for(calls_total, {{"comm", "marked"}, {"function", "marked_step"}}, 1200);
    CHECK(calls(page, "marked", "plain") == passed.at("plain").calls);
    CHECK(calls(page, "marked", "guarded") == passed.at("guarded").calls);
}

TEST_CASE("garbage collections of Python are those that it tells its callbacks",
          "[kernel][modes]") {
    require_bpf();
    const std::string python = python_with_probes();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const TemporaryDirectory directory;
    const fs::path script = directory / "collects.py";
    // Those before the callback was there are known from the statistics.
    write_file(script, R"(
import gc, signal
def done():
    return sum(generation["collections"] for generation in gc.get_stats())
collections = 0
def note(phase, info):
    global collections
    collections += phase == "start"
gc.disable()
before = done()
gc.callbacks.append(note)
gc.enable()
kept = []
for i in range(200000):
    kept.append([i])
    if i % 5000 == 0:
        gc.collect()
        kept = []
gc.disable()
assert done() == before + collections
print("collections", before, collections, "done", flush=True)
signal.pause()
)");
    const Exporter exporter(only_groups(mode) + python_group);
    const Process holder({python, "-c", "import signal; signal.pause()"});
    exporter.wait_until_attached_to(python);
    const Process process({python, script});
    process.wait_for_output("done");
    std::string word;
    double before = 0;
    double collections = 0;
    std::istringstream(process.output()) >> word >> before >> collections;
    REQUIRE(collections > 100);
    (void)exporter.wait_for(calls_total, {{"script", "collects.py"}, {"function", "gc"}},
                            before + collections);
}
