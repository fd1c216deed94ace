// The most GPU memory that processes, containers and Slurm steps held, against a plain model.
#include "exporter/probes/cuda/memory/memory_peaks.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exporter/probes/cuda/memory/accounting.h"
#include "tests/unit/probes/cuda/fixture.h"
#include "tests/unit/probes/cuda/part_fixture.h"
#include "tests/unit/probes/cuda/table.h"
#include "tests/unit/sanitized.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;
using std::chrono::nanoseconds;

namespace {

constexpr std::uint64_t millisecond_ns = 1'000'000;

struct PeaksFixture : PartFixture {
    MemoryAccounting memory{families, processes, callbacks, 0s};

    PeaksFixture() : PartFixture([this](Process &process) { memory.started(process); }) {}

    Process &in(std::uint32_t pid, std::string container, std::string job = "",
                std::string step = "") {
        Process &one = process(pid);
        one.container = std::move(container);
        one.slurm_job_id = std::move(job);
        one.slurm_step_id = std::move(step);
        return one;
    }
    void end(Process &one, nanoseconds at) {
        one.ended = at;
        memory.ended(one, false);
    }
    [[nodiscard]] HeldMemory of(const JobOwner &owner, nanoseconds until = 100s) const {
        return memory.owners().held_by(owner, until).value();
    }
};

JobOwner container(std::string id) {
    return {.container_id = std::move(id), .slurm_job_id = {}, .slurm_step_id = {}};
}

// GPU -> peak.
std::map<std::string, std::uint64_t> peaks(const HeldMemory &held) {
    std::map<std::string, std::uint64_t> peaks;
    for (const HeldOnGpu &on : held.gpus) {
        peaks[on.gpu] = on.peak_bytes;
    }
    return peaks;
}

using Peaks = std::map<std::string, std::uint64_t>;

}  // namespace

TEST_CASE("the peak is what was held at one moment, between scrapes, too") {
    PeaksFixture fixture;
    Process &process = fixture.process();
    const auto first = allocation(0x1000, 100, 1 * second_ns);
    const auto second = allocation(0x2000, 30, 2 * second_ns);
    const auto third = allocation(0x3000, 90, 5 * second_ns);
    fixture.memory.apply(process, first);
    fixture.memory.apply(process, second);
    fixture.memory.apply(process, release(first, 4 * second_ns));
    fixture.memory.apply(process, third);
    const HeldMemory held = held_by(process, 9s);
    REQUIRE(held.gpus.size() == 1);
    CHECK(held.gpus[0].gpu == "0");
    CHECK(held.gpus[0].bytes == 120);
    CHECK(held.gpus[0].peak_bytes == 130);
    CHECK(held.gpus[0].byte_seconds == 100 * 3 + 30 * 7 + 90 * 4);
    CHECK(held.gpus[0].held_since == 1s);
    CHECK(held.is_complete);
    CHECK(held.since == nanoseconds(bench_since));
    CHECK(held.mean_bytes(held.gpus[0], 9s) == 97);  // of nine seconds less a microsecond
}

