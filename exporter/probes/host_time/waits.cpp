#include "exporter/probes/host_time/waits.h"

#include <algorithm>
#include <functional>
#include <span>

#include "exporter/probes/frame/processes/followed_processes.h"
#include "exporter/probes/frame/processes/process_counts.h"
#include "exporter/probes/host_time/calls.h"

namespace gpusnoop::probes {

namespace {

// Idle threads do not sit in these.
constexpr std::array<std::uint32_t, 8> shown_states = {
    HOST_STATE_throttled, HOST_STATE_io_uring, HOST_STATE_file,       HOST_STATE_socket,
    HOST_STATE_pipe,      HOST_STATE_device,   HOST_STATE_page_fault, HOST_STATE_memory};

}  // namespace

void WaitSum::add(const host_waits_record &record) {
    const std::span to(reinterpret_cast<__u64 *>(&waits), HOST_WAIT_WORDS);
    const std::span from(reinterpret_cast<const __u64 *>(&record.waits), HOST_WAIT_WORDS);
    std::ranges::transform(to, from, to.begin(), std::plus<>());
    role = std::min(role, record.waiter.role);  // a worker may have become a GPU process
    root = record.waiter.root;
}

void WaitSum::add(const host_times &times) {
    host_waits_record record{};
    host_waits &of_times = record.waits;
    for (const auto &states : times.off_ns) {
        for (std::size_t state = 0; state < HOST_STATE_COUNT; state++) {
            of_times.ns[state] += states[state];
        }
    }
    of_times.ns[HOST_STATE_running] = times.ran_ns;
    of_times.latency_ns = times.latency_ns;
    std::ranges::copy(times.latencies, of_times.latencies);
    of_times.opened = times.opened;
    of_times.settled = times.settled;
    of_times.file_waits_lost = times.file_waits_lost;
    record.waiter.role = FOLLOWED_GPU;
    add(record);
}

HostWaits::HostWaits(series::FamilySet &set)
    : blocked_(set.counter("host_blocked_seconds_total",
                           "Time in which threads of followed processes were blocked, by what "
                           "they waited for, or throttled by the CPU quota of their cgroup.",
                           {{"role"}, {"state", true}}, 1e9)),
      latency_(set.histogram("host_runqueue_latency_seconds",
                             "Time that a thread of a followed process waited for a CPU before "
                             "it got one, without time throttled by the CPU quota of its cgroup.",
                             {{"role"}}, HOST_LATENCY_BOUNDS, 1e9)),
      files_(set.histogram("host_file_wait_seconds",
                           "Duration of each wait of a thread of a followed process for a file "
                           "or directory, by type of file system. unknown: access by name, as by "
                           "open and stat.",
                           {{"role"}, {"filesystem", true}}, HOST_SPAN_BOUNDS, 1e9)),
      file_seconds_(
          set.counter("host_file_blocked_seconds_total",
                      "Time in which threads of followed processes waited for files and "
                      "directories, by type of file system, as in host_file_wait_seconds.",
                      {{"role"}, {"filesystem", true}}, 1e9)) {}

void HostWaits::count(const KnownProcess &process, Counted &counted, const WaitSum &sum) {
    counted.role_ = sum.role;
    count_blocked(process, counted, sum.waits);
    count_latencies(process, counted, sum.waits);
    (void)grown(sum.waits.opened, counted.sums_.opened);
    (void)grown(sum.waits.settled, counted.sums_.settled);
    (void)grown(sum.waits.file_waits_lost, counted.sums_.file_waits_lost);
}

void HostWaits::count_blocked(const KnownProcess &process, Counted &counted,
                              const host_waits &waits) {
    for (std::uint32_t state = 0; state < HOST_STATE_COUNT; state++) {
        const std::uint64_t added = grown(waits.ns[state], counted.sums_.ns[state]);
        if (added == 0 || std::ranges::find(shown_states, state) == shown_states.end()) {
            continue;
        }
        auto &slot = counted.slots_.at(counted.role_).at(state);
        if (!slot) {
            auto values = process.labels;
            values.emplace_back(followed_role_names.at(counted.role_));
            values.emplace_back(host_state_name(state));
            slot = blocked_.slot(process.owner, values);
        }
        blocked_.add(*slot, added);
    }
}

void HostWaits::count_latencies(const KnownProcess &process, Counted &counted,
                                const host_waits &waits) {
    std::array<std::uint64_t, HOST_LATENCY_BUCKETS + 1> added{};
    std::uint64_t times = 0;
    for (std::size_t i = 0; i < HOST_LATENCY_BUCKETS; i++) {
        added[i] = grown(waits.latencies[i], counted.sums_.latencies[i]);
        times += added[i];
    }
    added[HOST_LATENCY_BUCKETS] = grown(waits.latency_ns, counted.sums_.latency_ns);
    if (times == 0 && added[HOST_LATENCY_BUCKETS] == 0) {
        return;
    }
    auto values = process.labels;
    values.emplace_back(followed_role_names.at(counted.role_));
    latency_.observe_all(latency_.slot(process.owner, values), added);
}

WorkerTimes::FileWaits HostWaits::count_files(const KnownProcess &process, Counted &counted,
                                              std::uint32_t filesystem,
                                              const host_file_waits &waits) {
    Counted::FileWaits &known = counted.files_[filesystem];
    Counted::FileWaits added{};
    std::uint64_t times = 0;
    for (std::size_t i = 0; i < HOST_SPAN_BUCKETS; i++) {
        added[i] = grown(waits.waits[i], known[i]);
        times += added[i];
    }
    added[HOST_SPAN_BUCKETS] = grown(waits.ns, known[HOST_SPAN_BUCKETS]);
    if (times == 0 && added[HOST_SPAN_BUCKETS] == 0) {
        return {};
    }
    auto values = process.labels;
    values.emplace_back(followed_role_names.at(counted.role_));
    values.emplace_back(filesystem_name(filesystem));
    files_.observe_all(files_.slot(process.owner, values), added);
    file_seconds_.add(file_seconds_.slot(process.owner, values), added[HOST_SPAN_BUCKETS]);
    return {.waits = times, .ns = added[HOST_SPAN_BUCKETS]};
}

}  // namespace gpusnoop::probes
