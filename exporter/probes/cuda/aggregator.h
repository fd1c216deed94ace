// CUDA records -> counters, histograms and books. No BPF here: records in, families out.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include <tsl/robin_map.h>

#include "bpf/cuda/cuda.h"
#include "exporter/discovery/gpus/gpus.h"
#include "exporter/probes/cuda/families.h"
#include "exporter/probes/cuda/process.h"
#include "exporter/probes/frame/overview.h"
#include "exporter/probes/frame/process_table.h"

namespace gpusnoop::probes {

// An entry of the kernel's table of live allocations. At its address there may be a younger one by
// now, which is another entry.
struct LiveEntry {
    cuda_live_key key;
    std::uint64_t born_ns;
};

// What the aggregator asks of the world around it; all called from the aggregating thread.
struct CudaSurroundings {
    // Drains the allocations ring now. A call's process and kernel are announced there before the
    // call's own record, so what a record needs is there after this.
    std::function<void()> catch_up = [] {};
    std::function<void(const symbols::Executable &)> remember_executable = [](const auto &) {};
    std::function<void(symbols::CudaKernelRequest)> ask_for_kernel = [](auto) {};
    std::function<void(std::uint64_t ticket, const Process &, const Site &)> ask_for_site =
        [](auto, const auto &, const auto &) {};
    // No process is left that has allocated from there.
    std::function<void(std::int32_t)> forget_stack = [](auto) {};
    // Fills in what /proc says of a process that still runs: exe, container, pod, GPUs.
    std::function<void(Process &)> describe = [](Process &) {};
    // Takes entries out of the kernel's table of live allocations. Returns those that were made at
    // the same addresses meanwhile, and that the table did not have for a moment.
    std::function<std::vector<LiveEntry>(std::span<const LiveEntry>)> forget_live = [](auto) {
        return std::vector<LiveEntry>();
    };
    // Mappings of memory with a handle that a cuMemUnmap ended and left to us. Memory that is
    // freed by that comes as records.
    std::function<void(std::span<const LiveEntry>)> end_mappings = [](auto) {};
};

// The kernel's table of live allocations as it was at some time after `since`, entry by entry.
struct LiveTable {
    std::chrono::nanoseconds since{};
    std::vector<std::pair<cuda_live_key, cuda_live>> entries;
    std::unordered_map<std::uint32_t, cuda_live_process> processes;  // by tgid
    // Processes that ended, and of whose memory records were lost.
    std::map<ProcessKey, cuda_live_process> ended = {};
    // Driver contexts that were destroyed, by process and handle, and when.
    std::map<std::pair<ProcessKey, std::uint64_t>, std::uint64_t> destroyed_ns = {};
};

// For people and programs that look for a leak.
struct SiteAllocations {
    Amount amount;
    SiteName name;
};
struct ProcessAllocations {
    std::uint32_t pid = 0;
    std::string comm, container, pod_uid, exe;
    Amount amount;
    std::vector<SiteAllocations> sites;  // those that hold the most first
};

struct CudaSettings {
    series::Budget budget = [](std::string_view) { return 2000U; };
    bool pid_label = false;
    std::chrono::nanoseconds retention = std::chrono::minutes(10);
    std::vector<discovery::Gpu> gpus = {};  // of the node
    std::uint32_t sites = 10;               // call sites shown of each process
    // What is older was counted by an exporter before this one.
    std::chrono::nanoseconds started{};
};

// Records of the rings come in any relative order; what depends on the order (the book of live
// allocations) is put right by settle(). Times are the kernel's monotonic clock.
class CudaAggregator {
public:
    CudaAggregator(CudaSettings settings, CudaSurroundings surroundings);

    // Of the rings of allocations and of processes.
    void on_allocations_record(std::span<const std::byte> bytes);
    void on_calls_record(std::span<const std::byte> bytes);
    void on_kernel_name(const symbols::CudaKernelReply &answer);
    void on_site_name(symbols::StackReply answer);

    // All rings have been drained up to `until`: everything that ended by then is known, so it can
    // be entered into the books in the order in which it happened.
    void settle(std::chrono::nanoseconds until);

    // Makes the books agree with the kernel's table of live allocations, after records of them were
    // lost, or when the table is older than this exporter. To be called when the rings were
    // drained, and settle() called, after the table was read; watch_frees() before it is read.
    void watch_frees();
    void reconcile(const LiveTable &table);
    // Something of an ended process may be left in the table.
    [[nodiscard]] bool wants_reconciling() const { return wants_reconciling_; }

    // Forgets what has been over for long enough: once a second or so is often enough.
    void tidy(std::chrono::nanoseconds now);

    // Ends the processes that must have ended without our hearing of it. For each rescan interval.
    void scan(std::chrono::nanoseconds now);
    void assume_ended(const ProcessKey &key, std::chrono::nanoseconds now);
    // The processes that have not ended, and when they started.
    [[nodiscard]] std::vector<std::pair<ProcessKey, std::chrono::nanoseconds>> running() const {
        return processes_.running();
    }

