#include "exporter/probes/host_tasks/aggregator.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "exporter/ebpf/maps/ring.h"
#include "exporter/probes/frame/processes/followed_processes.h"

namespace gpusnoop::probes {

namespace {

// By enum tasks_memory.
constexpr std::array<std::string_view, TASKS_MEMORY_KINDS> memory_names = {
    "file", "anon", "swap", "shmem", "locked", "pinned"};

constexpr std::chrono::seconds grace{5};
static_assert(grace > std::chrono::nanoseconds(TASKS_READ_AFTER_END_NS));

}  // namespace

HostTasksFamilies make_host_tasks_families(series::FamilySet &set) {
    return {
        .cpu = set.counter("host_cpu_seconds_total", "CPU time of followed processes.", {{"role"}},
                           1e9),
        .runqueue = set.counter("host_runqueue_wait_seconds_total",
                                "Time in which threads of followed processes were runnable "
                                "without a CPU: other threads had it, or their cgroup had used "
                                "up its quota.",
                                {{"role"}}, 1e9),
        .switches = set.counter("host_context_switches_total",
                                "Context switches of threads of followed processes: voluntary if "
                                "the thread waits for something, involuntary if another thread "
                                "gets the CPU.",
                                {{"role"}, {"kind", true}}),
        .faults = set.counter("host_page_faults_total",
                              "Page faults of followed processes; a major fault waits for storage.",
                              {{"role"}, {"kind", true}}),
        .bytes = set.counter("host_io_bytes_total",
                             "Bytes that followed processes caused to be read from and written "
                             "to storage.",
                             {{"role"}, {"op", true}}),
    };
}

series::Family &make_host_memory(series::FamilySet &set) {
    return set.gauge("host_memory_bytes",
                     "Host memory of each running followed process. anon, file and shmem are "
                     "resident, swap is not; locked and pinned memory cannot be swapped out.",
                     {{"role"}, {"kind", true}});
}

HostTasksAggregator::HostTasksAggregator(const SeriesSettings &settings)
    : CountingAggregator(settings, grace) {}

bool HostTasksAggregator::has_ended() const {
    bool has = false;
    processes_.for_each([&](const HostTasksProcess &process) { has = has || process.ended; });
    return has;
}

void HostTasksAggregator::add(HostTasksProcess &process, std::uint32_t role,
                              const tasks_sums &amounts) {
    auto &slots = process.slots.at(role);
    struct Place {
        series::Family &family;
        std::string_view kind;
    };
    const std::array<Place, TASKS_SUMS> places = {{{of_.cpu, ""},
                                                   {of_.runqueue, ""},
                                                   {of_.switches, "voluntary"},
                                                   {of_.switches, "involuntary"},
                                                   {of_.faults, "minor"},
                                                   {of_.faults, "major"},
                                                   {of_.bytes, "read"},
                                                   {of_.bytes, "write"}}};
    const auto is_kept = [&](std::size_t i) {
        return (i != TASKS_RUNQUEUE_NS || kernel_.has_runqueue) &&
               (i < TASKS_READ_BYTES || kernel_.has_bytes);
    };
    if (!slots) {
        slots.emplace();
        for (std::size_t i = 0; i < places.size(); i++) {
            auto values = process.labels;
            values.emplace_back(followed_role_names.at(role));
            if (!places[i].kind.empty()) {
                values.emplace_back(places[i].kind);
            }
            if (is_kept(i)) {
                (*slots)[i] = places[i].family.slot(process.owner, values);
            }
        }
    }
    for (std::size_t i = 0; i < places.size(); i++) {
        if (is_kept(i)) {
            places[i].family.add((*slots)[i], amounts.of[i]);
        }
    }
}

void HostTasksAggregator::count(HostTasksProcess &process, std::uint32_t role,
                                const tasks_sums &sums) {
    tasks_sums grown{};
    for (std::size_t i = 0; i < TASKS_SUMS; i++) {
        grown.of[i] = sums.of[i] - std::min(sums.of[i], process.counted.of[i]);
        process.counted.of[i] += grown.of[i];
    }
    add(process, role, grown);
}

void HostTasksAggregator::on_reading(const Reading &reading) {
    processes_.for_each([](HostTasksProcess &process) { process.has_memory = false; });
    struct Sum {
        tasks_sums sums{};
        std::uint32_t role = FOLLOWED_GPU;
    };
    std::map<ProcessKey, Sum> all;
    for (const tasks_thread &thread : reading.threads) {
        const ProcessKey key{thread.tgid, thread.since_ns};
        Sum &sum = all[key];
        sum.role = thread.role;
        for (std::size_t i = 0; i < TASKS_SUMS; i++) {
            sum.sums.of[i] += thread.sums.of[i];
        }
        if (thread.has_memory != 0) {
            HostTasksProcess &process = processes_.of(key);
            process.has_memory = true;
            for (std::size_t i = 0; i < TASKS_MEMORY_KINDS; i++) {
                process.pages[i] = static_cast<std::uint64_t>(std::max(thread.pages[i], __s64{0}));
            }
        }
    }
    for (const auto &[tgid, past] : reading.past) {
        Sum &sum = all[{tgid, past.since_ns}];
        sum.role = static_cast<std::uint32_t>(past.role);
        for (std::size_t i = 0; i < TASKS_SUMS; i++) {
            // Of a program that began while its process had threads, the base is more.
            sum.sums.of[i] += past.ended.of[i];
            sum.sums.of[i] -= std::min(sum.sums.of[i], past.base.of[i]);
        }
    }
    for (const auto &[key, sum] : all) {
        if (sum.role < FOLLOWED_ROLES) {
            HostTasksProcess &process = processes_.of(key);
            process.role = sum.role;
            count(process, sum.role, sum.sums);
        }
    }
}

bool HostTasksAggregator::on_record(std::span<const std::byte> bytes) {
    const auto record = ebpf::decode<tasks_exec_record>(bytes);
    if (!record || record->role >= FOLLOWED_ROLES) {
        return false;
    }
    HostTasksProcess &process = processes_.of({record->head.tgid, record->head.since_ns});
    process.has_memory = false;
    count(process, record->role, record->sums);
    return true;
}

void HostTasksAggregator::add_memory(series::FamilySet &set, std::uint64_t page_bytes) const {
    series::Family &memory = make_host_memory(set);
    processes_.for_each([&](const HostTasksProcess &process) {
        if (process.ended || !process.has_memory) {
            return;
        }
        for (std::size_t i = 0; i < TASKS_MEMORY_KINDS; i++) {
            const series::LabelValues values = {process.comm,
                                                process.script,
                                                process.container,
                                                process.slurm_job_id,
                                                std::to_string(process.key.tgid),
                                                std::string(followed_role_names.at(process.role)),
                                                std::string(memory_names.at(i))};
            memory.add(memory.slot(1, values), process.pages[i] * page_bytes);
        }
    });
}

}  // namespace gpusnoop::probes
