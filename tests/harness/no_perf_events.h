// An exporter that may not use perf events, as one without CAP_SYS_ADMIN on Debian and Ubuntu.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "tests/harness/process.h"

namespace harness {

// As long as this lives, the kernel has the sysctl that Debian has, and so refuses perf events to
// who has no CAP_SYS_ADMIN. For Debian's kernels, in guests.
class NoPerfEvents {
public:
    NoPerfEvents() : before_(read_file(file)) {
        REQUIRE(run({"sysctl", "-w", "kernel.perf_event_paranoid=3"}).code == 0);
    }
    ~NoPerfEvents() {
        (void)run({"sysctl", "-w",
                   "kernel.perf_event_paranoid=" + before_.substr(0, before_.find('\n'))});
    }
    NoPerfEvents(const NoPerfEvents &) = delete;
    NoPerfEvents &operator=(const NoPerfEvents &) = delete;

    // What the exporter is started by: with CAP_BPF and CAP_PERFMON, and what it reads files with.
    [[nodiscard]] static std::vector<std::string> starter() {
        const std::string wanted = "-all,+bpf,+perfmon,+sys_ptrace,+dac_read_search";
        return {"setpriv",
                "--reuid=65534",
                "--regid=65534",
                "--clear-groups",
                "--bounding-set=" + wanted,
                "--inh-caps=" + wanted,
                "--ambient-caps=" + wanted};
    }

private:
    static constexpr const char *file = "/proc/sys/kernel/perf_event_paranoid";

    std::string before_;
};

}  // namespace harness
