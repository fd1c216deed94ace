// CUDA records -> counters, histograms and books. No BPF here: records in, families out.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "bpf/cuda.h"
#include "exporter/probes/cuda_families.h"
#include "exporter/probes/cuda_process.h"

namespace gpusnoop::probes {

// What the aggregator asks of the world around it; all called from the aggregating thread.
struct CudaSurroundings {
    // Drains the allocations ring now. A call's process and kernel are announced there before the
    // call's own record, so what a record needs is there after this.
    std::function<void()> catch_up = [] {};
    std::function<void(const symbols::Executable &)> remember_executable = [](const auto &) {};
    std::function<void(symbols::KernelRequest)> ask_for_kernel = [](auto) {};
    // Fills in what /proc says of a process that still runs: exe, container, pod.
    std::function<void(Process &)> describe = [](Process &) {};
};

struct CudaSettings {
    Budget budget = [](std::string_view) { return 2000U; };
    bool pid_label = false;
    std::chrono::nanoseconds retention = std::chrono::minutes(10);
};

// Records of the two rings come in any relative order; what depends on the order (the book of live
// allocations) is put right by settle(). Times are the kernel's monotonic clock.
class CudaAggregator {
public:
    CudaAggregator(CudaSettings settings, CudaSurroundings surroundings);

    void on_allocations_record(std::span<const std::byte> bytes);
    void on_calls_record(std::span<const std::byte> bytes);
    void on_kernel_name(const symbols::KernelAnswer &answer);

    // Both rings have been drained up to `until`: everything that ended by then is known, so it can
    // be entered into the books in the order in which it happened.
    void settle(std::chrono::nanoseconds until);

    // Forgets what has been over for long enough: once a second or so is often enough.
    void tidy(std::chrono::nanoseconds now);

    // A process that must have ended without our hearing of it.
    void assume_ended(const ProcessKey &key, std::chrono::nanoseconds now);
    // The processes that have not ended, and when they started.
    [[nodiscard]] std::vector<std::pair<ProcessKey, std::chrono::nanoseconds>> running() const;

    [[nodiscard]] std::vector<series::FamilySnapshot> report(std::chrono::nanoseconds now);
    // Label sets folded so far, by family.
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const;
    // Records that were none of ours, or of the wrong size.
    [[nodiscard]] std::uint64_t undecodable() const { return undecodable_; }

private:
    struct Group {
        series::Owner owner;
        int processes = 0;
        std::chrono::nanoseconds idle_since{};
    };
    using BookEvent = std::variant<cuda_allocation_record, cuda_copy_record, cuda_exit_record>;

    void on_process(const cuda_process_record &record);
    void on_kernel(const cuda_kernel_record &record);
    void on_copy(const cuda_copy_record &record);
    void on_launch(const cuda_launch_record &record);
    void count_error(const cuda_record &head);

    void enter(const cuda_allocation_record &record);
    void enter(const cuda_copy_record &record);
    void enter(const cuda_exit_record &record);
    void free_memory(Process &process, std::uint64_t address);
    void count_copy(Process &process, const cuda_copy_record &record, std::size_t kind);
    void count_launches(Process &process, const LaunchShape &shape, LaunchCount &count,
                        std::uint64_t amount);
    void end(Process &process, std::chrono::nanoseconds at);
    void leave_group(Process &process, std::chrono::nanoseconds at);
    void name_kernel(Process &process, std::uint64_t address, std::string name);
    void count_waiting(Process &process);
    bool give_up_naming(Process &process);

    Process &process_of(const cuda_record &head);
    Kernel &kernel_of(Process &process, std::uint64_t address);
    CopySlots &copy_slots(Process &process, std::size_t kind, bool is_async);
    void join_group(Process &process);
    [[nodiscard]] series::LabelValues labels(const Process &process,
                                             std::initializer_list<std::string_view> own) const;

    CudaSettings settings_;
    CudaSurroundings surroundings_;
    CudaFamilies families_;
    std::map<std::string, std::uint64_t> folded_gauges_;

    std::pmr::unsynchronized_pool_resource memory_;
    std::unordered_map<ProcessKey, std::unique_ptr<Process>, ProcessKeyHash> processes_;
    Process *recent_ = nullptr;  // of the last record: they come in runs
    std::map<series::LabelValues, Group> groups_;
    series::Owner next_owner_ = 1;

    std::vector<BookEvent> pending_;
    std::chrono::nanoseconds now_{};  // of the last tidy()
    std::uint64_t next_ticket_ = 1;
    std::unordered_map<std::uint64_t, std::pair<ProcessKey, std::uint64_t>> tickets_;
    std::uint64_t undecodable_ = 0;
};

}  // namespace gpusnoop::probes
