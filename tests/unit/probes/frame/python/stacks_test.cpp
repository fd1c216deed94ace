// Python's functions and lines of running interpreters, which say themselves where they are.
#include "exporter/probes/frame/python/stacks.h"

#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/harness/pythons.h"
#include "tests/unit/probes/frame/python/hanging_python.h"
#include "tests/unit/symbols/stacks/proc_mapped_files.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;

namespace {

// Those of the program itself.
std::vector<std::string> places_in(const std::vector<PythonFrame> &frames) {
    std::vector<std::string> places;
    for (const PythonFrame &frame : frames) {
        if (frame.function.module == "hangs.py") {
            places.push_back(frame.function.function);
        }
    }
    return places;
}

std::vector<PythonFrame> frames_of(const HangingPython &python) {
    test::MappedFilesCounts counts;
    test::ProcMappedFiles files(counts);
    return PythonStacks(files, {}).of(python.tgid, python.tid);
}

}  // namespace

#if defined(__x86_64__)

TEST_CASE("a Python thread that hangs shows its functions and the lines of their calls") {
    const std::string interpreter = GENERATE(from_range(harness::python_commands()));
    const std::string way =
        GENERATE("main", "callback", "generator", "thread", "fork", "fork_thread", "deep");
    CAPTURE(interpreter, way);
    if (!std::filesystem::exists(harness::python_words(interpreter).back())) {
        SKIP("scripts/setup.sh --tests has not unpacked it");
    }
    const HangingPython python(interpreter, way);
    std::vector<PythonFrame> frames;
    for (int tries = 0; tries < 1'000; tries++) {
        frames = frames_of(python);
        if (const auto places = places_in(frames);
            !places.empty() && places.front() == python.places.front()) {
            break;  // the call has begun
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    auto places = places_in(frames);
    if (way == "deep") {
        CHECK(frames.size() == max_python_calls);
        places.resize(python.places.size());
    }
    CHECK(places == python.places);
    REQUIRE_FALSE(frames.empty());
    const bool begins_python = way != "deep" || interpreter.ends_with("python3.10");
    CHECK(frames.back().is_called_by_c == begins_python);
    // sorted() is C, which has called the innermost.
    const bool is_own_run = way == "callback" || interpreter.ends_with("python3.10");
    CHECK(frames.front().is_called_by_c == is_own_run);
}

TEST_CASE("a process that is not Python is asked for its mappings once") {
    test::MappedFilesCounts counts;
    test::ProcMappedFiles files(counts);
    PythonStacks stacks(files, {});
    const auto own = static_cast<std::uint32_t>(::getpid());
    CHECK(stacks.of(own, own).empty());
    CHECK(stacks.of(own, own).empty());
    CHECK(counts.lists == 1);
    CHECK(counts.opened == 0);
}

TEST_CASE("nothing of Python is read beyond the limit") {
    test::MappedFilesCounts counts;
    test::ProcMappedFiles files(counts);
    PythonStacks stacks(files, {.until = std::chrono::steady_clock::now()});
    const auto own = static_cast<std::uint32_t>(::getpid());
    CHECK(stacks.of(own, own).empty());
    CHECK(counts.lists == 0);
}

#endif
