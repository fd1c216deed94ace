#include "exporter/probes/syscall/aggregator.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <cstring>

#include "exporter/symbols/names/syscall_names.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using std::chrono::seconds;

namespace {

std::span<const std::byte> syscall_bytes_of(const auto &record) {
    return std::as_bytes(std::span(&record, 1));
}

struct SyscallFixture {
    explicit SyscallFixture(std::uint32_t budget_of_families = 1000) : budget(budget_of_families) {}

    std::uint32_t budget;
    SyscallAggregator aggregator{{.budget = [this](std::string_view) { return budget; },
                                  .retention = seconds(60),
                                  .look_up = [](ProcessIdentity &) { return true; }}};

    void start(std::uint32_t tgid, std::uint64_t since, const char *comm) {
        traced_start_record record{};
        record.head = {since, since, tgid, PROCESS_STARTED};
        std::strncpy(record.identity.comm, comm, sizeof(record.identity.comm) - 1);
        CHECK(aggregator.on_record(syscall_bytes_of(record)));
    }
    void go(std::uint32_t tgid, std::uint64_t since, std::uint64_t at) {
        CHECK(aggregator.on_record(
            syscall_bytes_of(traced_end_record{{at, since, tgid, PROCESS_ENDED}, 0, 0})));
    }

    // The sum of a counter, or of a histogram's buckets, over the label sets with these values.
    [[nodiscard]] std::uint64_t sum(const std::string &family,
                                    const std::vector<std::string> &with) const {
        std::uint64_t sum = 0;
        for (const auto &snapshot : aggregator.families().snapshots()) {
            if (snapshot.description->name != "gpusnoop_" + family) {
                continue;
            }
            for (std::size_t i = 0; i < snapshot.labels.size(); i++) {
                const auto &labels = *snapshot.labels[i];
                const bool has_all = std::ranges::all_of(with, [&](const std::string &value) {
                    return std::ranges::find(labels, value) != labels.end();
                });
                const std::size_t values = snapshot.stride == 1 ? 1 : snapshot.stride - 1;
                for (std::size_t j = 0; has_all && j < values; j++) {
                    sum += snapshot.values[i * snapshot.stride + j];
                }
            }
        }
        return sum;
    }
};

std::pair<syscall_key, syscall_counts> counted(std::uint32_t tgid, std::uint64_t since,
                                               std::uint32_t number, std::uint16_t shard,
                                               std::uint64_t calls, std::size_t bucket = 0) {
    syscall_counts counts{};
    counts.nanoseconds = 10 * calls;
    counts.calls[bucket] = calls;
    return {{since, tgid, static_cast<std::uint16_t>(number), shard}, counts};
}

const auto number_of_read = static_cast<std::uint16_t>(*syscall_number("read"));

}  // namespace

TEST_CASE("an entry that is in a reading twice counts once, as the later one has it") {
    SyscallFixture fixture;
    fixture.start(7, 100, "prog");
    fixture.aggregator.on_reading(
        {{counted(7, 100, number_of_read, 0, 3), counted(7, 100, number_of_read, 1, 10),
          counted(7, 100, number_of_read, 0, 4)},
         {{{100, 7, number_of_read, EIO}, 1}, {{100, 7, number_of_read, EIO}, 2}}});
    CHECK(fixture.sum("syscalls_total", {"read"}) == 14);
    CHECK(fixture.sum("syscall_errors_total", {"read", "EIO"}) == 2);
    fixture.aggregator.on_reading(
        {{counted(7, 100, number_of_read, 1, 10), counted(7, 100, number_of_read, 0, 5)}, {}});
    CHECK(fixture.sum("syscalls_total", {"read"}) == 15);
}

