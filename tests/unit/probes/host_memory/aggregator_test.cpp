#include "exporter/probes/host_memory/aggregator.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "exporter/probes/frame/registry.h"
#include "exporter/probes/host_memory/probe.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;

TEST_CASE("stalls count by what came since the last reading, by kind and role") {
    HostMemoryAggregator aggregator({.budget = [](std::string_view) { return 100U; },
                                     .retention = std::chrono::seconds(60),
                                     .look_up = [](ProcessIdentity &) { return true; }});
    const memory_key key{.since_ns = 10, .tgid = 7, .kind = MEMORY_MEMCG, .role = FOLLOWED_WORKER};
    memory_key other = key;
    other.kind = MEMORY_COMPACTION;
    memory_key wrong = key;
    wrong.kind = MEMORY_STALLS;
    aggregator.on_stalls(key, {500, 2});
    aggregator.on_stalls(key, {400, 1});
    aggregator.on_stalls(other, {7, 1});
    aggregator.on_stalls(wrong, {9, 9});
    aggregator.on_stalls(key, {900, 3});
    aggregator.on_stalls(other, {7, 1});
    std::size_t seen = 0;
    for (const auto &snapshot : aggregator.families().snapshots()) {
        for (std::size_t i = 0; i < snapshot.labels.size(); i++) {
            const std::string &kind = snapshot.labels[i]->back();
            CHECK((*snapshot.labels[i])[snapshot.labels[i]->size() - 2] == "worker");
            const bool is_count = snapshot.description->name.ends_with("stalls_total");
            CHECK(snapshot.values[i] ==
                  (kind == "memcg" ? (is_count ? 3U : 900U) : (is_count ? 1U : 7U)));
            seen++;
        }
    }
    CHECK(seen == 4);
}

TEST_CASE("the settings of host_memory are read") {
    const auto parse = [](const std::string &text) {
        return config::parse(text, "c", setting_blocks());
    };
    CHECK_FALSE(parse("host: {memory: {enabled: false}}")->of<HostMemoryConfig>().enabled);
    CHECK_FALSE(parse("host: {memory: {on: true}}"));
}
