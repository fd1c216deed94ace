#include "exporter/ebpf/attach/cpu_samples.h"

#include <bpf/libbpf.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "exporter/base/fd.h"
#include "exporter/ebpf/cpus.h"

namespace gpusnoop::ebpf {

Result<std::vector<Link>> run_at_cpu_events(const bpf_program *program, const CpuEvent &event) {
    perf_event_attr attr{};
    attr.size = sizeof(attr);
    attr.type = PERF_TYPE_SOFTWARE;
    attr.config = event.config;
    attr.freq = event.frequency != 0 ? 1 : 0;
    if (attr.freq != 0) {
        attr.sample_freq = event.frequency;
    } else {
        attr.sample_period = 1;
    }
    std::vector<Link> links;
    const auto cpus = possible_cpus();
    if (!cpus) {
        return tl::unexpected(cpus.error());
    }
    for (int cpu = 0; cpu < static_cast<int>(*cpus); cpu++) {
        Fd fd(static_cast<int>(
            ::syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC)));
        if (!fd && errno == ENODEV) {
            continue;  // offline
        }
        if (!fd && (errno == EACCES || errno == EPERM)) {
            return fail(
                "perf events are refused: they need CAP_PERFMON, or CAP_SYS_ADMIN where the sysctl "
                "kernel.perf_event_paranoid is above 2",
                errno);
        }
        if (!fd) {
            return fail_errno("open a perf event on CPU " + std::to_string(cpu));
        }
        Link link(bpf_program__attach_perf_event(program, fd.get()));
        if (!link) {
            return fail_errno("attach to a perf event");
        }
        (void)fd.release();  // the link closes it
        links.push_back(std::move(link));
    }
    return links;
}

}  // namespace gpusnoop::ebpf