    [[nodiscard]] std::vector<series::FamilySnapshot> report(std::chrono::nanoseconds now);
    // What each running process has allocated where. Names that are not known yet are empty.
    [[nodiscard]] std::vector<ProcessAllocations> allocations() const;
    // The processes and the places in them that hold the most.
    [[nodiscard]] MemoryOverview overview() const;
    // Label sets folded so far, by family.
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const;
    // Records that were none of ours, or of the wrong size.
    [[nodiscard]] std::uint64_t undecodable() const { return undecodable_; }
    // What was to be remembered of a process's memory and had no room: the books may be wrong.
    [[nodiscard]] std::uint64_t forgotten() const { return forgotten_; }

private:
    using BookEvent = std::variant<cuda_allocation_record, cuda_mapping_record, cuda_reset_record,
                                   cuda_copy_record, cuda_exit_record>;
    struct FreedKey {
        ProcessKey process;
        AllocationBook::Key key;
        auto operator<=>(const FreedKey &) const = default;
    };

    void on_process(const cuda_process_record &record);
    void on_kernel(const cuda_kernel_record &record);
    void on_name(const cuda_name_record &record);
    void on_copy(const cuda_copy_record &record);
    void on_set(const cuda_copy_record &record);
    void on_graph(const cuda_graph_record &record);
    void on_wait(const cuda_wait_record &record);
    void on_launch(const cuda_launch_record &record);
    void count_error(const cuda_record &head);
    template <typename Record>
    bool keep_for_book(std::span<const std::byte> bytes);

    void enter(const cuda_allocation_record &record);
    void enter(const cuda_mapping_record &record);
    void enter(const cuda_reset_record &record);
    void enter(const cuda_copy_record &record);
    void enter(const cuda_exit_record &record);
    void forget_live(Process &process, std::span<const LiveEntry> entries);
    void free_memory(Process &process, const cuda_allocation_record &record);
    void count_allocation(Process &process, std::int32_t device, std::size_t kind,
                          std::uint64_t bytes);
    void count_free(Process &process, std::int32_t device, std::size_t kind, std::uint64_t bytes);
    bool enter_allocation(Process &process, std::uint64_t address, const Allocation &allocation);
    void drop_from_tables(Process &process);
    using EntriesByProcess =
        std::unordered_map<ProcessKey, std::vector<std::size_t>, ProcessKeyHash>;
    [[nodiscard]] EntriesByProcess processes_in(const LiveTable &table);
    void note_ended(const LiveTable &table);
    void compare(Process &process, const LiveTable &table, const std::vector<std::size_t> &entries);
    static void forget_compared(Process &process, const LiveTable &table);
    void free_absent(Process &process, const LiveTable &table, const AllocationKeys &present);
    void take_missing(Process &process, const AllocationBook::Key &key,
                      const Allocation &allocation);
    void ask_for_site(Process &process, const Site &site);
    MemorySlots &memory_slots(Process &process, std::int32_t device, std::size_t kind);
    void count_copy(Process &process, const cuda_copy_record &record, std::size_t kind);
    void count_launches(Process &process, const LaunchShape &shape, LaunchCount &count,
                        std::uint64_t amount);
    void end(Process &process, std::chrono::nanoseconds at, bool awaits_table);
    void count_unfreed(Process &process);
    void name_kernel(Process &process, std::uint64_t address, std::string name);
    static void rename(Process &process, Kernel &kernel, std::optional<std::string> name,
                       std::uint64_t at_ns);
    static const std::string *former_name(const Process &process, const cuda_launch_record &record);
    series::Slot launch_slot(const Process &process, const LaunchShape &shape,
                             const std::string &name);
    void observe_launch(Process &process, std::int32_t device, const cuda_launch_record &record);
    static void forget_former_name(const Process &process, const LaunchShape &shape,
                                   LaunchCount &count);
    void was_named(Process &process, const Kernel &kernel);
    void count_named();
    void count_waiting(Process &process);
    bool give_up_naming(Process &process);

    Process &process_of(const cuda_record &head);
    static void note_linkage(Process &process, std::uint16_t function);
    Kernel &kernel_of(Process &process, std::uint64_t address);
    CopySlots &copy_slots(Process &process, std::int32_t device, std::size_t kind, bool is_async);
    [[nodiscard]] static bool is_gone(const Process &process, const Allocation &allocation);
    [[nodiscard]] static std::int32_t device_of(const Process &process, std::int32_t device);
    [[nodiscard]] static std::string gpu_of(const Process &process, std::int32_t device);
    [[nodiscard]] static ProcessOverview overview_of(const Process &process);
    void report_process(const Process &process, CudaGauges &gauges,
                        std::chrono::nanoseconds now) const;
    [[nodiscard]] series::LabelValues labels(const Process &process,
                                             std::initializer_list<std::string_view> own) const;

    CudaSettings settings_;
    CudaSurroundings surroundings_;
    series::FamilySet family_set_;
    CudaFamilies families_;
    std::map<std::string, std::uint64_t> folded_gauges_;

    std::pmr::unsynchronized_pool_resource memory_;
    ProcessTable<Process> processes_;

    std::vector<BookEvent> pending_;
    std::chrono::nanoseconds now_;  // of the last tidy(), or the start
    std::uint64_t next_ticket_ = 1;
    std::unordered_map<std::uint64_t, std::pair<ProcessKey, std::uint64_t>> tickets_;
    std::unordered_map<std::uint64_t, std::pair<ProcessKey, Site>> site_tickets_;
    std::unordered_map<std::int32_t, std::uint32_t> stack_users_;  // processes
    std::vector<ProcessKey> named_;
    bool watches_frees_ = false;
    std::set<FreedKey> watched_frees_;
    bool wants_reconciling_ = false;
    std::uint64_t undecodable_ = 0;
    std::uint64_t forgotten_ = 0;
};

}  // namespace gpusnoop::probes
