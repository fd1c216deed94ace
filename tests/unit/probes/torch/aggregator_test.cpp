// What comes of the reports of PyTorch's allocators.
#include "exporter/probes/torch/aggregator.h"

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/probes/driver_records.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t pid = 0x7fffffff;
constexpr std::uint64_t since = 1'000;

template <typename Record>
std::span<const std::byte> torch_bytes_of(const Record &record) {
    return std::as_bytes(std::span(&record, 1));
}

struct Usage {
    std::uint64_t address = 0;
    std::int64_t bytes = 0;
    std::uint64_t allocated = 0;
    std::uint64_t reserved = 0;
    std::int8_t device = 0;
    std::int32_t stack = 7;
    std::uint64_t at_ns = 2'000;
    std::int8_t type = 1;
    bool has_totals = true;
    std::uint32_t tgid = pid;
};

torch_record record_of(const Usage &usage, torch_record_type type = TORCH_USAGE) {
    torch_record record{};
    record.head = {usage.at_ns, since, usage.tgid, type};
    record.address = usage.address;
    record.bytes = usage.bytes;
    record.allocated = usage.allocated;
    record.reserved = usage.reserved;
    record.caller = 0x40;
    record.stack = usage.stack;
    record.device_type = usage.type;
    record.device = usage.device;
    record.flags = usage.has_totals ? TORCH_HAS_TOTALS : 0;
    return record;
}

