// The syscall probe's tables -> counters and histograms. No BPF here: what the tables say in,
// families out.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bpf/syscall.h"
#include "exporter/probes/syscall_families.h"
#include "exporter/probes/traced_processes.h"

namespace gpusnoop::probes {

// What the tables hold at one moment. Each number only grows from one reading to the next, and from
// an entry to the same one further on: it may be there twice.
struct SyscallReading {
    std::vector<std::pair<syscall_key, syscall_counts>> counts;
    std::vector<std::pair<syscall_error_key, std::uint64_t>> errors;
};

struct SyscallSettings {
    series::Budget budget;
    bool pid_label = false;
    std::chrono::nanoseconds retention{};
};

// What a number of bpf/syscall.h is called: "read", "syscall_470", "compat", "unknown".
[[nodiscard]] std::string syscall_label(std::uint32_t number);

// All times are those of the kernel's monotonic clock.
class SyscallAggregator {
public:
    // `look_up` is for the process of a record; see process_identity.h.
    SyscallAggregator(SyscallSettings settings, std::function<bool(ProcessIdentity &)> look_up);

    void on_record(std::span<const std::byte> bytes);
    // Counts what is new since the last reading.
    void on_reading(SyscallReading reading);

    // Lets go of processes that had ended by `read_at`, when the tables were read after that, and
    // of series. What the tables have of the processes returned is to be deleted.
    std::vector<ProcessKey> tidy(std::chrono::nanoseconds read_at, std::chrono::nanoseconds now);

    [[nodiscard]] TracedProcesses &processes() { return processes_; }
    [[nodiscard]] const series::FamilySet &families() const { return family_set_; }
    // Records that were none of ours, or of the wrong size.
    [[nodiscard]] std::uint64_t undecodable() const { return undecodable_; }

private:
    // Of one process: what the last reading had, and where it is counted.
    struct Counted {
        series::Slot calls;
        series::Slot duration;
        syscall_counts last{};
        syscall_counts now{};  // of all shards, while a reading is added up
        bool is_in_reading = false;
    };
    struct CountedError {
        series::Slot slot;
        std::uint64_t last = 0;
    };
    struct Of {
        std::unordered_map<std::uint16_t, Counted> calls;
        std::map<std::pair<std::uint16_t, std::uint16_t>, CountedError> errors;
    };

    Counted &counted(const ProcessKey &key, std::uint16_t number);
    SyscallSettings settings_;
    series::FamilySet family_set_;
    SyscallFamilies families_;
    TracedProcesses processes_;
    std::unordered_map<ProcessKey, Of, ProcessKeyHash> of_;
    std::uint64_t undecodable_ = 0;
};

}  // namespace gpusnoop::probes
