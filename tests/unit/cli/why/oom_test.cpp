// What `why --oom` says of an answer of /api/v1/out_of_memory.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>

#include "exporter/cli/why/oom.h"

using namespace gpusnoop;
using namespace gpusnoop::why;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string holder_text(const std::string &pid, const std::string &script) {
    return R"({"pid":)" + pid + R"(,"comm":"python3","script":")" + script +
           R"(","container_id":"0123456789abcdef","slurm_job_id":"86","complete":true,)" +
           R"("bytes":1073741824,"growth_bytes":-1048576,"growth_seconds":300.5})";
}

std::string answer_of(const std::string &torch) {
    return R"({"out_of_memory":[{"time":"2026-03-01T09:30:00.123456789Z",)"
           R"("last_time":"2026-03-01T09:31:00.123456789Z","count":3,"gpu":"3",)"
           R"("verdict":"neighbor","summary":"train.py asked\u001b for 2.00 GiB","site":"grow",)"
           R"("process":)" +
           holder_text("10", "train.py") + R"(,"others":[)" + holder_text("11", "eval.py") +
           R"(],"others_compared":true,"sites":[{"site":"load","bytes":1024}],)"
           R"("memory":{"free_bytes":1024,"total_bytes":2048,"age_seconds":90.0,)"
           R"("is_of_that_moment":false},"torch":)" +
           torch + R"(,"not_accounted_for_bytes":null}]})";
}

const auto anybody = [](const processes::ProcessNames &) { return true; };

}  // namespace

TEST_CASE("why --oom says who held the memory, and where it was allocated") {
    const auto said =
        oom_text(answer_of(R"({"allocated_bytes":1024,"reserved_bytes":2048})"), anybody);
    REQUIRE(said);
    CHECK(said->has_any);
    CHECK(
        said->text ==
        "2026-03-01T09:30:00Z  train.py asked\uFFFD for 2.00 GiB [neighbor]\n"
        "  Refused 3 times, the last time at 2026-03-01T09:31:00Z.\n"
        "  The GPU has 2.00 KiB, of which 1.00 KiB were free 1m 30s before.\n"
        "  PyTorch had reserved 2.00 KiB and used 1.00 KiB of them.\n"
        "  Held on it:\n"
        "    1.00 GiB  python3 train.py (pid 10), container 0123456789ab, Slurm job 86, -1.00 MiB "
        "in 5m 0s  <- asked\n"
        "    1.00 GiB  python3 eval.py (pid 11), container 0123456789ab, Slurm job 86, -1.00 MiB "
        "in 5m 0s\n"
        "  Asked for at grow\n"
        "    1.00 KiB  at load\n");
}

TEST_CASE("why --oom has only the programs that it is asked for, and trusts no answer") {
    const std::string answer = answer_of("null");
    const auto of_eval = oom_text(
        answer, [](const processes::ProcessNames &names) { return names.script == "eval.py"; });
    REQUIRE(of_eval);
    CHECK_FALSE(of_eval->has_any);
    CHECK(of_eval->text.empty());
    CHECK_FALSE(oom_text("{}", anybody));
    CHECK_FALSE(oom_text(R"({"out_of_memory":[{}]})", anybody));
    CHECK_FALSE(oom_text("no JSON", anybody));
}
