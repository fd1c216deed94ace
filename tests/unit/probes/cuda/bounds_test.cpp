// Records that no program should cause, and programs that play with their numbers.
#include <catch2/catch_test_macros.hpp>
#include <limits>
#include <random>

#include "tests/unit/probes/cuda/fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t budget = 1'000'000;

std::size_t label_sets(const Fixture &fixture) {
    std::size_t all = 0;
    for (const auto &family : fixture.aggregator->report(5'000s)) {
        all += family.labels.size();
    }
    return all;
}

}  // namespace

TEST_CASE("bytes that are no record are counted and change nothing") {
    Fixture fixture;
    std::mt19937 random(1);
    std::vector<std::byte> junk(400);
    std::uint64_t parts = 0;
    for (int i = 0; i < 20'000; i++) {
        for (std::byte &one : junk) {
            one = static_cast<std::byte>(random());
        }
        junk[28] = static_cast<std::byte>(random() % 18);  // the type, mostly a known one
        junk[29] = std::byte{0};
        const std::size_t size = random() % junk.size();
        if (size % 8 == 0) {
            continue;  // could be one
        }
        const auto part = std::span(junk).first(size);
        fixture.aggregator->on_allocations_record(part);
        fixture.aggregator->on_calls_record(part);
        parts++;
    }
    fixture.apply_all();
    CHECK(fixture.aggregator->undecodable() == 2 * parts);
    CHECK(label_sets(fixture) == 0);
}

