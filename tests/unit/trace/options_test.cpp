// The options that only some traces have.
#include "exporter/trace/trace.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

using namespace gpusnoop::trace;
using namespace std::chrono_literals;

TEST_CASE("an option of a trace has the texts that were given for it") {
    constexpr Option flag = {.name = "--flag", .help = ""};
    constexpr Option name = {.name = "--name", .takes = Option::Takes::texts, .help = ""};
    constexpr Option time = {.name = "--time", .takes = Option::Takes::duration, .help = ""};
    Options options;
    for (const Option &option : {flag, name, time}) {
        CHECK_FALSE(options.has(option));
        CHECK(options.texts(option).empty());
        CHECK_FALSE(options.duration_of(option));
    }
    options.given = {{flag.name, {}}, {name.name, {"a", "b"}}, {time.name, {"5m"}}};
    CHECK(options.has(flag));
    CHECK(options.texts(flag).empty());
    CHECK(options.texts(name) == std::vector<std::string>{"a", "b"});
    CHECK(options.duration_of(time) == 5min);
}
