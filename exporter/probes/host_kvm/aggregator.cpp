#include "exporter/probes/host_kvm/aggregator.h"

#include <linux/kvm.h>

#include <vector>

#include "exporter/probes/frame/processes/followed_processes.h"
#include "exporter/probes/frame/processes/process_counts.h"

namespace gpusnoop::probes {

HostKvmFamilies make_host_kvm_families(series::FamilySet &set) {
    const std::vector<series::Label> role = {{"role"}};
    return {
        .exits = set.counter("host_kvm_exits_total",
                             "Exits of virtual CPUs from their guest that were followed by a new "
                             "entry.",
                             role),
        .exit_seconds = set.counter("host_kvm_exit_seconds_total",
                                    "Time of virtual CPUs outside of their guest, in which the "
                                    "guest does not run, without halted time.",
                                    role, 1e9),
        .userspace_exits = set.counter("host_kvm_userspace_exits_total",
                                       "Exits of virtual CPUs to their process, because the "
                                       "kernel alone could not handle them, by reason.",
                                       {{"role"}, {"reason"}}),
        .wakeups = set.counter("host_kvm_wakeups_total",
                               "Wakeups of halted virtual CPUs, by whether their thread was "
                               "still polling.",
                               {{"role"}, {"polled", true}}),
        .halt_seconds = set.counter("host_kvm_halt_seconds_total",
                                    "Time in which virtual CPUs were halted.", role, 1e9),
    };
}

HostKvmAggregator::HostKvmAggregator(const SeriesSettings &settings)
    : CountingAggregator(settings, counts_grace) {}

void HostKvmAggregator::on_times(const kvm_key &key, const counted_times &now) {
    if (key.event >= KVM_EVENTS || key.role >= FOLLOWED_ROLES) {
        return;
    }
    HostKvmProcess &process = processes_.of({key.tgid, key.since_ns});
    counted_times &counted = process.counted[{key.event, key.reason, key.role}];
    auto values = process.labels;
    values.emplace_back(followed_role_names.at(key.role));
    const auto add = [&](series::Family &family, std::uint64_t amount) {
        family.add(family.slot(process.owner, values), amount);
    };
    const std::uint64_t count = grown(now.count, counted.count);
    const std::uint64_t nanoseconds = grown(now.nanoseconds, counted.nanoseconds);
    switch (key.event) {
        case KVM_EXIT:
            add(of_.exits, count);
            add(of_.exit_seconds, nanoseconds);
            break;
        case KVM_USERSPACE:
            values.emplace_back(kvm_reason_name(key.reason));
            add(of_.userspace_exits, count);
            break;
        default:
            add(of_.halt_seconds, nanoseconds);
            values.emplace_back(key.reason == 0 ? "true" : "false");
            add(of_.wakeups, count);
    }
}

std::string_view kvm_reason_name(std::uint32_t reason) {
    switch (reason) {
        case KVM_EXIT_EXCEPTION:
            return "exception";
        case KVM_EXIT_IO:
            return "io";
        case KVM_EXIT_HYPERCALL:
            return "hypercall";
        case KVM_EXIT_DEBUG:
            return "debug";
        case KVM_EXIT_HLT:
            return "hlt";
        case KVM_EXIT_MMIO:
            return "mmio";
        case KVM_EXIT_IRQ_WINDOW_OPEN:
            return "irq_window_open";
        case KVM_EXIT_SHUTDOWN:
            return "shutdown";
        case KVM_EXIT_FAIL_ENTRY:
            return "fail_entry";
        case KVM_EXIT_INTR:
            return "intr";
        case KVM_EXIT_SET_TPR:
            return "set_tpr";
        case KVM_EXIT_TPR_ACCESS:
            return "tpr_access";
        case KVM_EXIT_NMI:
            return "nmi";
        case KVM_EXIT_INTERNAL_ERROR:
            return "internal_error";
        case KVM_EXIT_SYSTEM_EVENT:
            return "system_event";
        case KVM_EXIT_IOAPIC_EOI:
            return "ioapic_eoi";
        case KVM_EXIT_HYPERV:
            return "hyperv";
        case KVM_EXIT_ARM_NISV:
            return "arm_nisv";
        case KVM_EXIT_X86_RDMSR:
            return "x86_rdmsr";
        case KVM_EXIT_X86_WRMSR:
            return "x86_wrmsr";
        case KVM_EXIT_DIRTY_RING_FULL:
            return "dirty_ring_full";
        case KVM_EXIT_AP_RESET_HOLD:
            return "ap_reset_hold";
        case KVM_EXIT_X86_BUS_LOCK:
            return "x86_bus_lock";
        case KVM_REASON_SIGNAL:
            return "signal";
        case KVM_REASON_ERROR:
            return "error";
        default:
            return "other";
    }
}

}  // namespace gpusnoop::probes
