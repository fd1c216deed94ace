// What the API, the page and sinks have of refusals of GPU memory.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

#include "exporter/probes/cuda/out_of_memory/report.h"
#include "tests/unit/probes/cuda/out_of_memory/bench.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

TEST_CASE("the document has the last events, the newest first") {
    OutOfMemoryBench fixture;
    for (std::uint64_t i = 0; i < max_kept_out_of_memory + 5; i++) {
        fixture.allocations(refused(oom_gib + i, (100 + i * 20) * second_ns));
        fixture.until(110 + i * 20);
    }
    const ApiPage document = out_of_memory_page(fixture.aggregator->out_of_memory().list());
    CHECK(document.name == "out_of_memory");
    const auto read = [&](const QueryParameters &parameters) {
        return document.write(parameters)->text;
    };
    const auto count = [](const std::string &text) {
        std::size_t events = 0;
        for (auto at = text.find("last_time"); at != std::string::npos; events++) {
            at = text.find("last_time", at + 1);
        }
        return events;
    };
    CHECK(count(read({})) == max_kept_out_of_memory);
    const std::string newest = read({{"limit", "1"}});
    CHECK_THAT(newest, ContainsSubstring("\"requested_bytes\":" +
                                         std::to_string(oom_gib + max_kept_out_of_memory + 4)));
    CHECK_THAT(
        newest,
        ContainsSubstring(R"("verdict":"neighbor")") &&
            ContainsSubstring(R"("process":{"pid":42,)") &&
            ContainsSubstring(R"("others":[{"pid":43,)") &&
            ContainsSubstring("\"bytes_by_kind\":{\"device\":" + std::to_string(66 * oom_gib)) &&
            ContainsSubstring("\"total_bytes\":" + std::to_string(80 * oom_gib)) &&
            ContainsSubstring(R"("torch":null)") && ContainsSubstring("eval (pid 43)"));
    CHECK_THAT(newest, EndsWith("\"left_out\":" + std::to_string(max_kept_out_of_memory - 1) +
                                ",\"truncated\":true}\n"));
    CHECK(read({{"pid", "43"}}) == "{\"out_of_memory\":[],\"left_out\":0,\"truncated\":false}\n");
    CHECK(count(read({{"gpu", "4"}, {"limit", "3"}})) == 3);
    CHECK(count(read({{"gpu", "5"}})) == 0);
    CHECK_FALSE(document.write({{"kind", "x"}}));
    CHECK_FALSE(document.write({{"limit", "x"}}));

    const OutOfMemoryOverview overview = fixture.aggregator->out_of_memory().overview();
    CHECK(overview.count == max_kept_out_of_memory + 5);
    CHECK(overview.last.size() == max_overview_out_of_memory);
    CHECK(overview.last[0].verdict == "neighbor");
    CHECK_THAT(out_of_memory_line(fixture.aggregator->out_of_memory().list()[0]),
               StartsWith(R"({"event":"out_of_memory","time":")"));
}
