// The lines of `trace --in-flight`, from an exporter's in_flight_answer.
#include "exporter/cli/top/in_flight.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>

using namespace gpusnoop;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::string in_flight_answer = R"({"min_age_seconds":1,"in_flight":[
{"id":"7-10","began":"2026-03-01T09:30:00Z","function":"ncclAllReduce","library":"libnccl.so.2",
 "pid":42,"tid":7,"comm":"py\u001b[2Jthon","script":"train.py","container_id":"","slurm_job_id":"4711",
 "user":"alice","thread":"w","pod_uid":"","arguments":{"3":"0x100"},"gpu":"3",
 "nccl":{"communicator":2,"hash":"3f2a9c01","rank":5,"nranks":null,"sequence":17},"age_seconds":90.5,"state":"sleeping",
 "stack":[{"function":"poll","module":"libc.so.6","offset":4},{"function":null,"module":null,"offset":null}],
 "kernel_stack":["do_poll"]}],
"unreturned":[],"left_out":2,"truncated":true})";

}  // namespace

TEST_CASE("a call in flight is a line, with a line for each frame") {
    const auto lines = top::in_flight_lines(in_flight_answer, false);
    REQUIRE(lines);
    CHECK(lines->starts_with("FOR "));
    CHECK_THAT(*lines, ContainsSubstring("1m 30s"));
    CHECK_THAT(*lines, ContainsSubstring("ncclAllReduce"));
    CHECK_THAT(*lines, ContainsSubstring(" library=libnccl.so.2 gpu=3 script=train.py "
                                         "slurm_job_id=4711 state=sleeping 3=0x100 communicator=2 "
                                         "hash=3f2a9c01 rank=5 sequence=17\n"));
    CHECK_THAT(*lines,
               ContainsSubstring("    do_poll (kernel)\n    poll libc.so.6\n    unknown\n"));
    CHECK(lines->ends_with("and 2 more\n"));
    CHECK(lines->find('\x1b') == std::string::npos);
}

TEST_CASE("a call in flight is an object on a line") {
    const auto lines = top::in_flight_lines(in_flight_answer, true);
    REQUIRE(lines);
    CHECK(lines->starts_with(R"({"id":"7-10",)"));
    CHECK(lines->find('\n') == lines->size() - 1);
    CHECK(lines->find('\x1b') == std::string::npos);
}

TEST_CASE("an answer that is no exporter's is an error") {
    for (const char *const other : {"", "[]", "{}", R"({"in_flight":1})", R"({"in_flight":[{}]})",
                                    R"({"in_flight":[{"age_seconds":"x"}],"left_out":0})"}) {
        INFO(other);
        CHECK_FALSE(top::in_flight_lines(other, false));
    }
}
