// Names of the reasons for which virtual CPUs return to their process.
#pragma once

#include <cstdint>
#include <string_view>

namespace gpusnoop::probes {

// Of struct kvm_key: "io", "mmio", ...; "signal" and "error" where KVM_RUN has failed; "other":
// newer than linux/kvm.h here, or of machines that have no NVIDIA GPUs.
[[nodiscard]] std::string_view kvm_reason_name(std::uint32_t reason);

}  // namespace gpusnoop::probes
