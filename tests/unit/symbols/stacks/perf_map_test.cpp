// Names of code that a program makes while it runs.
#include "exporter/symbols/stacks/perf_map.h"

#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <stop_token>
#include <string>
#include <vector>

#include "exporter/base/fd.h"
#include "tests/unit/symbols/own_process.h"

using namespace gpusnoop;
using namespace gpusnoop::symbols;
using namespace gpusnoop::test;

namespace {

std::map<std::uint64_t, FunctionAt> found_in(const std::string &text,
                                             const std::vector<std::uint64_t> &addresses) {
    const Fd file(::memfd_create("map", MFD_CLOEXEC));
    REQUIRE(::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    return functions_in_perf_map(file.get(), addresses);
}

}  // namespace

TEST_CASE("a perf map names the code between its bounds") {
    const auto found = found_in(
        "7f0000001000 40 py::train:/app/train.py\n"
        "0x7f0000002000 0x10 LazyCompile:~step /app/a b.js:3\n"
        "7f0000003000 10 last",  // without the end of its line
        {0x7f0000000fff, 0x7f0000001000, 0x7f000000103f, 0x7f0000001040, 0x7f0000002008,
         0x7f000000300f});
    CHECK(found.size() == 6);
    CHECK(found.at(0x7f0000000fff).name.empty());
    CHECK(found.at(0x7f0000001000).name == "py::train:/app/train.py");
    CHECK(found.at(0x7f000000103f).name == "py::train:/app/train.py");
    CHECK(found.at(0x7f000000103f).offset == 0x3f);
    CHECK(found.at(0x7f0000001040).name.empty());
    CHECK(found.at(0x7f0000002008).name == "LazyCompile:~step /app/a b.js:3");
    CHECK(found.at(0x7f000000300f).name == "last");
}

TEST_CASE("of code that made room for other code, the later name counts") {
    CHECK(found_in("1000 100 old\n1000 20 new\n", {0x1010}).at(0x1010).name == "new");
    CHECK(found_in("1000 100 old\n1000 20 new\n", {0x1080}).at(0x1080).name == "old");
}

TEST_CASE("a perf map of nonsense names nothing, and harms nobody") {
    const std::vector<std::uint64_t> asked = {0x1000, ~std::uint64_t{0}};
    const std::string large(200'000, 'f');
    for (const std::string &text :
         {std::string(), std::string("\n\n\n"), std::string("1000"), std::string("1000 "),
          std::string("1000 10"), std::string("zz 10 name\n"), std::string("1000 -1 name\n"),
          std::string("1000 0 name\n"), std::string("1000,10,name\n"), large + " 10 name\n",
          std::string("0x0x1000 10 name\n"), std::string(70'000, '\0')}) {
        for (const auto &[address, function] : found_in(text, asked)) {
            CHECK(function.name.empty());
        }
    }
    // A function without end has all that follows; its name is bounded, and valid.
    const auto found = found_in("1 ffffffffffffffff \xff\x1b" + large + "\n2 1 next\n", asked);
    CHECK(found.at(0x1000).name.size() <= 200);
    CHECK(found.at(0x1000).name.starts_with("\xEF\xBF\xBD\xEF\xBF\xBD"));
    CHECK(found.at(~std::uint64_t{0}).name == found.at(0x1000).name);
}

TEST_CASE("a perf map is not read after the work was to stop") {
    const Fd file(::memfd_create("map", MFD_CLOEXEC));
    REQUIRE(::write(file.get(), "1000 100 name\n", 14) == 14);
    const std::vector<std::uint64_t> asked = {0x1010};
    std::stop_source stop;
    CHECK(functions_in_perf_map(file.get(), asked, {stop.get_token()}).at(0x1010).name == "name");
    stop.request_stop();
    CHECK(functions_in_perf_map(file.get(), asked, {stop.get_token()}).at(0x1010).name.empty());
}

TEST_CASE("the name of a process's perf map has its id in its own namespace") {
    CHECK(perf_map_path(own_tgid()) == "/tmp/perf-" + std::to_string(own_tgid()) + ".map");
}
