// The stacks of call sites in the memory that there is for them.
#include "exporter/probes/frame/allocations/site_stacks.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exporter/probes/frame/allocations/call_sites.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using symbols::Frame;

namespace {

// About 1000 bytes.
std::vector<Frame> large_stack(const std::string &of) {
    return {{of + std::string(500, 'f'), "program", 1}, {"main", "program", 2}};
}

std::vector<std::string> functions_of(const SharedStack &stack) {
    std::vector<std::string> functions;
    for (const Frame &frame : frames_of(stack)) {
        functions.push_back(frame.function);
    }
    return functions;
}

struct LimitedSites {
    std::map<ProcessKey, ProcessSites> processes;
    SiteNames names{{.find = [this](const ProcessKey &key) { return &processes[key]; },
                     .forget_stack = [](std::int32_t) {},
                     .label_of = [](const auto &frames) { return frames.at(0).function; }},
                    {.bytes = 3'500, .bytes_of_user = 1'500}};

    // The name of a new site of the process.
    const SiteName &add(std::uint32_t pid, std::uint32_t uid, std::uint64_t caller,
                        std::vector<Frame> frames) {
        ProcessIdentity process;
        process.key = {pid, 1};
        process.uid = uid;
        const Site site{.stack = -1, .caller = caller};
        const auto ticket = names.used(processes[process.key], process, site);
        REQUIRE(ticket.has_value());
        names.on_name({.ticket = *ticket, .frames = std::move(frames)});
        return processes[process.key].name_of(site);
    }
};

}  // namespace

TEST_CASE("a site's stack is what came for it, also where others share its functions") {
    LimitedSites sites;
    const std::vector<Frame> frames = {{"f", "liba.so", 1}, {"f", "liba.so", 1}, {"", "", 7}};
    const SharedStack one = sites.add(1, 1000, 1, frames).stack;
    const SharedStack other = sites.add(1, 1000, 2, {{"g", "liba.so", 1}, frames[0]}).stack;
    REQUIRE(one != nullptr);
    REQUIRE(other != nullptr);
    CHECK(functions_of(one) == std::vector<std::string>{"f", "f", ""});
    CHECK(functions_of(other) == std::vector<std::string>{"g", "f"});
    CHECK((*one)[0] == (*other)[1]);
    CHECK(frames_of(one).at(2).offset == 7);
    CHECK(frames_of(nullptr).empty());
}

TEST_CASE("stacks of one user leave room for those of others, and their sites keep their labels") {
    LimitedSites sites;
    CHECK(sites.add(1, 1000, 1, large_stack("a")).stack != nullptr);
    const SiteName &refused = sites.add(2, 1000, 1, large_stack("b"));
    CHECK(refused.stack == nullptr);
    CHECK(refused.label.starts_with("bfff"));
    // The same functions again take little.
    CHECK(sites.add(1, 1000, 2, large_stack("a")).stack != nullptr);
    CHECK(sites.add(3, 2000, 1, large_stack("c")).stack != nullptr);
    // All processes of root share what is left.
    CHECK(sites.add(4, 0, 1, large_stack("d")).stack != nullptr);
    CHECK(sites.add(4, 0, 2, large_stack("e")).stack == nullptr);
}

TEST_CASE("sites that are forgotten, and processes that end, give the room for stacks back") {
    LimitedSites sites;
    std::uint64_t caller = 100;
    const auto has_room = [&] {
        return sites.add(9, 1000, caller++, large_stack("x")).stack != nullptr;
    };
    CHECK(sites.add(1, 1000, 1, large_stack("a")).stack != nullptr);
    CHECK_FALSE(has_room());
    const SharedStack shown = sites.processes[{1, 1}].name_of({.stack = -1, .caller = 1}).stack;
    for (int looks = 0; looks < 2; looks++) {
        SiteNames::forget_idle(sites.processes[{1, 1}], [](const Site &) { return false; });
    }
    CHECK(functions_of(shown).at(1) == "main");  // a document may still have it
    CHECK_FALSE(has_room());
    CHECK(sites.add(1, 1000, 2, {{"small", "program", 1}}).stack != nullptr);
    sites.processes.erase({1, 1});
    CHECK(has_room());
    sites.processes.erase({9, 1});
    CHECK(sites.add(1, 1000, 1, large_stack("a")).stack != nullptr);
}
