#include "exporter/probes/host_irq/probe.h"

#include <utility>
#include <vector>

#include "exporter/probes/frame/host_probe.h"
#include "exporter/probes/host_irq/aggregator.h"
#include "host_irq.skel.h"

namespace gpusnoop::probes {

namespace {

class HostIrqProbe final : public HostProbe<host_irq_bpf, HostIrqAggregator> {
public:
    HostIrqProbe(const config::Config &config, TracedProcessesPtr traced)
        : HostProbe("host_irq", config, std::move(traced)) {}

private:
    // The ends first, so that each interrupt that is seen to begin is seen to end.
    Result<> attach(host_irq_bpf &skeleton) override {
        const std::vector<const bpf_program *> programs = {
            skeleton.progs.irq_hard_out, skeleton.progs.irq_soft_out, skeleton.progs.irq_hard_in,
            skeleton.progs.irq_soft_in};
        return attach_following(programs, "interrupts");
    }

    void refresh() override {
        read_counts<irq_key, counted_times>(
            skeleton().maps.irq_counts, "interrupts",
            [&](const irq_key &key, const counted_times &times) {
                aggregator().on_times(
                    key, times,
                    key.kind == IRQ_SOFT ? softirq_source(key.source) : sources_.of(key.source));
            });
    }

    IrqSources sources_;
};

constexpr KernelNeed irq_needs[] = {
    {.thing = "the tracepoints of interrupts",
     .reason = "the kernel has no irq:irq_handler_entry or irq:softirq_entry",
     .costs = "the probe fails",
     .is_met =
         has_tracepoints<"irq_handler_entry", "irq_handler_exit", "softirq_entry", "softirq_exit">},
};

}  // namespace

constinit const ProbeKind host_irq_kind = {
    .name = "host_irq",
    .title = "Interrupts of processes",
    .make = make_if_enabled<HostIrqProbe, HostIrqConfig>,
    .read_host = read_host_switch<HostIrqConfig>,
    .follows_processes = is_enabled<HostIrqConfig>,
    .kernel_needs = irq_needs,
    .declare = declare_families<make_host_irq_families>,
    .counts = {.entries = true,
               .in_flight = true,
               .stale = true,
               .lost = lost_for({LOST_process_table, LOST_table_full})},
};

}  // namespace gpusnoop::probes
