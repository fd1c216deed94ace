// What the kernel keeps of the threads of followed processes -> counters and gauges. No BPF here:
// readings and records in, families out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bpf/host_tasks.h"
#include "exporter/probes/frame/processes/process_table.h"

namespace gpusnoop::probes {

struct HostTasksFamilies {
    series::Family &cpu, &runqueue, &switches, &faults, &bytes;
};

HostTasksFamilies make_host_tasks_families(series::FamilySet &set);

// Of each running process; a set with the label pid.
series::Family &make_host_memory(series::FamilySet &set);

struct HostTasksProcess : KnownProcess {
    tasks_sums counted{};  // the most that was ever read
    std::array<std::optional<std::array<series::Slot, TASKS_SUMS>>, FOLLOWED_ROLES> slots;
    std::array<std::uint64_t, TASKS_MEMORY_KINDS> pages{};  // at the last reading
    bool has_memory = false;
    std::uint32_t role = FOLLOWED_GPU;  // at the last reading
};

class HostTasksAggregator : public CountingAggregator<make_host_tasks_families, HostTasksProcess> {
public:
    // `has_runqueue`: whether this kernel counts waits for a CPU, and `has_bytes`: bytes from and
    // to storage. A family that it does not count is left out.
    struct Kernel {
        bool has_runqueue = true;
        bool has_bytes = true;
    };
    explicit HostTasksAggregator(const SeriesSettings &settings);

    void set_kernel(const Kernel &kernel) { kernel_ = kernel; }

    // All threads at one time, and then what processes had in threads that have ended. A thread
    // that is between both is missing: counts wait for the next reading then.
    struct Reading {
        std::vector<tasks_thread> threads;
        std::vector<std::pair<std::uint32_t, tasks_past>> past;  // by process id
    };
    void on_reading(const Reading &reading);
    // Whether it has processes that have ended, which must be read once more.
    [[nodiscard]] bool has_ended() const;
    // A record of bpf/host_tasks.h. False: not one.
    bool on_record(std::span<const std::byte> bytes);
    // The gauges of a page, in bytes.
    void add_memory(series::FamilySet &set, std::uint64_t page_bytes) const;

private:
    void count(HostTasksProcess &process, std::uint32_t role, const tasks_sums &sums);
    void add(HostTasksProcess &process, std::uint32_t role, const tasks_sums &amounts);

    Kernel kernel_;
};

}  // namespace gpusnoop::probes
