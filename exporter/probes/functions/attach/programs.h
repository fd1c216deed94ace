// The BPF side of the functions probe: loads it, and attaches it to the wanted functions of a
// library.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/discovery/library.h"
#include "exporter/ebpf/attach/uprobe.h"
#include "exporter/ebpf/calibration.h"
#include "exporter/ebpf/features.h"
#include "exporter/ebpf/object.h"
#include "exporter/probes/functions/attach/attach_plan.h"
#include "exporter/probes/functions/attach/function_ids.h"
#include "exporter/probes/functions/select/selection.h"
#include "exporter/probes/functions/settings.h"
#include "exporter/probes/functions/tracing.h"

namespace gpusnoop::probes {

// Functions of a file that are attached together, and so are only detached together.
struct FunctionLink {
    ebpf::UprobeSet probes;
    std::vector<AttachedFunction> places;
    // Functions that are not attached to, as the kernel allows no probe on their first instruction.
    std::vector<std::string> refused{};
};

// The labels of a function's calls, and how they are counted.
[[nodiscard]] FunctionInfo shown_as(const std::string &library, const SelectedFunction &function,
                                    bool entry_only);

class FunctionPrograms {
public:
    // The data of single calls that are recorded.
    struct Details {
        bool slow_calls = false;     // their stacks and arguments
        bool all_arguments = false;  // for each call of a function with `arguments`
        bool entries = false;        // a record when a call begins
        // Calls in flight for so long when their thread ends are reported; 0: none.
        std::chrono::nanoseconds unreturned_after{};
        const FunctionTracing *tracing = nullptr;  // null: calls are for counting
    };

    // Loads the programs in the best mode that works, or in the configured one.
    static Result<std::unique_ptr<FunctionPrograms>> load(const FunctionsConfig &config,
                                                          Details details,
                                                          const ebpf::Features &features);
    ~FunctionPrograms();
    FunctionPrograms(const FunctionPrograms &) = delete;
    FunctionPrograms &operator=(const FunctionPrograms &) = delete;

    // Attaches to all of them together, under the numbers that `table` gives them. If the kernel
    // allows no probe on an exit, the function is counted at its entry only; if it allows none on
    // the first instruction, the function is omitted. The log names both. With `is_muted`, their
    // calls count only after mute(number, false); it fails if there are too many numbers for that.
    Result<FunctionLink> attach(const discovery::Library &library,
                                const std::vector<SelectedFunction> &functions, FunctionIds &table,
                                bool is_muted = false);

    // Sets the data that is recorded of calls that end under this number from now on.
    void set_options(std::uint32_t number, const FunctionInfo &function) const;

    // Mutes the probes of this number, except for calls that have begun already. They still stop
    // the program. For any thread.
    void mute(std::uint32_t number, bool on);
    [[nodiscard]] static bool can_mute(std::uint32_t number);

    // What a call of the function costs a process; 0: not measured yet.
    [[nodiscard]] std::chrono::nanoseconds cost_of_call(const AttachedFunction &function) const;

    [[nodiscard]] ebpf::AttachMode mode() const { return calls_.mode; }
    // From now on the programs add up what they cost. For any thread.
    void set_costs(const ebpf::ProbeCosts &costs);
    [[nodiscard]] int lifecycle_ring() const;
    [[nodiscard]] int calls_ring() const;
    [[nodiscard]] int slow_ring() const;
    [[nodiscard]] int account_map() const;
    [[nodiscard]] int processes_map() const;  // its values are func_process
    // The task storage with the open calls of threads.
    [[nodiscard]] int threads_map() const;
    // Slow calls whose record had no room in their ring. They were sent as other calls are.
    [[nodiscard]] std::uint64_t slow_details_lost() const;
    // Records of the beginning of calls that had no room.
    [[nodiscard]] std::uint64_t entries_lost() const;
    [[nodiscard]] const bpf_object *object() const;
    [[nodiscard]] ebpf::Runs runs() const;

private:
    struct Loaded;
    FunctionPrograms(std::unique_ptr<Loaded> loaded, ebpf::CallPrograms calls, Details details);
    static Result<std::unique_ptr<FunctionPrograms>> load_as(ebpf::AttachMode mode,
                                                             const FunctionsConfig &config,
                                                             Details details);
    Result<FunctionLink> attach_all(const discovery::Library &library,
                                    const std::vector<SelectedFunction> &functions,
                                    const std::set<std::uint64_t> &without_exits,
                                    FunctionIds &table, bool is_muted);

    std::unique_ptr<Loaded> loaded_;
    ebpf::CallPrograms calls_;
    Details details_;
    std::mutex mute_mutex_;
    std::size_t muted_ = 0;
};

}  // namespace gpusnoop::probes