class Bench {
public:
    explicit Bench(std::size_t max_live_allocations = 1'000)
        : aggregator({.series = {.budget = [](std::string_view) { return 1000U; },
                                 .retention = 1min,
                                 .look_up =
                                     [](ProcessIdentity &identity) {
                                         identity.comm = "python3";
                                         identity.uid = identity.key.tgid / 1'000;
                                         return true;
                                     }},
                      .max_live_allocations = max_live_allocations,
                      .ask_for_site = [this](std::uint64_t ticket, const auto &,
                                             const Site &) { tickets.push_back(ticket); },
                      .forget_stack = [this](std::int32_t one) { forgotten.push_back(one); },
                      .refused = [this](const TorchRefusal &one) { refused.push_back(one); }}) {}

    void report(const Usage &usage) {
        CHECK(aggregator.on_record(torch_bytes_of(record_of(usage))));
    }
    void end(std::uint32_t tgid = pid) {
        CHECK(aggregator.on_record(
            torch_bytes_of(traced_end_record{{3'000, since, tgid, PROCESS_ENDED}, 0, 0})));
    }
    // The value of the only label set with these last labels; -1: there is none.
    [[nodiscard]] std::int64_t value(const std::string &family, const std::string &own) {
        const auto values = values_of(aggregator.report(), "torch_" + family);
        std::int64_t sum = -1;
        for (const auto &[labels, value] : values) {
            if (labels.back() == own) {
                CHECK(sum == -1);
                sum = static_cast<std::int64_t>(value.front());
            }
        }
        return sum;
    }

    std::vector<std::uint64_t> tickets;
    std::vector<std::int32_t> forgotten;
    std::vector<TorchRefusal> refused;
    TorchAggregator aggregator;
};

}  // namespace

TEST_CASE("allocations and frees of tensors are counted by device") {
    Bench fixture;
    fixture.report({.address = 0x1000, .bytes = 512, .allocated = 512, .reserved = 2048});
    fixture.report({.address = 0x2000, .bytes = 1024, .allocated = 1536, .reserved = 2048});
    fixture.report(
        {.address = 0x3000, .bytes = 4096, .allocated = 4096, .reserved = 8192, .device = 1});
    fixture.report({.address = 0x1000, .bytes = -512, .allocated = 1024, .reserved = 2048});
    CHECK(fixture.value("memory_allocations_total", "cuda:0") == 2);
    CHECK(fixture.value("memory_allocation_bytes_total", "cuda:0") == 1536);
    CHECK(fixture.value("memory_frees_total", "cuda:0") == 1);
    CHECK(fixture.value("memory_free_bytes_total", "cuda:0") == 512);
    CHECK(fixture.value("memory_allocated_bytes", "cuda:0") == 1024);
    CHECK(fixture.value("memory_reserved_bytes", "cuda:0") == 2048);
    CHECK(fixture.value("memory_outstanding_bytes", "cuda:0") == 1024);
    CHECK(fixture.value("memory_outstanding_allocations", "cuda:0") == 1);
    CHECK(fixture.value("memory_allocated_bytes", "cuda:1") == 4096);
    CHECK(fixture.value("memory_frees_total", "cuda:1") == -1);
    CHECK(fixture.aggregator.allocations().front().is_complete);
    CHECK(fixture.aggregator.allocations().front().amount == Amount{5120, 2});
}

TEST_CASE("the free of a block from before the exporter is untracked") {
    Bench fixture;
    fixture.report({.address = 0x1000, .bytes = -512, .allocated = 1 << 20, .reserved = 2 << 20});
    CHECK(fixture.value("memory_untracked_frees_total", "cuda:0") == 1);
    CHECK(fixture.value("memory_frees_total", "cuda:0") == -1);
    CHECK(fixture.value("memory_allocated_bytes", "cuda:0") == 1 << 20);
    CHECK(fixture.value("memory_outstanding_bytes", "cuda:0") == 0);
    CHECK_FALSE(fixture.aggregator.allocations().front().is_complete);
}

TEST_CASE("an address that is given out again was freed in between") {
    Bench fixture;
    fixture.report({.address = 0x1000, .bytes = 512, .allocated = 512});
    fixture.report({.address = 0x1000, .bytes = 2048, .allocated = 2048, .stack = 8});
    CHECK(fixture.value("memory_allocations_total", "cuda:0") == 2);
    CHECK(fixture.value("memory_frees_total", "cuda:0") == 1);
    CHECK(fixture.value("memory_free_bytes_total", "cuda:0") == 512);
    CHECK(fixture.value("memory_outstanding_bytes", "cuda:0") == 2048);
}

TEST_CASE("the newest report has the allocator's sums") {
    Bench fixture;
    fixture.report({.address = 0x1000, .bytes = 512, .allocated = 512, .at_ns = 2'001});
    fixture.report({.address = 0x2000, .bytes = 512, .allocated = 9999, .at_ns = 2'000});
    CHECK(fixture.value("memory_allocated_bytes", "cuda:0") == 512);
    fixture.report({.address = 0x3000, .bytes = 512, .allocated = 1536, .at_ns = 2'001});
    CHECK(fixture.value("memory_allocated_bytes", "cuda:0") == 1536);
}

TEST_CASE("a refused request is no allocation, and has the sums of its moment") {
    Bench fixture;
    const Usage refused{.bytes = 1 << 30, .allocated = 100, .reserved = 200};
    CHECK(fixture.aggregator.on_record(torch_bytes_of(record_of(refused, TORCH_OUT_OF_MEMORY))));
    CHECK(fixture.value("out_of_memory_total", "cuda:0") == 1);
    CHECK(fixture.value("memory_allocations_total", "cuda:0") == -1);
    CHECK(fixture.value("memory_allocated_bytes", "cuda:0") == 100);
    CHECK(fixture.value("memory_outstanding_bytes", "cuda:0") == 0);
    // The probe of CUDA is told of it; other devices' memory it does not know.
    REQUIRE(fixture.refused.size() == 1);
    CHECK(fixture.refused[0].pid == pid);
    CHECK(fixture.refused[0].bytes == 1U << 30U);
    CHECK(fixture.refused[0].allocated == 100);
    CHECK(fixture.refused[0].reserved == 200);
    const Usage other{.bytes = 1 << 30, .device = 0, .type = 0};
    CHECK(fixture.aggregator.on_record(torch_bytes_of(record_of(other, TORCH_OUT_OF_MEMORY))));
    CHECK(fixture.refused.size() == 1);
}

TEST_CASE("the sums of the CPU, and of PyTorch 1.8, are not shown") {
    Bench fixture;
    fixture.report({.address = 0x1000, .bytes = 512, .allocated = 512, .device = -1, .type = 0});
    fixture.report({.address = 0x2000, .bytes = 256, .has_totals = false});
    CHECK(fixture.value("memory_allocated_bytes", "cpu") == -1);
    CHECK(fixture.value("memory_reserved_bytes", "cpu") == -1);
    CHECK(fixture.value("memory_outstanding_bytes", "cpu") == 512);
    CHECK(fixture.value("memory_allocated_bytes", "cuda:0") == -1);
    CHECK(fixture.value("memory_outstanding_bytes", "cuda:0") == 256);
    CHECK(fixture.aggregator.allocations().front().is_complete);
    fixture.report({.address = 0x3000, .bytes = -256, .has_totals = false});
    CHECK_FALSE(fixture.aggregator.allocations().front().is_complete);
}

TEST_CASE("devices have PyTorch's names") {
    CHECK(name_of({1, 3}) == "cuda:3");
    CHECK(name_of({0, -1}) == "cpu");
    CHECK(name_of({12, 0}) == "xpu:0");
    CHECK(name_of({20, 1}) == "privateuseone:1");
    CHECK(name_of({21, 0}) == "unknown");
    CHECK(name_of({-1, 0}) == "unknown");
}

TEST_CASE("blocks over the limit are counted and not followed") {
    Bench fixture(2);
    for (std::uint64_t i = 1; i <= 3; i++) {
        fixture.report({.address = i * 0x1000, .bytes = 512, .allocated = i * 512});
    }
    CHECK(fixture.value("memory_allocations_total", "cuda:0") == 3);
    CHECK(fixture.value("memory_outstanding_allocations", "cuda:0") == 2);
    CHECK(fixture.aggregator.forgotten() == 1);
    CHECK_FALSE(fixture.aggregator.allocations().front().is_complete);
    fixture.report({.address = 0x1000, .bytes = -512, .allocated = 1024});
    fixture.report({.address = 0x4000, .bytes = 512, .allocated = 1536});
    CHECK(fixture.value("memory_outstanding_allocations", "cuda:0") == 2);
    CHECK(fixture.aggregator.forgotten() == 1);
    // The end of a process makes room, once.
    fixture.report({.address = 0x4000, .bytes = 512, .tgid = pid - 1});
    CHECK(fixture.aggregator.forgotten() == 2);
    fixture.end();
    fixture.aggregator.tidy(1s);
    fixture.report({.address = 0x4000, .bytes = 512, .tgid = pid - 1});
    fixture.report({.address = 0x5000, .bytes = 512, .tgid = pid - 1});
    fixture.report({.address = 0x6000, .bytes = 512, .tgid = pid - 1});
    CHECK(fixture.aggregator.forgotten() == 3);
}

TEST_CASE("a user who fills the table leaves the others a share") {
    Bench fixture(64);  // shares of 4 blocks
    const auto allocate = [&](std::uint32_t tgid, std::uint64_t number) {
        fixture.report({.address = number * 0x1000, .bytes = 512, .tgid = tgid});
    };
    std::uint64_t forgotten = 0;
    for (std::uint64_t i = 1; i <= 1'000; i++) {
        allocate(1'000, i);
    }
    CHECK(fixture.aggregator.forgotten() == (forgotten += 1'000 - 64));
    for (std::uint64_t i = 1; i <= 5; i++) {
        allocate(2'000, i);
    }
    CHECK(fixture.aggregator.forgotten() == (forgotten += 1));
    fixture.report({.address = 0x1000, .bytes = -512, .tgid = 2'000});
    allocate(2'000, 9);
    CHECK(fixture.aggregator.forgotten() == forgotten);
    // More processes of a user have no more than one, whether he filled the table or not.
    for (std::uint32_t tgid = 1'001; tgid <= 1'100; tgid++) {
        allocate(tgid, 1);
        allocate(tgid + 1'000, 1);
    }
    CHECK(fixture.aggregator.forgotten() == (forgotten += 96 + 100));
    // Another user still has a share.
    for (std::uint64_t i = 1; i <= 5; i++) {
        allocate(3'000, i);
    }
    CHECK(fixture.aggregator.forgotten() == (forgotten += 1));
    // Not any number of users: the exporter's memory is bounded.
    for (std::uint32_t user = 4; user < 104; user++) {
        allocate(user * 1'000, 1);
    }
    CHECK(fixture.aggregator.forgotten() == (forgotten += 100 - (64 - 3 * 4)));
    // The end of a process gives its part back.
    fixture.end(2'000);
    for (std::uint64_t i = 1; i <= 5; i++) {
        allocate(2'001, i);
    }
    CHECK(fixture.aggregator.forgotten() == (forgotten += 1));
}

TEST_CASE("a block over the limit makes a device without sums incomplete") {
    Bench fixture(1);
    fixture.report({.address = 0x1000, .bytes = 512, .device = -1, .type = 0});
    CHECK(fixture.aggregator.allocations().front().is_complete);
    fixture.report({.address = 0x2000, .bytes = 512, .device = -1, .type = 0});
    CHECK_FALSE(fixture.aggregator.allocations().front().is_complete);
}

TEST_CASE("the stack of a block that is not followed is removed with its process") {
    Bench fixture(1);
    fixture.report({.address = 0x1000, .bytes = 512, .stack = 7});
    fixture.report({.address = 0x2000, .bytes = 512, .stack = 8});
    fixture.end();
    std::ranges::sort(fixture.forgotten);
    CHECK(fixture.forgotten == std::vector<std::int32_t>{7, 8});
}

TEST_CASE("call sites hold what was allocated there") {
    Bench fixture;
    fixture.report({.address = 0x1000, .bytes = 512, .allocated = 512});
    fixture.report({.address = 0x2000, .bytes = 512, .allocated = 1024});
    fixture.report({.address = 0x3000, .bytes = 64, .allocated = 1088, .stack = 8});
    REQUIRE(fixture.tickets.size() == 2);
    fixture.aggregator.on_site_name({fixture.tickets[0],
                                     {{"c10::cuda::malloc", "libc10_cuda.so", 1},
                                      {"at::empty_cuda", "libtorch_cuda.so", 2},
                                      {"step", "model.so", 3}}});
    fixture.aggregator.on_site_name({fixture.tickets[1], {{"c10::alloc", "libc10.so", 1}}});
    CHECK(fixture.value("memory_site_outstanding_bytes", "at::empty_cuda < step") == 1024);
    // The allocator is shown where nothing else is known.
    CHECK(fixture.value("memory_site_outstanding_bytes", "c10::alloc") == 64);
    const auto all = fixture.aggregator.allocations();
    REQUIRE(all.size() == 1);
    REQUIRE(all[0].sites.size() == 2);
    CHECK(all[0].sites[0].amount == Amount{1024, 2});
    CHECK(frames_of(all[0].sites[0].name.stack).size() == 3);
    fixture.report({.address = 0x3000, .bytes = -64, .allocated = 1024});
    CHECK(fixture.value("memory_site_outstanding_bytes", "c10::alloc") == -1);
}

TEST_CASE("with its end, a process takes its memory from the page, and later its counters") {
    Bench fixture;
    fixture.report({.address = 0x1000, .bytes = 512, .allocated = 512});
    fixture.report({.address = 0x1000, .bytes = 512, .allocated = 512, .tgid = pid - 1});
    fixture.end();
    CHECK(fixture.forgotten.empty());  // the other process has the stack, too
    fixture.end(pid - 1);
    CHECK(fixture.forgotten == std::vector{7});
    CHECK(fixture.value("memory_allocated_bytes", "cuda:0") == -1);
    CHECK(fixture.value("memory_outstanding_bytes", "cuda:0") == -1);
    CHECK(fixture.aggregator.allocations().empty());
    CHECK(fixture.value("memory_allocations_total", "cuda:0") == 2);
    fixture.aggregator.tidy(10s);
    CHECK(fixture.value("memory_allocations_total", "cuda:0") == 2);
    fixture.aggregator.tidy(1h);
    CHECK(fixture.value("memory_allocations_total", "cuda:0") == -1);
    CHECK(fixture.forgotten == std::vector{7});
}

TEST_CASE("a process that nobody saw end gives its stacks back, too") {
    Bench fixture;
    fixture.report({.address = 0x1000, .bytes = 512, .allocated = 512});
    fixture.aggregator.processes().scan(1s);
    fixture.aggregator.processes().scan(2s);  // no process has this id
    fixture.aggregator.tidy(3s);
    CHECK(fixture.forgotten == std::vector{7});
    CHECK(fixture.value("memory_allocated_bytes", "cuda:0") == -1);
}

TEST_CASE("sizes and records of any kind do no harm") {
    Bench fixture;
    fixture.report({.address = 0, .bytes = INT64_MIN});
    fixture.report({.address = 1, .bytes = INT64_MAX});
    fixture.report({.address = 2, .bytes = INT64_MAX});
    fixture.report({.address = 3, .bytes = 0});
    fixture.report({.address = 1, .bytes = -1});
    CHECK(fixture.value("memory_untracked_frees_total", "cuda:0") == 1);
    CHECK(fixture.value("memory_outstanding_bytes", "cuda:0") == INT64_MAX);
    torch_record other = record_of({});
    other.head.type = 99;
    CHECK_FALSE(fixture.aggregator.on_record(torch_bytes_of(other)));
    CHECK_FALSE(fixture.aggregator.on_record(torch_bytes_of(traced_record{1, 2, 3, 99})));
    CHECK_FALSE(fixture.aggregator.on_record({}));
    CHECK_FALSE(fixture.aggregator.on_record(torch_bytes_of(std::array<std::byte, 73>{})));
}
