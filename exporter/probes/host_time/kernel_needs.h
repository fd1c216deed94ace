// What the probe `host_time` needs of the kernel.
#pragma once

#include "exporter/probes/frame/kernel_needs.h"

namespace gpusnoop::probes {

inline constexpr KernelNeed host_time_needs[] = {
    {.thing = "waits of threads for a CPU",
     .reason = "the kernel is built without CONFIG_SCHEDSTATS and CONFIG_TASK_DELAY_ACCT",
     .costs = "the probe is unsupported",
     .is_met =
         [](const KernelView &kernel, const config::Config & /*config*/) {
             return kernel.has_member("sched_info", "run_delay");
         }},
    {.thing = "run queues of cgroups",
     .reason = "the kernel is built without CONFIG_FAIR_GROUP_SCHED",
     .costs = "the probe is unsupported",
     .is_met = [](const KernelView &kernel,
                  const config::Config & /*config*/) { return kernel.has_member("cfs_rq", "rq"); }},
    {.thing = "CPU quotas",
     .reason = "the kernel is built without CONFIG_CFS_BANDWIDTH",
     .costs = "no time has the state `throttled`",
     .is_met =
         [](const KernelView &kernel, const config::Config & /*config*/) {
             return kernel.has_member("cfs_bandwidth", "throttled_time");
         }},
};

}  // namespace gpusnoop::probes
