// Stalls of a process whose cgroup has too little memory, as the kernel's own counter of the same
// tracepoint has them.
#include <linux/perf_event.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "exporter/base/fd.h"
#include "tests/harness/exporter.h"
#include "tests/harness/guest.h"
#include "tests/harness/machine/memory_cgroup.h"
#include "tests/harness/probe_state.h"

using namespace harness;

namespace {

constexpr auto stalls = "gpusnoop_host_reclaim_stalls_total";
constexpr auto host_memory_seconds = "gpusnoop_host_reclaim_stall_seconds_total";

// Counts how often a process meets a tracepoint.
class TracepointCount {
public:
    TracepointCount(const std::string &name, pid_t process) {
        const TemporaryDirectory directory;
        if (::mount("tracefs", directory.path().c_str(), "tracefs", 0, nullptr) != 0) {
            return;
        }
        perf_event_attr attr{};
        attr.type = PERF_TYPE_TRACEPOINT;
        attr.size = sizeof(attr);
        attr.inherit = 1;
        const bool is_there = static_cast<bool>(
            std::ifstream(directory.path() / "events" / name / "id") >> attr.config);
        ::umount2(directory.path().c_str(), MNT_DETACH);
        if (is_there) {
            event_ = gpusnoop::Fd(static_cast<int>(
                ::syscall(SYS_perf_event_open, &attr, process, -1, -1, PERF_FLAG_FD_CLOEXEC)));
        }
    }
    [[nodiscard]] bool works() const { return static_cast<bool>(event_); }
    [[nodiscard]] double value() const {
        std::uint64_t count = 0;
        REQUIRE(::read(event_.get(), &count, sizeof(count)) == sizeof(count));
        return static_cast<double>(count);
    }

private:
    gpusnoop::Fd event_;
};

}  // namespace

TEST_CASE("stalls for lack of memory are counted, each with its time", "[kernel][core]") {
    require_bpf();
    auto memory = MemoryCgroup::make(48U << 20U);
    if (!memory) {
        missing("a memory controller");
    }
    const Exporter exporter(
        "cuda: {enabled: false}\ntargets: {comms: [\"li[v]es\"]}\nhost: {memory: {enabled: "
        "true}}\n");
    // In a guest, files are in memory, which cannot be freed: more than a little would take for
    // ever.
    if (in_guest()) {
        memory->slow_down_past(8U << 20U);
    }
    Process process({standin("lives"), "wait", "write", in_guest() ? "10" : "256", "wait"});
    process.wait_for_output("waiting 1");
    const TracepointCount truth("vmscan/mm_vmscan_memcg_reclaim_begin", process.pid());
    if (!truth.works()) {
        missing("tracefs and perf events of tracepoints");
    }
    memory->take(process.pid());
    CHECK_FALSE(exporter.scrape().has(stalls));
    process.go_on_to(2);
    const Page page = exporter.scrape();
    CHECK(truth.value() > 0);
    const Labels of_process = {{"comm", "lives"}, {"role", "gpu"}, {"kind", "memcg"}};
    CHECK(page.sum(stalls, of_process) == truth.value());
    CHECK(page.sum(host_memory_seconds, of_process) > 0);
    CHECK(state_of(page, "host_memory") == "up");
    const Labels probe = {{"probe", "host_memory"}};
    CHECK(page.sum("gpusnoop_probe_events_lost_total", probe) == 0);
    CHECK(page.sum("gpusnoop_probe_in_flight_calls", probe) == 0);
    CHECK(page.sum("gpusnoop_probe_entries_total", probe) == page.sum(stalls));
    CHECK(exporter.scrape().sum(stalls) == page.sum(stalls));  // none at rest
    process.finish();
}
