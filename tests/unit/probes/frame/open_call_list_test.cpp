// The records of open calls -> a list of a limited length, and counts of the rest.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "exporter/probes/frame/calls/open_calls.h"

using namespace gpusnoop::probes;

namespace {

open_call_record record_of(std::uint32_t tgid, std::uint32_t tid, std::uint64_t cookie,
                           std::uint64_t started_ns) {
    open_call_record record{};
    record.call.started_ns = started_ns;
    record.call.cookie = cookie;
    record.call.tid = tid;
    record.tgid = tgid;
    record.since_ns = 1;
    return record;
}

struct OpenCallListFixture {
    std::size_t described = 0;
    OpenCallList list{{.call_of = [this](const open_call_record &record) {
        described++;
        OpenCall call;
        call.comm = "program";
        call.pid = record.tgid;
        call.tid = record.call.tid;
        call.began_ns = record.call.started_ns;
        call.library = "libcalls.so.1";
        call.function = "f" + std::to_string(record.call.cookie);
        return std::optional(call);
    }}};

    // A process whose threads are in so many calls of three functions, each begun at another time.
    void add(std::uint32_t tgid, std::uint32_t threads, std::uint32_t depth) {
        for (std::uint32_t i = 0; i < threads * depth; i++) {
            list.add(record_of(tgid, tgid + i / depth, i % 3, 1'000'000 - i));
        }
    }
};

// Of the calls of each process, listed or not.
std::map<std::uint32_t, std::uint64_t> counts_of(const OpenCalls &open) {
    std::map<std::uint32_t, std::uint64_t> counts;
    for (const OpenCall &call : open.calls) {
        counts[call.pid]++;
    }
    for (const MoreCalls &more : open.more) {
        counts[more.pid] += more.count;
    }
    return counts;
}

}  // namespace

TEST_CASE("80,000 open calls of a process are counted, and a few thousand are described") {
    OpenCallListFixture fixture;
    fixture.add(1'000, 2'000, 40);
    fixture.list.add(record_of(7, 7, 1, 5));
    CHECK(fixture.described == max_listed_calls + 3 + 1);
    const OpenCalls open = fixture.list.take();
    CHECK(open.calls.size() == max_listed_calls + 1);
    CHECK(open.calls.back().pid == 7);
    CHECK(open.count() == 80'001);
    CHECK(counts_of(open) == std::map<std::uint32_t, std::uint64_t>{{7, 1}, {1'000, 80'000}});
    REQUIRE(open.more.size() == 3);
    std::uint64_t oldest_ns = open.more[0].oldest_ns;
    for (const MoreCalls &more : open.more) {
        CHECK(more.comm == "program");
        CHECK(more.library == "libcalls.so.1");
        // A third of the calls that are not listed, less the rounding.
        CHECK(more.count >= (80'000 - max_listed_calls) / 3);
        oldest_ns = std::min(oldest_ns, more.oldest_ns);
    }
    CHECK(oldest_ns == 1'000'000 - 79'999);
}

TEST_CASE("calls of many processes leave room in the list for those of the others", "[bulk]") {
    OpenCallListFixture fixture;
    constexpr std::uint32_t processes = 100;
    for (std::uint32_t i = 0; i < processes; i++) {
        fixture.add(10'000 + i, 10, 200);
    }
    fixture.add(7, 3, 5);
    const OpenCalls open = fixture.list.take();
    CHECK(open.calls.size() <=
          max_listed_calls_of_all + (processes + 1) * std::size_t{always_listed_calls});
    CHECK(fixture.described <= open.calls.size() + std::size_t{3} * processes);
    CHECK(counts_of(open).size() == processes + 1);
    for (const auto &[pid, count] : counts_of(open)) {
        CHECK(count == (pid == 7 ? 15 : 2'000));
    }
    CHECK(std::ranges::count(open.calls, 7, &OpenCall::pid) == 15);
}

TEST_CASE("calls that are not shown are neither listed nor counted") {
    OpenCallList list{
        {.call_of =
             [](const open_call_record &record) {
                 return record.call.cookie == 1 ? std::nullopt : std::optional(OpenCall());
             },
         .is_shown = [](const open_call_record &record) { return record.call.cookie != 2; }}};
    for (std::uint64_t i = 0; i < 6 * max_listed_calls; i++) {
        list.add(record_of(7, 7, i % 3, i));
    }
    const OpenCalls open = list.take();
    CHECK(open.count() == 2 * max_listed_calls);
    CHECK(open.calls.size() == max_listed_calls);
}
