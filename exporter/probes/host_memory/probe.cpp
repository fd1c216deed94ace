#include "exporter/probes/host_memory/probe.h"

#include <utility>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/ebpf/libbpf.h"
#include "exporter/ebpf/object.h"
#include "exporter/probes/frame/host_probe.h"
#include "exporter/probes/host_memory/aggregator.h"
#include "host_memory.skel.h"

namespace gpusnoop::probes {

namespace {

class HostMemoryProbe final : public HostProbe<host_memory_bpf, HostMemoryAggregator> {
public:
    HostMemoryProbe(const config::Config &config, TracedProcessesPtr traced)
        : HostProbe("host_memory", config, std::move(traced)) {}

private:
    // A kernel without cgroups of memory, or without compaction, lacks the tracepoints of these.
    Result<> configure_programs(host_memory_bpf &skeleton) override {
        const auto &all = skeleton.progs;
        // The end before the beginning, so that each stall that begins is seen to end.
        const struct {
            const char *tracepoint;
            bpf_program *out, *in;
        } kinds[] = {
            {"mm_vmscan_direct_reclaim_begin", all.memory_dr_out, all.memory_dr_in},
            {"mm_vmscan_memcg_reclaim_begin", all.memory_mr_out, all.memory_mr_in},
            {"mm_compaction_begin", all.memory_co_out, all.memory_co_in},
        };
        for (const auto &kind : kinds) {
            const bool exists = ebpf::has_tracepoint(kind.tracepoint);
            for (bpf_program *const program : {kind.out, kind.in}) {
                ebpf::load_if(program, exists);
                if (exists) {
                    programs_.push_back(program);
                }
            }
        }
        return programs_.empty() ? fail_unsupported("this kernel has no tracepoint of reclaim")
                                 : Result<>();
    }

    Result<> attach(host_memory_bpf & /*skeleton*/) override {
        return attach_following(programs_, "memory stalls");
    }

    void refresh() override {
        read_counts<memory_key, memory_stalls>(
            skeleton().maps.memory_counts, "stalls",
            [&](const memory_key &key, const memory_stalls &stalls) {
                aggregator().on_stalls(key, stalls);
            });
    }

    std::vector<const bpf_program *> programs_;  // in the order of attaching
};

constexpr KernelNeed memory_needs[] = {
    {.thing = "the tracepoints of direct reclaim",
     .reason = "the kernel has no vmscan:mm_vmscan_direct_reclaim_begin",
     .costs = "no stall has the kind `direct`",
     .is_met = has_tracepoints<"mm_vmscan_direct_reclaim_begin">},
    {.thing = "the tracepoints of reclaim in cgroups",
     .reason = "the kernel is built without CONFIG_MEMCG",
     .costs = "no stall has the kind `memcg`",
     .is_met = has_tracepoints<"mm_vmscan_memcg_reclaim_begin">},
    {.thing = "the tracepoints of compaction",
     .reason = "the kernel is built without CONFIG_COMPACTION",
     .costs = "no stall has the kind `compaction`",
     .is_met = has_tracepoints<"mm_compaction_begin">},
};

}  // namespace

constinit const ProbeKind host_memory_kind = {
    .name = "host_memory",
    .title = "Lack of host memory",
    .make = make_if_enabled<HostMemoryProbe, HostMemoryConfig>,
    .read_host = read_host_switch<HostMemoryConfig>,
    .follows_processes = is_enabled<HostMemoryConfig>,
    .kernel_needs = memory_needs,
    .declare = declare_families<make_host_memory_families>,
    .counts = {.entries = true,
               .in_flight = true,
               .stale = true,
               .lost = lost_for({LOST_no_state, LOST_process_table, LOST_table_full})},
};

}  // namespace gpusnoop::probes
