// The past of a continuous profile.
#include "exporter/probes/profile/stacks.h"

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

using namespace gpusnoop::probes;
using namespace std::chrono_literals;

namespace {

// A stack of a thread in a generation of the table, as the kernel counts it.
std::pair<profile_key, profile_count> sample(std::uint32_t tid, std::uint64_t stack,
                                             std::uint32_t generation, std::uint64_t samples) {
    profile_key key{};
    key.tid = tid;
    key.user = (stack << 8U) | (generation & 0xffU);
    key.generation = generation;
    return {key, {.samples = samples, .amount = 0}};
}

ProfileSlice slice(std::chrono::nanoseconds ended, ProfileReading reading) {
    return {.began = ended - 10s, .ended = ended, .reading = std::move(reading)};
}

}  // namespace

TEST_CASE("the past is in whole slices, and no longer than it is kept") {
    ProfileSlices slices;
    for (int i = 1; i <= 5; i++) {
        slices.add(slice(i * 10s, {sample(1, 7, 1, 1)}), i * 10s - 30s);
    }
    CHECK(slices.readings().size() == 4);  // the one that ended just then, too
    CHECK(slices.since(50s).size() == 1);
    CHECK(slices.since(45s).size() == 1);
    CHECK(slices.since(31s).size() == 2);
    CHECK(slices.since(0s).size() == 4);
    CHECK(slices.since(0s).front()->ended == 20s);
    CHECK(slices.since(51s).empty());
}

TEST_CASE("where samples are many, the past is shorter, but the last slice is whole") {
    ProfileSlices slices;
    ProfileReading many(ProfileSlices::max_samples / 2, sample(1, 7, 1, 1));
    for (int i = 1; i <= 3; i++) {
        slices.add(slice(i * 10s, many), 0s);
    }
    CHECK(slices.readings().size() == 2);
    many.resize(ProfileSlices::max_samples + 1, many.front());
    slices.add(slice(40s, many), 0s);
    CHECK(slices.readings().size() == 1);
    CHECK(slices.readings().front()->size() == ProfileSlices::max_samples + 1);
}

TEST_CASE("a stack is the same in all generations of the table") {
    const ProfileSlice old = slice(10s, {sample(1, 7, 1, 3), sample(2, 7, 1, 4)});
    const ProfileSlice next = slice(20s, {sample(1, 7, 300, 5), sample(1, 8, 300, 6)});
    const std::vector<const ProfileSlice *> both = {&old, &next};
    std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint64_t> samples;
    for (const auto &[key, count] : merged(both, {sample(1, 7, 301, 10)})) {
        CHECK(key.generation == 0);
        samples[{key.tid, key.user >> 8U}] += count.samples;
    }
    CHECK(samples == decltype(samples){{{1, 7}, 18}, {{1, 8}, 6}, {{2, 7}, 4}});
    CHECK(merged(both, {sample(1, 7, 301, 10)}).size() == 3);
}