TEST_CASE("a record in the wrong ring is none") {
    Fixture fixture;
    fixture.calls(process());
    fixture.calls(allocation(0x1000, 1, 2'000));
    fixture.calls(named(1, "x"));
    fixture.calls(exited(3'000));
    fixture.allocations(launch(1, 1));
    fixture.allocations(copy(1, 2, 3, COPY_H2D, 2'000));
    fixture.allocations(wait(1, 2'000));
    fixture.apply_all();
    CHECK(fixture.aggregator->undecodable() == 7);
    CHECK(label_sets(fixture) == 0);
}

TEST_CASE("records of the right size with any content at all are no trap") {
    Fixture fixture({.budget = [](std::string_view) { return 500U; }});
    std::mt19937_64 random(2);
    const std::vector<std::uint64_t> edges = {0,
                                              1,
                                              2,
                                              0x7fffffff,
                                              0x80000000,
                                              0xffffffff,
                                              std::uint64_t{1} << 63,
                                              std::numeric_limits<std::uint64_t>::max(),
                                              std::numeric_limits<std::int64_t>::max()};
    const std::vector<std::size_t> sizes = {40, 48, 56, 72, 80, 88, 264, 296};
    std::vector<std::uint64_t> words(40);
    for (int i = 0; i < 60'000; i++) {
        for (std::uint64_t &one : words) {
            one = random() % 2 == 0 ? edges[random() % edges.size()] : random();
        }
        auto bytes = std::as_writable_bytes(std::span(words));
        bytes[28] = static_cast<std::byte>(random() % 18);
        bytes[29] = std::byte{0};
        bytes[24] = static_cast<std::byte>(random() % 4);  // one of a few processes
        bytes[25] = bytes[26] = bytes[27] = std::byte{0};
        words[2] = random() % 2;
        const auto record = std::span<const std::byte>(bytes).first(sizes[random() % sizes.size()]);
        fixture.aggregator->on_allocations_record(record);
        fixture.aggregator->on_calls_record(record);
        if (i % 1'000 == 0) {
            fixture.aggregator->apply_until(std::chrono::nanoseconds(
                static_cast<std::int64_t>(edges[random() % edges.size()])));
            (void)fixture.aggregator->report(5'000s);
            (void)fixture.aggregator->allocations();
            for (const auto &request : std::exchange(fixture.asked, {})) {
                fixture.aggregator->on_kernel_name({request.ticket, "\xff"});
            }
            fixture.aggregator->watch_ends();
            LiveTable table{.since = 100s, .entries = {}, .processes = {}};
            for (std::uint32_t pid = 0; pid < 4; pid++) {
                table.processes[pid].since_ns = random() % 2;
                cuda_live live{};
                live.born_ns = edges[random() % edges.size()];
                live.device = static_cast<std::int32_t>(edges[random() % edges.size()]);
                live.kind = static_cast<std::uint16_t>(random());
                table.entries.emplace_back(cuda_live_key{random() % 4, random() % 2, pid,
                                                         static_cast<std::uint32_t>(random() % 6)},
                                           live);
            }
            fixture.aggregator->reconcile(table);
            fixture.aggregator->tidy(std::chrono::seconds(i));
        }
    }
    fixture.apply_all();
    fixture.aggregator->tidy(100'000s);
    CHECK(fixture.aggregator->undecodable() > 60'000);
    CHECK(fixture.aggregator->undecodable() < 120'000);
}

TEST_CASE("a process that makes up devices has no series for each of them") {
    Fixture fixture({.budget = [](std::string_view) { return budget; }});
    fixture.aggregator = std::make_unique<CudaAggregator>(fixture.settings, [&] {
        auto callbacks = fixture.callbacks();
        callbacks.describe = [](Process &one) {
            one.is_complete = true;
            one.gpu_name = [](auto ordinal) { return ordinal ? std::to_string(*ordinal) : "none"; };
        };
        return callbacks;
    }());
    fixture.allocations(process());
    const auto use = [&](std::int32_t device, std::uint64_t at) {
        const auto one = allocation(at, 1, at, MEMORY_device, device);
        fixture.allocations(one);
        fixture.allocations(release(one, at));
        auto unknown = unknown_release(at, at);
        unknown.head.device = device;
        fixture.allocations(unknown);
        auto copied = copy(1, 2, 3, COPY_H2D, at);
        copied.head.device = device;
        fixture.calls(copied);
        copied.head.type = CUDA_RECORD_SET;
        copied.is_async = static_cast<std::uint32_t>(at);
        fixture.calls(copied);
        fixture.calls(graph_launch(1, at, device));
        auto launched = launch(1, 1);
        launched.head.device = device;
        fixture.calls(launched);
    };
    constexpr std::int32_t many = 20'000;
    for (std::int32_t i = 0; i < many; i++) {
        use(i % 2 == 0 ? i : std::numeric_limits<std::int32_t>::max() - i,
            2'000 + static_cast<unsigned>(i));
    }
    use(std::numeric_limits<std::int32_t>::min(), 100'000);
    use(-3, 100'001);
    fixture.apply_all();
    fixture.name_kernels("kernel");
    CHECK(fixture.sum("cuda_memory_allocations_total") == many + 2);
    CHECK(fixture.sum("cuda_memory_allocations_total", {"none"}) == many + 2 - 32);
    CHECK(fixture.sum("cuda_memory_allocations_total", {"62"}) == 1);
    CHECK(label_sets(fixture) < 1'000);
}

TEST_CASE("one process cannot make more kernels, shapes or errors than there is room for") {
    Fixture fixture({.budget = [](std::string_view) { return budget; }});
    fixture.allocations(process());
    constexpr std::uint64_t many = 100'000;
    fixture.calls(failed("cudaMemcpy", 2));
    for (std::uint64_t i = 1; i <= many; i++) {
        fixture.calls(launch(i * 16, 7));
        fixture.calls(failed("cudaMemcpy", static_cast<int>(i) + 10'000));
    }
    fixture.calls(failed("cudaMemcpy", 2));  // has its place already
    CHECK(fixture.asked.size() == 16'384);
    CHECK(fixture.sum("cuda_kernel_launches_total", {"other"}) == many - 16'384);
    CHECK(fixture.sum("cuda_api_errors_total") == many + 2);
    CHECK(fixture.sum("cuda_api_errors_total", {"other"}) == many - 999);
    CHECK(fixture.sum("cuda_api_errors_total", {"cudaErrorMemoryAllocation"}) == 2);
    fixture.aggregator->tidy(60s);
    fixture.aggregator->tidy(70s);
    CHECK(fixture.sum("cuda_kernel_launches_total") == many);
}

TEST_CASE("one kernel cannot have more shapes than there is room for", "[bulk]") {
    Fixture fixture({.budget = [](std::string_view) { return budget; }});
    fixture.allocations(process());
    fixture.allocations(named(16, "gemm"));
    constexpr std::uint32_t many = 70'000;
    for (std::uint32_t i = 1; i <= many; i++) {
        fixture.calls(launch(16, i));
    }
    CHECK(fixture.sum("cuda_kernel_launches_total") == many);
    CHECK(fixture.sum("cuda_kernel_launches_total", {"gemm", "other"}) == many - 65'536);
    CHECK(fixture.page("cuda_kernel_launches_total").size() == 65'537);
}

TEST_CASE("handles without end are forgotten, and those that are known can still be renamed",
          "[bulk]") {
    Fixture fixture;
    fixture.allocations(process());
    for (std::uint64_t i = 1; i <= 50'000; i++) {
        fixture.allocations(named(i, "k"));
        fixture.allocations(stands_for(100'000 + i, 1));
    }
    fixture.allocations(named(1, "renamed"));
    fixture.calls(launch(1, 1));
    fixture.calls(launch(40'000, 1));
    CHECK(fixture.sum("cuda_kernel_launches_total", {"renamed"}) == 1);
    CHECK(fixture.sum("cuda_kernel_launches_total", {"other"}) == 1);
}

TEST_CASE("functions that there are not make one series of errors") {
    Fixture fixture;
    fixture.allocations(process());
    for (std::uint32_t number = 1'000; number < CUDA_CALLED_DRIVER; number++) {
        auto record = failed("cudaMalloc", 7);
        record.head.function = static_cast<std::uint16_t>(number);
        fixture.calls(record);
    }
    CHECK(fixture.page("cuda_api_errors_total").size() == 1);
    CHECK(fixture.sum("cuda_api_errors_total", {"unknown"}) == CUDA_CALLED_DRIVER - 1'000);
}