TEST_CASE("of each reading of system calls only what is new is counted") {
    SyscallFixture fixture;
    fixture.start(7, 100, "prog");
    fixture.aggregator.on_reading(
        {{counted(7, 100, number_of_read, 0, 3), counted(7, 100, number_of_read, 1, 4, 15),
          counted(7, 100, SYSCALL_COMPAT, 0, 5), counted(7, 100, SYSCALL_UNKNOWN, 0, 6),
          counted(7, 100, 511, 0, 2)},
         {{{100, 7, number_of_read, EAGAIN}, 2}}});
    CHECK(fixture.sum("syscalls_total", {"prog", "read"}) == 7);
    CHECK(fixture.sum("syscall_duration_seconds", {"prog", "read"}) == 7);
    CHECK(fixture.sum("syscall_errors_total", {"prog", "read", "EAGAIN"}) == 2);
    CHECK(fixture.sum("syscalls_total", {"compat"}) == 5);
    CHECK(fixture.sum("syscalls_total", {"unknown"}) == 6);
    CHECK(fixture.sum("syscalls_total", {"syscall_511"}) == 2);
    // A shard that was just made has nothing in it yet.
    const SyscallReading later{
        {counted(7, 100, number_of_read, 2, 0), counted(7, 100, number_of_read, 1, 10, 15),
         counted(7, 100, number_of_read, 0, 3)},
        {{{100, 7, number_of_read, EAGAIN}, 9}}};
    fixture.aggregator.on_reading(later);
    fixture.aggregator.on_reading(later);
    CHECK(fixture.sum("syscalls_total", {"prog", "read"}) == 13);
    CHECK(fixture.sum("syscall_duration_seconds", {"prog", "read"}) == 13);
    CHECK(fixture.sum("syscall_errors_total", {"prog", "read", "EAGAIN"}) == 9);
    for (const auto &snapshot : fixture.aggregator.families().snapshots()) {
        if (snapshot.stride > 1 && snapshot.labels.front()->back() == "read") {
            CHECK(snapshot.values[0] == 3);
            CHECK(snapshot.values[15] == 10);
            CHECK(snapshot.values[16] == 130);
        }
    }
}

TEST_CASE("what ended processes called stays, and they are to be forgotten once") {
    SyscallFixture fixture;
    fixture.start(7, 100, "prog");
    fixture.start(8, 100, "prog");
    const SyscallReading reading{
        {counted(7, 100, number_of_read, 0, 3), counted(8, 100, number_of_read, 0, 5)}, {}};
    fixture.go(7, 100, 500);
    fixture.aggregator.on_reading(reading);
    // A reading that began before the end may lack the last calls.
    CHECK(fixture.aggregator.processes().tidy(std::chrono::nanoseconds(499)).empty());
    CHECK(fixture.aggregator.processes().tidy(std::chrono::nanoseconds(500)) ==
          std::vector<ProcessKey>{{7, 100}});
    CHECK(fixture.aggregator.processes().tidy(std::chrono::nanoseconds(501)).empty());
    // The next one of that id.
    fixture.start(7, 600, "prog");
    fixture.aggregator.on_reading(
        {{counted(7, 600, number_of_read, 0, 2), counted(8, 100, number_of_read, 0, 6)}, {}});
    CHECK(fixture.sum("syscalls_total", {"prog", "read"}) == 3 + 6 + 2);
    fixture.go(7, 600, 700);
    fixture.go(8, 100, 700);
    CHECK(fixture.aggregator.processes().tidy(std::chrono::nanoseconds(700)).size() == 2);
    CHECK(fixture.sum("syscalls_total", {"prog"}) == 11);
    (void)fixture.aggregator.processes().tidy(seconds(61));
    CHECK(fixture.sum("syscalls_total", {}) == 0);
}

TEST_CASE("system calls past the budget are counted as other") {
    SyscallFixture fixture(10);
    fixture.start(7, 100, "prog");
    SyscallReading reading;
    for (std::uint32_t number = 0; number < 40; number++) {
        reading.counts.push_back(counted(7, 100, number, 0, 2));
    }
    fixture.aggregator.on_reading(reading);
    CHECK(fixture.sum("syscalls_total", {}) == 80);
    CHECK(fixture.sum("syscalls_total", {"other"}) == 60);
    CHECK(fixture.aggregator.families().folded().at("gpusnoop_syscalls_total") == 30);
}

TEST_CASE("records of system calls that are not to be there are refused") {
    SyscallFixture fixture;
    CHECK(!fixture.aggregator.on_record({}));
    CHECK(!fixture.aggregator.on_record(syscall_bytes_of(traced_record{1, 2, 3, PROCESS_STARTED})));
    traced_start_record started{};
    started.head.type = PROCESS_ENDED;
    CHECK(!fixture.aggregator.on_record(syscall_bytes_of(started)));
    // Calls have records only where they are traced.
    syscall_record call{};
    call.head = {1, 1, 7, SYSCALL_RECORD};
    CHECK(!fixture.aggregator.on_record(syscall_bytes_of(call)));
    const auto trace = [](const auto &record, std::string_view path, const auto &process) {
        CHECK(record.head.tgid == process.key.tgid);
        CHECK(path == (record.number == 2 ? "/etc/hosts" : ""));
    };
    CHECK(fixture.aggregator.on_record(syscall_bytes_of(call), trace));
    syscall_open_record open{.call = call, .path = "/etc/hosts"};
    open.call.number = 2;
    CHECK(fixture.aggregator.on_record(syscall_bytes_of(open), trace));
    CHECK(!fixture.aggregator.on_record(syscall_bytes_of(open).subspan(1), trace));
}
