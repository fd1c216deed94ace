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
    Program() {
        aggregator_.name_functions([](std::uint16_t number) {
            return std::string_view(number == 3 ? "cudaDeviceSynchronize" : "");
        });
    }

    // A thread of the process that has been there for so long, and blocked for so much of it. It
    // has launched something since, but for a thread that has become idle; and it has been inside
    // of a call for so long.
    void read(std::chrono::seconds wall, std::chrono::seconds in_pipe, std::uint64_t since = 1,
              bool is_idle = false, std::chrono::seconds in_call = 0s) {
        host_thread_record thread{};
        thread.process = {.since_ns = since, .tgid = 7, .reserved = 0};
        thread.times.wall_ns = static_cast<std::uint64_t>(wall.count()) * second;
        thread.times.off_ns[HOST_host][HOST_STATE_pipe] =
            static_cast<std::uint64_t>(in_pipe.count()) * second;
        thread.call_ns = static_cast<std::uint64_t>(in_call.count()) * second;
        thread.function = 3;
        thread.of_device.gaps[HOST_DRAIN_none][0] = launches_ += is_idle ? 0 : 1;
        HostTimeReading reading;
        reading.threads = {thread};
        reading.nodes = {0};
        aggregator_.on_reading(reading);
        recent.on_reading(aggregator_, 1'000s + wall);
    }

    RecentTimes recent;

private:
    std::uint64_t launches_ = 0;
    HostTimeAggregator aggregator_{{.budget = [](std::string_view) { return 1000; },
                                    .retention = std::chrono::seconds(60),
                                    .look_up = [](ProcessIdentity &) { return true; }}};
};

}  // namespace

TEST_CASE("the last minutes of a process are explained, not what was before") {
    Program program;
    program.read(10s, 0s);
    CHECK_FALSE(program.recent.verdict_of(7));  // nothing has happened since
    program.read(15s, 0s);
    CHECK_THAT(program.recent.verdict_of(7)->sentence,
               StartsWith("In the last 5 s: Host code is the limit"));
    CHECK_FALSE(program.recent.verdict_of(6));
    CHECK_FALSE(program.recent.verdict_of(8));
    program.read(75s, 0s);
    program.read(130s, 50s);
    CHECK_THAT(program.recent.verdict_of(7)->sentence, StartsWith("In the last 120 s: Host code"));
    program.read(140s, 60s);  // the first of the marks is forgotten
    CHECK_THAT(program.recent.verdict_of(7)->sentence,
               StartsWith("In the last 65 s: Data is the limit"));
    // Another program in the same process.
    program.read(150s, 0s, 2);
    program.read(155s, 0s, 2);
    CHECK_THAT(program.recent.verdict_of(7)->sentence, StartsWith("In the last 5 s: Host code"));
}

TEST_CASE("a process that has launched nothing in the last minutes is idle") {
    Program notebook;
    notebook.read(10s, 0s);
    notebook.read(70s, 60s);
    CHECK_THAT(notebook.recent.verdict_of(7)->sentence,
               StartsWith("In the last 60 s: Data is the limit"));
    notebook.read(130s, 120s, 1, true);
    notebook.read(140s, 130s, 1, true);
    CHECK_THAT(notebook.recent.verdict_of(7)->sentence,
               StartsWith("In the last 70 s: The program is idle: it launched nothing, and the "
                          "launching thread waited 100 % of the time, mostly in the state pipe."));
}

TEST_CASE("a call that hangs is said long before it has taken all of the last minutes") {
    Program program;
    program.read(10s, 0s);
    program.read(70s, 60s);
    program.read(75s, 60s, 1, false, 1s);  // the last launch was before this
    program.read(78s, 60s, 1, true, 4s);
    CHECK_THAT(program.recent.verdict_of(7)->sentence,
               StartsWith("In the last 68 s: Data is the limit"));
    program.read(80s, 60s, 1, true, 6s);
    CHECK(program.recent.verdict_of(7)->word == "hangs");
    CHECK(program.recent.verdict_of(7)->sentence ==
          "In the last 5 s: The program hangs: the launching thread has been in "
          "cudaDeviceSynchronize for 6.00s, and the program has launched nothing since.");
    program.read(113s, 60s, 1, true, 39s);
    CHECK_THAT(program.recent.verdict_of(7)->sentence,
               StartsWith("In the last 38 s: The program hangs"));
    program.read(118s, 60s, 1, false);
    CHECK_THAT(program.recent.verdict_of(7)->sentence,
               StartsWith("In the last 108 s: Data is the limit"));
}
