#include "exporter/cli/doctor/checks.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <cstdio>
#include <thread>

#include "exporter/probes/cuda/settings.h"
#include "exporter/probes/frame/privileges.h"
#include "exporter/probes/frame/registry.h"
#include "exporter/probes/functions/settings.h"
#include "exporter/system/machine.h"
#include "exporter/system/priority.h"

namespace gpusnoop::doctor {

namespace {

std::string size_text(std::uint64_t bytes) {
    return bytes == RLIM_INFINITY ? "unlimited" : std::to_string(bytes / 1024) + " KiB";
}

bool memory_counts_by_limit() {
    utsname name{};
    int major = 0;
    int minor = 0;
    return ::uname(&name) == 0 && std::sscanf(name.release, "%d.%d", &major, &minor) == 2 &&
           (major < 5 || (major == 5 && minor < 11));
}

std::uint64_t hard_limit(__rlimit_resource resource) {
    rlimit limit{};
    return ::getrlimit(resource, &limit) == 0 ? limit.rlim_max : RLIM_INFINITY;
}

// "CAP_BPF" is BPF where containers are started.
std::string remedy_for(Capability capability) {
    const std::string name = capability_name(capability);
    return "run it as root, or give it " + name +
           ": AmbientCapabilities= and CapabilityBoundingSet= of a unit, --cap-add=" +
           name.substr(name.find('_') + 1) + " of a container";
}

}  // namespace

std::vector<Finding> judge_capabilities(const std::function<bool(Capability)> &has,
                                        bool attaches_by_perf) {
    std::vector<Finding> findings;
    const auto add = [&](Capability capability, std::string_view lets, std::string_view costs,
                         Verdict without) {
        const bool is_there = has(capability);
        findings.push_back({capability_name(capability), is_there ? Verdict::ok : without,
                            is_there ? "present, to " + std::string(lets) : "missing",
                            is_there ? "" : std::string(costs),
                            is_there ? "" : remedy_for(capability)});
    };
    for (const Privilege &privilege : privileges()) {
        add(privilege.capability, privilege.lets, privilege.costs,
            privilege.is_required ? Verdict::fail : Verdict::warn);
    }
    if (attaches_by_perf) {
        add(CAP_SYS_ADMIN, "attach to functions by perf events",
            "nothing can be attached to by perf events", Verdict::fail);
    }
    return findings;
}

Finding judge_memlock(std::uint64_t limit, std::uint64_t wanted, bool counts_by_limit) {
    const bool is_enough = !counts_by_limit || limit >= wanted;
    return {"memlock", is_enough ? Verdict::ok : Verdict::fail,
            counts_by_limit ? size_text(limit)
                            : size_text(limit) + ", which has no effect since Linux 5.11",
            is_enough ? "" : "the tables in the kernel need " + size_text(wanted),
            is_enough ? "" : "LimitMEMLOCK=infinity in a unit, ulimit -l unlimited in a shell"};
}

Finding judge_files(std::uint64_t limit, bool attaches_by_perf) {
    // Perf events need two for each of the 166 functions of one runtime and driver; else some per
    // library.
    const std::uint64_t wanted = attaches_by_perf ? 4096 : enough_open_files;
    const bool is_enough = limit >= wanted;
    return {
        "open_files", is_enough ? Verdict::ok : Verdict::warn,
        limit == RLIM_INFINITY ? "unlimited" : std::to_string(limit),
        is_enough ? "" : "the exporter may have no descriptors left for some copies of libraries",
        is_enough ? ""
                  : "LimitNOFILE=" + std::to_string(wanted) + " in a unit, ulimit -n " +
                        std::to_string(wanted) + " in a shell"};
}

Finding judge_priority(bool is_preferred) {
    const std::string niceness = std::to_string(counting_niceness);
    return {"priority", Verdict::ok,
            is_preferred ? "the counting thread is preferred (nice " + niceness + ")"
                         : "the counting thread is not preferred",
            is_preferred ? ""
                         : "if programs keep all CPUs busy, records can be lost (LimitNICE=" +
                               niceness + " in a unit, --ulimit nice=35 in Docker)"};
}

std::vector<Finding> examine_privileges(const ebpf::Features &features,
                                        const config::Config &config) {
    const bool by_perf = probes::attaches_by_perf(config, features);
    std::vector<Finding> findings = judge_capabilities(has_capability, by_perf);
    const auto &cuda = config.of<probes::CudaConfig>();
    const auto &functions = config.of<probes::FunctionsConfig>();
    const std::uint64_t rings = std::uint64_t{cuda.allocation_ring_bytes} + cuda.call_ring_bytes +
                                functions.ring_bytes + functions.slow_calls.ring_bytes;
    findings.push_back(judge_memlock(hard_limit(RLIMIT_MEMLOCK), rings, memory_counts_by_limit()));
    findings.push_back(judge_files(hard_limit(RLIMIT_NOFILE), by_perf));
    // Tried on a separate thread, so that no other thread changes.
    bool is_preferred = false;
    std::thread([&] { is_preferred = prefer_this_thread(counting_niceness); }).join();
    findings.push_back(judge_priority(is_preferred));
    return findings;
}

}  // namespace gpusnoop::doctor