TEST_CASE("memory of the host is no GPU's, and managed memory is") {
    PeaksFixture fixture;
    Process &process = fixture.process();
    fixture.memory.apply(process, allocation(0x1000, 1, 1'000, MEMORY_pinned_host));
    auto host = allocation(0x2000, 2, 1'001, MEMORY_vmm);
    host.kind = MEMORY_vmm_host;
    fixture.memory.apply(process, host);
    CHECK(held_by(process, 1s).gpus.empty());
    fixture.memory.apply(process, allocation(0x3000, 4, 1'002, MEMORY_managed));
    fixture.memory.apply(process, allocation(0x4000, 8, 1'003, MEMORY_vmm));
    fixture.memory.apply(process, allocation(0x5000, 16, 1'004, MEMORY_async, 1));
    CHECK(peaks(held_by(process, 1s)) == Peaks{{"0", 12}, {"1", 16}});
}

TEST_CASE("what goes with its context, or is replaced unseen, is held no more") {
    PeaksFixture fixture;
    Process &process = fixture.process();
    fixture.memory.apply(process, allocation(0x1000, 100, 1'000));
    fixture.memory.apply(process, reset(0, 2'000));
    CHECK(held_by(process, 1s).gpus[0].bytes == 0);
    fixture.memory.apply(process, allocation(0x1000, 60, 3'000));
    CHECK(held_by(process, 1s).is_complete);
    auto again = allocation(0x1000, 70, 4'000);
    again.flags = CUDA_ALLOCATION_REPLACES;
    fixture.memory.apply(process, again);
    const HeldMemory held = held_by(process, 1s);
    CHECK(held.gpus[0].bytes == 70);
    CHECK(held.gpus[0].peak_bytes == 100);
    CHECK_FALSE(held.is_complete);
}

TEST_CASE("the peak of a container is that of the sum, not the sum of the peaks") {
    PeaksFixture fixture;
    Process &one = fixture.in(1, "c", "7", "0");
    Process &two = fixture.in(2, "c", "7", "1");
    const auto first = allocation(0x1000, 100, 1'000);
    fixture.memory.apply(one, first);
    fixture.memory.apply(one, release(first, 2'000));
    fixture.memory.apply(two, allocation(0x1000, 80, 3'000));
    CHECK(peaks(fixture.of(container("c"))) == Peaks{{"0", 100}});
    fixture.memory.apply(one, allocation(0x2000, 50, 4'000));
    CHECK(peaks(fixture.of(container("c"))) == Peaks{{"0", 130}});
    CHECK(peaks(fixture.of({{}, "7", "0"})) == Peaks{{"0", 100}});
    CHECK(peaks(fixture.of({{}, "7", "1"})) == Peaks{{"0", 80}});
    CHECK_FALSE(fixture.memory.owners().held_by(container(""), 1s));
    CHECK_FALSE(fixture.memory.owners().held_by({{}, "7", ""}, 1s));
}

TEST_CASE("a process that has ended keeps its peak, and its container holds nothing of it") {
    PeaksFixture fixture;
    Process &one = fixture.in(1, "c");
    fixture.memory.apply(one, allocation(0x1000, 100, 1 * second_ns));
    fixture.end(one, 3s);
    const HeldMemory own = held_by(one, 50s);
    CHECK(own.gpus[0].bytes == 100);
    CHECK(own.gpus[0].peak_bytes == 100);
    CHECK(own.gpus[0].byte_seconds == 200);
    Process &two = fixture.in(2, "c");
    fixture.memory.apply(two, allocation(0x1000, 90, 4 * second_ns));
    const HeldMemory together = fixture.of(container("c"), 5s);
    CHECK(together.gpus[0].bytes == 90);
    CHECK(together.gpus[0].peak_bytes == 100);
    CHECK(together.gpus[0].byte_seconds == 290);
    CHECK(together.is_complete);
    fixture.end(two, 10s);
    fixture.memory.tidy(69s, 60s);
    CHECK(fixture.of(container("c")).gpus[0].bytes == 0);
    fixture.memory.tidy(70s, 60s);
    CHECK_FALSE(fixture.memory.owners().held_by(container("c"), 70s));
}

TEST_CASE("what the table still shows of an ended process is not its container's") {
    PeaksFixture fixture;
    Process &one = fixture.in(1, "c");
    fixture.memory.apply(one, allocation(0x1000, 100, 1'000));
    one.ended = 1s;
    fixture.memory.ended(one, true);
    const auto late = allocation(0x2000, 50, 2'000);
    fixture.memory.add_from_table(one, {false, late.address, 2'000},
                                  {.bytes = late.bytes, .born_ns = 2'000, .site = {}});
    CHECK(peaks(held_by(one, 2s)) == Peaks{{"0", 150}});
    CHECK_FALSE(held_by(one, 2s).is_complete);
    const HeldMemory together = fixture.of(container("c"));
    CHECK(together.gpus[0].bytes == 0);
    CHECK(together.gpus[0].peak_bytes == 100);
    CHECK_FALSE(together.is_complete);
}

TEST_CASE("a GPU that gets its name later keeps its peak") {
    PeaksFixture fixture;
    std::string name = "unknown";
    Process &one = fixture.in(1, "c");
    Process &two = fixture.in(2, "c");
    one.gpu_name = [&](auto) { return name; };
    fixture.memory.apply(one, allocation(0x1000, 100, 1'000));
    fixture.memory.tidy(1s, 60s);
    CHECK(peaks(held_by(one, 2s)) == Peaks{{"unknown", 100}});
    SECTION("alone") {
        name = "3";
        fixture.memory.tidy(2s, 60s);
        CHECK(peaks(held_by(one, 2s)) == Peaks{{"3", 100}});
        CHECK(peaks(fixture.of(container("c"))) == Peaks{{"3", 100}});
        CHECK(fixture.of(container("c")).is_complete);
        fixture.memory.apply(two, allocation(0x1000, 5, 3 * second_ns, MEMORY_device, 3));
        CHECK(peaks(fixture.of(container("c"))) == Peaks{{"3", 105}});
    }
    SECTION("where another process is already") {
        fixture.memory.apply(two, allocation(0x1000, 5, 1 * second_ns, MEMORY_device, 3));
        name = "3";
        fixture.memory.tidy(2s, 60s);
        CHECK(peaks(fixture.of(container("c"))) == Peaks{{"3", 105}});
        CHECK_FALSE(fixture.of(container("c")).is_complete);
        CHECK(held_by(one, 2s).is_complete);
    }
}

TEST_CASE(
    "after losses, and of a process that was not seen from its beginning, the peak is a bound") {
    Fixture fixture({.started = nanoseconds(second_ns)});
    const auto complete = [&](std::uint32_t pid) {
        const Page page = fixture.page("cuda_memory_peak_bytes");
        return sum_of(page, {std::to_string(pid), "true"}) > 0;
    };
    const auto start = [&](std::uint32_t pid, std::uint64_t since) {
        fixture.allocations(process("python", pid, since));
        fixture.allocations(of(pid, since, allocation(0x1000, 8, since + 5)));
    };
    start(1, 2 * second_ns);
    start(2, 2 * second_ns);
    start(3, second_ns / 2);  // before the exporter
    fixture.apply_all();
    CHECK(complete(1));
    CHECK(complete(2));
    CHECK_FALSE(complete(3));
    Table table;
    table.has_process(1, 2 * second_ns).has_process(2, 2 * second_ns);
    table.has(of(1, 2 * second_ns, allocation(0x1000, 8, 2 * second_ns + 5)));
    table.has(of(2, 2 * second_ns, allocation(0x1000, 8, 2 * second_ns + 5)));
    table.processes[2].lost_allocations = 1;
    agree(fixture, table);
    CHECK(complete(1));
    CHECK_FALSE(complete(2));
    fixture.complete = false;
    fixture.aggregator->look_for_missed_calls();
    CHECK_FALSE(complete(1));
}

TEST_CASE("rows of peaks that are folded show the highest of them") {
    Fixture fixture({.budget = [](std::string_view) { return 1U; }});
    for (const std::uint32_t pid : {1U, 2U, 3U}) {
        fixture.allocations(process("python", pid, bench_since));
        fixture.allocations(of(pid, bench_since, allocation(0x1000, 100 * pid, 2'000)));
    }
    fixture.apply_all();
    const Page page = fixture.page("cuda_memory_peak_bytes");
    REQUIRE(page.size() == 2);
    std::uint64_t highest_folded = 0;
    for (const std::uint32_t pid : {1U, 2U, 3U}) {
        if (sum_of(page, {std::to_string(pid)}) == 0) {
            highest_folded = 100 * pid;
        }
    }
    CHECK(sum_of(page, {"other"}) == highest_folded);
}

namespace {

// One sum, as the model keeps it.
struct Sum {
    std::uint64_t now = 0;
    std::uint64_t peak = 0;
    double byte_milliseconds = 0;
};
using Sums = std::map<std::pair<std::string, std::string>, Sum>;  // whose, GPU

class PeaksModel {
public:
    explicit PeaksModel(unsigned seed) : random_(seed) {
        for (std::uint32_t pid = 1; pid <= 8; pid++) {
            Process &one = fixture_.in(pid, pid % 4 == 0 ? "" : "c" + std::to_string(pid % 2),
                                       pid % 3 == 0 ? "" : "job", std::to_string(pid % 2));
            one.gpu_name = [pid](auto ordinal) { return std::to_string((*ordinal + pid) % 4); };
            running_.push_back(pid);
        }
    }

    void step() {
        pass(1 + random_() % 1'000);
        const std::uint32_t pid = running_[random_() % running_.size()];
        const auto choice = random_() % 1'000;
        if (choice == 0 && running_.size() > 2) {
            return end(pid);
        }
        auto &live = live_[pid];
        if (live.empty() || choice < 520) {
            const auto kind = static_cast<std::uint16_t>(random_() % MEMORY_KIND_COUNT);
            const auto device = static_cast<std::int32_t>(random_() % 3);
            const auto one =
                allocation(next_address_ += 0x1000, 1 + random_() % 1'000, now(), kind, device);
            live.push_back(one);
            fixture_.memory.apply(fixture_.process(pid), one);
            change(pid, one, true);
        } else {
            const auto index = random_() % live.size();
            const auto one = live[index];
            live.erase(live.begin() + static_cast<std::ptrdiff_t>(index));
            fixture_.memory.apply(fixture_.process(pid), release(one, now()));
            change(pid, one, false);
        }
    }

    void check() {
        Sums seen;
        const auto note = [&](const std::string &whose, const HeldMemory &held) {
            CHECK(held.is_complete);
            for (const HeldOnGpu &on : held.gpus) {
                seen[{whose, on.gpu}] = {on.bytes, on.peak_bytes, on.byte_seconds * 1e3};
            }
        };
        fixture_.processes.for_each([&](const Process &process) {
            note(std::to_string(process.key.tgid), held_by(process, nanoseconds(now())));
        });
        fixture_.memory.owners().for_each(nanoseconds(now()), [&](const JobOwner &owner,
                                                                  const HeldMemory &held) {
            note(owner.container_id + "/" + owner.slurm_job_id + "/" + owner.slurm_step_id, held);
        });
        REQUIRE(seen.size() == sums_.size());
        for (const auto &[key, sum] : sums_) {
            CAPTURE(key.first, key.second);
            CHECK(seen[key].now == sum.now);
            CHECK(seen[key].peak == sum.peak);
            CHECK(std::abs(seen[key].byte_milliseconds - sum.byte_milliseconds) <=
                  1e-9 * sum.byte_milliseconds);
        }
    }

private:
    [[nodiscard]] std::uint64_t now() const { return now_ms_ * millisecond_ns; }
    void pass(std::uint64_t milliseconds) {
        for (auto &[key, sum] : sums_) {
            if (!ended_.contains(key.first)) {
                sum.byte_milliseconds +=
                    static_cast<double>(sum.now) * static_cast<double>(milliseconds);
            }
        }
        now_ms_ += milliseconds;
    }
    [[nodiscard]] std::vector<std::string> owners_of(std::uint32_t pid) {
        std::vector<std::string> owners;
        for (const JobOwner &owner : gpusnoop::probes::owners_of(fixture_.process(pid))) {
            owners.push_back(owner.container_id + "/" + owner.slurm_job_id + "/" +
                             owner.slurm_step_id);
        }
        return owners;
    }
    void change(std::uint32_t pid, const cuda_allocation_record &of, bool is_more) {
        if (of.kind == MEMORY_pinned_host) {
            return;
        }
        const std::string gpu =
            std::to_string((static_cast<std::uint32_t>(of.head.device) + pid) % 4);
        std::vector<std::string> all = owners_of(pid);
        all.push_back(std::to_string(pid));
        for (const std::string &whose : all) {
            Sum &sum = sums_[{whose, gpu}];
            sum.now = is_more ? sum.now + of.bytes : sum.now - of.bytes;
            sum.peak = std::max(sum.peak, sum.now);
        }
    }
    void end(std::uint32_t pid) {
        const std::vector<std::string> owners = owners_of(pid);
        for (std::uint32_t gpu = 0; gpu < 4; gpu++) {
            const auto own = sums_.find({std::to_string(pid), std::to_string(gpu)});
            for (const std::string &owner : owners) {
                if (own != sums_.end()) {
                    sums_[{owner, std::to_string(gpu)}].now -= own->second.now;
                }
            }
        }
        ended_.insert(std::to_string(pid));
        std::erase(running_, pid);
        fixture_.end(fixture_.process(pid), nanoseconds(now()));
    }

    PeaksFixture fixture_;
    std::mt19937_64 random_;
    std::uint64_t now_ms_ = 1;
    std::uint64_t next_address_ = 0;
    std::vector<std::uint32_t> running_;
    std::set<std::string> ended_;
    std::map<std::uint32_t, std::vector<cuda_allocation_record>> live_;
    Sums sums_;
};

}  // namespace

TEST_CASE("peaks and means of random allocations are those of a model") {
    PeaksModel model(static_cast<unsigned>(GENERATE(range(0, random_rounds(20)))));
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 200; i++) {
            model.step();
        }
        model.check();
    }
}
