#include "exporter/probes/host_time/recent.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <string>

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;
using Catch::Matchers::StartsWith;

namespace {

constexpr std::uint64_t second = 1'000'000'000;

class Program {
public:
    // A thread of the process that has been there for so long, and blocked for so much of it.
    void read(std::chrono::seconds wall, std::chrono::seconds in_pipe, std::uint64_t since = 1) {
        host_thread_record thread{};
        thread.process = {.since_ns = since, .tgid = 7, .reserved = 0};
        thread.times.wall_ns = static_cast<std::uint64_t>(wall.count()) * second;
        thread.times.off_ns[HOST_host][HOST_STATE_pipe] =
            static_cast<std::uint64_t>(in_pipe.count()) * second;
        aggregator_.on_reading({.past = {}, .threads = {thread}, .nodes = {0}});
        recent.on_reading(aggregator_, 1'000s + wall);
    }

    RecentTimes recent;

private:
    HostTimeAggregator aggregator_{{.budget = [](std::string_view) { return 1000; },
                                    .retention = std::chrono::seconds(60),
                                    .look_up = [](ProcessIdentity &) { return true; }}};
};

}  // namespace

TEST_CASE("the last minutes of a process are explained, not what was before") {
    Program program;
    program.read(10s, 0s);
    CHECK_FALSE(program.recent.sentence_of(7));  // nothing has happened since
    program.read(15s, 0s);
    CHECK_THAT(*program.recent.sentence_of(7),
               StartsWith("In the last 5 s: The host's own work is the limit"));
    CHECK_FALSE(program.recent.sentence_of(6));
    CHECK_FALSE(program.recent.sentence_of(8));
    program.read(75s, 0s);
    program.read(130s, 50s);
    CHECK_THAT(*program.recent.sentence_of(7), StartsWith("In the last 120 s: The host's own"));
    program.read(140s, 60s);  // the first of the marks is forgotten
    CHECK_THAT(*program.recent.sentence_of(7), StartsWith("In the last 65 s: Data is the limit"));
    // Another program in the same process.
    program.read(150s, 0s, 2);
    program.read(155s, 0s, 2);
    CHECK_THAT(*program.recent.sentence_of(7), StartsWith("In the last 5 s: The host's own"));
}
