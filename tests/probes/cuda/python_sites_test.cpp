// Memory that programs of Python allocate, which say themselves at which lines.
#include <signal.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/harness/exporter.h"
#include "tests/harness/machine/directory.h"
#include "tests/harness/pin_directory.h"
#include "tests/harness/process.h"
#include "tests/harness/python_programs.h"
#include "tests/harness/pythons.h"

using namespace harness;
using Catch::Matchers::ContainsSubstring;
using SitesJson = nlohmann::json;

namespace {

SitesJson python_sites_json(const Exporter &exporter, pid_t pid) {
    const HttpAnswer answer =
        http(exporter.port(), "/api/v1/allocations?pid=" + std::to_string(pid));
    REQUIRE(answer.status == 200);
    const SitesJson processes = SitesJson::parse(answer.body).at("processes");
    return processes.empty() ? SitesJson::array() : processes[0].at("sites");
}

// By the document.
SiteSizes sizes_in(const SitesJson &sites) {
    SiteSizes sizes;
    for (const SitesJson &site : sites) {
        sizes[site.at("site")] += site.at("bytes").get<double>();
    }
    return sizes;
}

void wait_for_sites(const Exporter &exporter, const LeakingProgram &program) {
    eventually("its lines to be shown", [&] {
        const SiteSizes shown = sizes_on(exporter.scrape(), program.pid());
        UNSCOPED_INFO(SitesJson(shown).dump());
        return shown == program.sites();
    });
}

// The name of a place, without its file.
std::string innermost_of(const std::string &label) {
    return label.substr(0, label.find(" < "));
}

}  // namespace

TEST_CASE("memory is shown at the lines of Python that allocated it",
          "[kernel][core][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    const std::string interpreter = GENERATE(from_range(python_commands()));
    CAPTURE(mode, interpreter);
    const Exporter exporter(attached_by(mode) + finds_python);
    for (const std::string way : {"list", "thread", "server", "backward", "run_backward"}) {
        CAPTURE(way);
        const LeakingProgram program(interpreter, way);
        program.call(exporter);
        program.allocate();
        wait_for_sites(exporter, program);
        // The same lines again.
        program.go_on("allocated again\n");
        wait_for_sites(exporter, program);
        const SiteSizes said = program.sites();
        const std::string label = said.begin()->first;
        const SitesJson sites = python_sites_json(exporter, program.pid());
        CAPTURE(sites.dump(1));
        CHECK(sizes_in(sites) == said);
        CHECK_THAT(http(exporter.port(), "/").body, ContainsSubstring(innermost_of(label)));
        // Python's functions stand among the native ones, without the interpreter's loop.
        std::vector<std::string> places;
        for (const SitesJson &frame : sites[0].at("frames")) {
            const std::string function =
                frame.at("function").is_string() ? frame.at("function") : "";
            CHECK_FALSE(function.starts_with("_PyEval_EvalFrameDefault"));
            if (label.find(function) != label.npos && function.find(".py:") != function.npos) {
                places.push_back(function);
            }
        }
        std::string outwards;
        for (const std::string &place : places) {
            outwards += (outwards.empty() ? "" : " < ") + place;
        }
        CHECK((way.ends_with("backward") || outwards == label));
    }
}

// In one way only, on copies of the libraries: the exporter leaves detaching from them to its
// helper process.
TEST_CASE("by perf events, memory is shown at the lines of Python that allocated it",
          "[kernel][long]") {
    require_bpf();
    const TemporaryDirectory copies;
    copy_cuda_libraries(copies.path());
    Exporter exporter(attached_by("perf") + finds_python);
    const LeakingProgram program(python_commands().front(), "list",
                                 {{"LD_LIBRARY_PATH", copies.path().string()}}, {},
                                 copies / "libcudart.so.12");
    program.call(exporter);
    program.allocate();
    wait_for_sites(exporter, program);
    program.go_on("allocated again\n");
    wait_for_sites(exporter, program);
    exporter.end_by_perf();
}

TEST_CASE("functions of files that Python programs make have one name", "[kernel]") {
    require_bpf();
    const std::string interpreter = GENERATE(from_range(python_commands()));
    CAPTURE(interpreter);
    const Exporter exporter(finds_python);
    const LeakingProgram program(interpreter, "generated");
    program.call(exporter);
    program.allocate();
    wait_for_sites(exporter, program);
}

