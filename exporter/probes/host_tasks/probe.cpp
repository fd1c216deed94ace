#include "exporter/probes/host_tasks/probe.h"

#include <bpf/bpf.h>
#include <unistd.h>

#include <array>
#include <utility>
#include <vector>

#include "exporter/base/log.h"
#include "exporter/ebpf/libbpf.h"
#include "exporter/ebpf/mappings/iterator.h"
#include "exporter/ebpf/maps/hash_map.h"
#include "exporter/probes/frame/budget.h"
#include "exporter/probes/frame/host_probe.h"
#include "exporter/probes/host_tasks/aggregator.h"
#include "host_tasks.skel.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

class HostTasksProbe final : public HostProbe<host_tasks_bpf, HostTasksAggregator> {
public:
    HostTasksProbe(const config::Config &config, TracedProcessesPtr traced)
        : HostProbe("host_tasks", config, std::move(traced)),
          read_interval_(config.of<HostConfig>().read_interval),
          budget_(budget_of(config)) {}

private:
    std::vector<ProbeRing> rings(host_tasks_bpf &skeleton) override {
        bpf_map *const map = skeleton.maps.tasks_events;
        return {{map, bpf_map__max_entries(map), [this](auto bytes) {
                     followed().drain();  // who the process is
                     return aggregator().on_record(bytes);
                 }}};
    }

    Result<> attach(host_tasks_bpf &skeleton) override;

    void tick(nanoseconds now) override {
        followed().end_gone(aggregator().processes(), now);
        if ((now - read_ >= read_interval_ && followed().has_any()) || aggregator().has_ended()) {
            read_ = now;
            read_all();
        }
        const auto gone = aggregator().processes().tidy(now);
        forget(gone);
    }
    void refresh() override { read_all(); }
    std::optional<series::FamilySet> gauges() const override {
        series::FamilySet set(budget_, true);
        aggregator().add_memory(set, page_bytes_);
        return set;
    }
    void read_all();
    void forget(const std::vector<ProcessKey> &processes);

    nanoseconds read_interval_;
    series::Budget budget_;
    const std::uint64_t page_bytes_ = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    Fd threads_;  // the iterator
    nanoseconds read_{};
};

Result<> HostTasksProbe::attach(host_tasks_bpf &skeleton) {
    const std::array<const bpf_program *, 3> programs = {
        skeleton.progs.tasks_free, skeleton.progs.tasks_exec, skeleton.progs.tasks_fork};
    if (auto attached = attach_each(programs); !attached) {
        return attached;
    }
    auto threads = ebpf::link_iterator(bpf_program__fd(skeleton.progs.tasks_read));
    if (!threads) {
        return tl::unexpected(threads.error());
    }
    threads_ = std::move(*threads);
    const HostTasksAggregator::Kernel kernel{
        .has_runqueue = ebpf::has_member("sched_info", "run_delay"),
        .has_bytes = ebpf::has_member("task_io_accounting", "read_bytes")};
    aggregator().set_kernel(kernel);
    state().up(programs.size() + 1, "reading the threads of " + traced().describe_followed());
    log::info("reading the kernel's counters of threads",
              {{"probe", "host_tasks"}, {"of", traced().describe_followed()}});
    if (!kernel.has_runqueue) {
        log::info(
            "this kernel does not count waits for a CPU",
            {{"probe", "host_tasks"}, {"needs", "CONFIG_SCHEDSTATS or CONFIG_TASK_DELAY_ACCT"}});
    }
    return {};
}

void HostTasksProbe::read_all() {
    HostTasksAggregator::Reading reading;
    // Before the threads: one that ends in between is missing, and does not count twice.
    const auto past = ebpf::for_each_lookup<std::uint32_t, tasks_past>(
        bpf_map__fd(skeleton().maps.tasks_past), FOLLOWED_MAX_PROCESSES,
        [&](std::uint32_t tgid, const tasks_past &one) { reading.past.emplace_back(tgid, one); });
    if (!past) {
        log::warn("cannot read the counters of exited threads", {{"reason", past.error().message}});
        return;
    }
    const auto read = ebpf::read_iterator(threads_.get(), sizeof(tasks_thread), [&](auto bytes) {
        reading.threads.push_back(*ebpf::decode<tasks_thread>(bytes));
    });
    if (!read) {
        log::warn("cannot read the threads of followed processes",
                  {{"reason", read.error().message}});
        return;
    }
    followed().drain();  // who the processes are
    aggregator().on_reading(reading);
}

// Their ids may be those of new processes.
void HostTasksProbe::forget(const std::vector<ProcessKey> &processes) {
    const int map = bpf_map__fd(skeleton().maps.tasks_past);
    for (const ProcessKey &key : processes) {
        tasks_past past{};
        if (bpf_map_lookup_elem(map, &key.tgid, &past) == 0 && past.since_ns == key.since_ns) {
            bpf_map_delete_elem(map, &key.tgid);
        }
    }
}

constexpr KernelNeed tasks_needs[] = {
    {.thing = "waits of threads for a CPU",
     .reason = "the kernel is built without CONFIG_SCHEDSTATS and CONFIG_TASK_DELAY_ACCT",
     .costs = "gpusnoop_host_runqueue_wait_seconds_total is absent",
     .is_met = has_member<"sched_info", "run_delay">},
    {.thing = "bytes from and to storage",
     .reason = "the kernel is built without CONFIG_TASK_IO_ACCOUNTING",
     .costs = "gpusnoop_host_io_bytes_total is absent",
     .is_met = has_member<"task_io_accounting", "read_bytes">},
};

std::vector<series::FamilySet> declare_host_tasks_families() {
    auto sets = declare_families<make_host_tasks_families>();
    (void)make_host_memory(sets.emplace_back(one_for_each, true));
    return sets;
}

}  // namespace

constinit const ProbeKind host_tasks_kind = {
    .name = "host_tasks",
    .title = "Threads of processes",
    .make = make_if_enabled<HostTasksProbe, HostTasksConfig>,
    .read_host = read_host_switch<HostTasksConfig>,
    .follows_processes = is_enabled<HostTasksConfig>,
    .kernel_needs = tasks_needs,
    .declare = declare_host_tasks_families,
    .counts = {.entries = true,
               .lost = lost_for({LOST_ring_full, LOST_process_table, LOST_table_full})},
};

}  // namespace gpusnoop::probes
