// Exits of virtual machines -> counters. No BPF here: readings of the table in, families out.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>

#include "bpf/host_kvm.h"
#include "exporter/probes/frame/processes/process_table.h"

namespace gpusnoop::probes {

struct HostKvmFamilies {
    series::Family &exits, &exit_seconds, &userspace_exits, &wakeups, &halt_seconds;
};

HostKvmFamilies make_host_kvm_families(series::FamilySet &set);

struct HostKvmProcess : KnownProcess {
    // By event, reason and role.
    std::map<std::tuple<std::uint16_t, std::uint32_t, std::uint16_t>, counted_times> counted;
};

class HostKvmAggregator : public CountingAggregator<make_host_kvm_families, HostKvmProcess> {
public:
    explicit HostKvmAggregator(const SeriesSettings &settings);

    // Counts the difference from what was read of this key before.
    void on_times(const kvm_key &key, const counted_times &now);
};

// Names of the reasons for which virtual CPUs return to their process.
// Of struct kvm_key: "io", "mmio", ...; "signal" and "error" where KVM_RUN has failed; "other":
// newer than linux/kvm.h here, or of machines that have no NVIDIA GPUs.
[[nodiscard]] std::string_view kvm_reason_name(std::uint32_t reason);

}  // namespace gpusnoop::probes
