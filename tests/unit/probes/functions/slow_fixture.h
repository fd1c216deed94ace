// What the tests of single calls of named functions share.
#pragma once

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exporter/probes/functions/report/slow_calls.h"
#include "tests/unit/probes/functions/fixture.h"

namespace gpusnoop::probes {

inline const FunctionOptions with_arguments = {.slow_threshold = std::chrono::nanoseconds(1'000),
                                               .errors = ErrorKind::nonzero,
                                               .arguments = {3, 1}};

inline func_arguments_record with(func_call_record record) {
    func_arguments_record longer{};
    longer.call = record;
    for (std::uint64_t i = 0; i < FUNC_ARGUMENTS; i++) {
        longer.argument[i] = 0x10 * (i + 1);
    }
    longer.pointed = 77;
    longer.has_pointed = 1;
    return longer;
}

inline func_slow_record slow(func_call_record record, std::vector<std::uint64_t> frames = {1, 2},
                             std::string_view comm = "worker") {
    func_slow_record longer{};
    longer.arguments = with(record);
    std::memcpy(longer.comm, comm.data(), std::min(comm.size(), sizeof(longer.comm)));
    longer.frame_count = static_cast<std::uint32_t>(frames.size());
    std::copy(frames.begin(), frames.end(), longer.frames);
    longer.trampoline = 99;
    longer.code_start = 5;
    return longer;
}

// The aggregator, and the slow calls that it reports.
struct SlowFixture {
    explicit SlowFixture(SlowCallHistory::Settings settings = {.keep = 3, .log_per_second = 0})
        : calls((
                    settings.on_complete =
                        [this](const SlowCall &call) { completed.push_back(to_json(call)); },
                    settings),
                [this](symbols::StackRequest request) { asked.push_back(std::move(request)); }),
          fixture(
              {[](std::string_view) { return 2'000U; }, false, std::chrono::minutes(1),
               [this](const FunctionCall &call) { calls.on_call(call, ended_of(call), now); },
               [this](const FunctionCall &call) { all.push_back(to_json(call, ended_of(call))); },
               [this](const FunctionCall &call) {
                   all.push_back(to_json(call, ended_of(call)));
               }}) {
        fixture.tell(process("python"));
    }

    static std::chrono::nanoseconds ended_of(const FunctionCall &call) {
        return std::chrono::nanoseconds(static_cast<std::int64_t>(call.record->head.ended_ns));
    }
    void answer(std::uint64_t ticket, const std::string &function) {
        calls.on_stacks({{ticket, {{function, "a.out", 4}, {"main", "a.out", 8}}}}, now);
    }
    [[nodiscard]] nlohmann::json document(const QueryParameters &parameters = {}) const {
        const auto written = slow_calls_page(calls.list()).write(parameters);
        REQUIRE(written);
        CHECK(written->content_type == "application/json");
        return nlohmann::json::parse(written->text);
    }

    std::chrono::nanoseconds now = std::chrono::seconds(10);
    std::vector<symbols::StackRequest> asked;
    std::vector<std::string> completed;
    std::vector<std::string> all;
    SlowCallHistory calls;
    FunctionsFixture fixture;
};

}  // namespace gpusnoop::probes
