#include "exporter/probes/host_kvm/aggregator.h"

#include <linux/kvm.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "exporter/probes/frame/registry.h"
#include "exporter/probes/host_kvm/probe.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;

TEST_CASE("exits of virtual machines count by what came since the last reading") {
    HostKvmAggregator aggregator({.budget = [](std::string_view) { return 100U; },
                                  .retention = std::chrono::seconds(60),
                                  .look_up = [](ProcessIdentity &) { return true; }});
    const auto key = [](kvm_event event, std::uint32_t reason) {
        return kvm_key{.since_ns = 10,
                       .tgid = 7,
                       .event = static_cast<std::uint16_t>(event),
                       .role = FOLLOWED_GPU,
                       .reason = reason,
                       .unused = 0};
    };
    aggregator.on_times(key(KVM_EXIT, 0), {500, 2});
    aggregator.on_times(key(KVM_EXIT, 0), {400, 1});  // an earlier reading
    aggregator.on_times(key(KVM_EXIT, 0), {900, 3});
    aggregator.on_times(key(KVM_USERSPACE, KVM_EXIT_IO), {0, 4});
    aggregator.on_times(key(KVM_USERSPACE, KVM_EXIT_S390_RESET), {0, 1});
    aggregator.on_times(key(KVM_USERSPACE, 1000), {0, 2});
    aggregator.on_times(key(KVM_HALT, 0), {20, 1});
    aggregator.on_times(key(KVM_HALT, 1), {3000, 2});
    aggregator.on_times(key(KVM_EVENTS, 0), {9, 9});
    std::map<std::string, std::uint64_t> values;
    for (const auto &snapshot : aggregator.families().snapshots()) {
        for (std::size_t i = 0; i < snapshot.labels.size(); i++) {
            values[snapshot.description->name + " " + snapshot.labels[i]->back()] =
                snapshot.values[i];
        }
    }
    CHECK(values ==
          std::map<std::string, std::uint64_t>{{"gpusnoop_host_kvm_exits_total gpu", 3},
                                               {"gpusnoop_host_kvm_exit_seconds_total gpu", 900},
                                               {"gpusnoop_host_kvm_userspace_exits_total io", 4},
                                               {"gpusnoop_host_kvm_userspace_exits_total other", 3},
                                               {"gpusnoop_host_kvm_wakeups_total true", 1},
                                               {"gpusnoop_host_kvm_wakeups_total false", 2},
                                               {"gpusnoop_host_kvm_halt_seconds_total gpu", 3020}});
}

TEST_CASE("reasons of exits have the names of linux/kvm.h, in small letters") {
    CHECK(kvm_reason_name(KVM_EXIT_MMIO) == "mmio");
    CHECK(kvm_reason_name(KVM_EXIT_INTERNAL_ERROR) == "internal_error");
    CHECK(kvm_reason_name(KVM_REASON_SIGNAL) == "signal");
    CHECK(kvm_reason_name(KVM_REASON_ERROR) == "error");
    CHECK(kvm_reason_name(~0U) == "other");
}

TEST_CASE("the settings of host_kvm are read") {
    const auto parse = [](const std::string &text) {
        return config::parse(text, "c", setting_blocks());
    };
    CHECK_FALSE(parse("{}")->of<HostKvmConfig>().enabled);
    CHECK(parse("host: {kvm: {enabled: true}}")->of<HostKvmConfig>().enabled);
    CHECK_FALSE(parse("host: {kvm: {on: true}}"));
}
