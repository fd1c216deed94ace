// Names of interrupts.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace gpusnoop::probes {

// The part of a device's interrupt's name that all interrupts of such devices have: without digits,
// queues and addresses, as in "mlx5_comp12@pci:0000:17:00.0" ("mlx_comp") and "virtio1-req.0"
// ("virtio-req"). `actions` are the untrusted names of its handlers. "unknown": it has none.
[[nodiscard]] std::string irq_source(std::string_view actions);

// "net_rx", "timer", ...; "unknown" for a vector that is not of include/linux/interrupt.h.
[[nodiscard]] std::string_view softirq_source(std::uint32_t vector);

// Of the machine's interrupts, by number: /sys/kernel/irq/NUMBER/actions. Remembers them, so a
// number that another device gets keeps the first one's name.
class IrqSources {
public:
    [[nodiscard]] const std::string &of(std::uint32_t number);

private:
    std::map<std::uint32_t, std::string> names_;
};

}  // namespace gpusnoop::probes
