#include "exporter/probes/host_kvm/reasons.h"

#include <linux/kvm.h>

#include "bpf/host_kvm.h"

namespace gpusnoop::probes {

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