TEST_CASE("Python interpreters that mean to confuse have the right memory", "[kernel]") {
    require_bpf();
    const std::string interpreter = GENERATE(from_range(python_commands()));
    CAPTURE(interpreter);
    const Exporter exporter(finds_python);
    for (const std::string way : {"circle", "unmapped", "no_code", "deep"}) {
        CAPTURE(way);
        const LeakingProgram program(interpreter, way);
        program.call(exporter);
        program.allocate();
        wait_for_sites(exporter, program);
        program.go_on("allocated again\n");
        wait_for_sites(exporter, program);
    }
}

TEST_CASE("a function of Python that is gone lends its name to no other", "[kernel]") {
    require_bpf();
    const std::string interpreter = GENERATE(from_range(python_commands()));
    CAPTURE(interpreter);
    const Exporter exporter("cuda: {max_call_sites: 1000}\n" + finds_python);
    const LeakingProgram program(interpreter, "replaced");
    program.call(exporter);
    program.allocate();
    const SiteSizes said = program.sites();
    double total = 0;
    for (const auto &[label, size] : said) {
        total += size;
    }
    SiteSizes shown;
    eventually("all sites to have names", [&] {
        shown = sizes_on(exporter.scrape(), program.pid());
        double sum = 0;
        for (const auto &[label, size] : shown) {
            sum += size;
        }
        return sum == total;
    });
    for (const auto &[label, size] : shown) {
        CAPTURE(label, size);
        // A line is missing where the function went while it was read.
        const std::string innermost = innermost_of(label);
        CHECK((!label.starts_with("made_") || std::ranges::any_of(said, [&](const auto &one) {
            const std::string its = innermost_of(one.first);
            return one.second == size && (its == innermost || its.starts_with(innermost + ":"));
        })));
    }
}

TEST_CASE("a Python program that is refused GPU memory has the line that asked for it",
          "[kernel][modes]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes({"session", "multi"})));
    const std::string interpreter = GENERATE(from_range(python_commands()));
    CAPTURE(mode, interpreter);
    const Exporter exporter(attached_by(mode) + finds_python);
    const LeakingProgram program(interpreter, "refused",
                                 {{"STANDIN_MEMORY_LIMIT", std::to_string(1U << 20U)}});
    program.call(exporter);
    program.allocate();
    SitesJson events;
    eventually("the event", [&] {
        const HttpAnswer answer =
            http(exporter.port(), "/api/v1/out_of_memory?pid=" + std::to_string(program.pid()));
        REQUIRE(answer.status == 200);
        events = SitesJson::parse(answer.body).at("out_of_memory");
        return !events.empty();
    });
    CHECK(events[0].at("site") == program.sites().begin()->first);
}

TEST_CASE("with pins, lines of Python are known after a restart", "[kernel][modes]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes({"session", "multi"})));
    const std::string interpreter = GENERATE(from_range(python_commands()));
    CAPTURE(mode, interpreter);
    const PinDirectory pins;
    auto first = std::make_unique<Exporter>(pins.config(mode) + finds_python);
    const LeakingProgram list(interpreter, "list");
    list.call(*first);
    const LeakingProgram thread(interpreter, "thread");
    thread.call(*first);
    list.allocate();
    wait_for_sites(*first, list);
    first->process().signal(SIGKILL);
    (void)first->process().wait();
    thread.allocate();  // while no exporter runs
    const Exporter second(pins.config(mode) + finds_python);
    wait_for_sites(second, list);
    wait_for_sites(second, thread);
    list.go_on("allocated again\n");
    wait_for_sites(second, list);
}

TEST_CASE("without python_stacks, call sites have native functions only", "[kernel]") {
    require_bpf();
    const std::string interpreter = python_commands().front();
    const Exporter exporter("cuda: {python_stacks: false}\n");
    const LeakingProgram program(interpreter, "list");
    exporter.wait_until_attached_to(standin(cudart_of_python));
    program.go_on("called\n");
    program.allocate();
    eventually("a site to be shown",
               [&] { return !sizes_on(exporter.scrape(), program.pid()).empty(); });
    for (const auto &[label, size] : sizes_on(exporter.scrape(), program.pid())) {
        CHECK_THAT(label, !ContainsSubstring(".py:"));
    }
}
