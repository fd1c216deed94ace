// The BPF side of the functions probe: loading it, and attaching it to the functions that are
// wanted of a library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/discovery/library.h"
#include "exporter/ebpf/features.h"
#include "exporter/ebpf/object.h"
#include "exporter/ebpf/uprobe.h"
#include "exporter/probes/functions/attach/attach_plan.h"
#include "exporter/probes/functions/attach/function_ids.h"
#include "exporter/probes/functions/select/selection.h"
#include "exporter/probes/functions/settings.h"
#include "exporter/probes/functions/tracing.h"

namespace gpusnoop::probes {

// Functions of a file that are attached to together, and so only detached together.
struct FunctionLink {
    ebpf::UprobeSet probes;
    std::vector<AttachedFunction> places;
    // What is not attached to, as the kernel allows no probe on its first instruction.
    std::vector<std::string> refused{};
};

// What calls of a function are counted as.
[[nodiscard]] FunctionInfo shown_as(const discovery::Library &library,
                                    const SelectedFunction &function, bool entry_only);

class FunctionPrograms {
public:
    // What is to be known of single calls.
    struct Details {
        bool slow_calls = false;                   // what was going on in them
        bool all_arguments = false;                // of each call of a function with `arguments`
        bool entries = false;                      // when it begins
        const FunctionTracing *tracing = nullptr;  // null: calls are for counting
    };

    // Loads the programs in the best way that works, or in the one that the configuration names.
    static Result<std::unique_ptr<FunctionPrograms>> load(const FunctionsConfig &config,
                                                          Details details,
                                                          const ebpf::Features &features);
    ~FunctionPrograms();
    FunctionPrograms(const FunctionPrograms &) = delete;
    FunctionPrograms &operator=(const FunctionPrograms &) = delete;

    // All of them at once, under the numbers that `table` gives them. Where the kernel allows no
    // probe on an exit, the function is counted at its entry only; where it allows none on the
    // first instruction, the function is left out. The log names both.
    Result<FunctionLink> attach(const discovery::Library &library,
                                const std::vector<SelectedFunction> &functions,
                                FunctionIds &table) const;

    // What is to be known of the calls that end under this number from now on.
    void set_options(std::uint32_t number, const FunctionInfo &function) const;

    // Has the probes of this number do nothing, but for calls that have begun already. They still
    // stop the program. For any thread.
    void mute(std::uint32_t number, bool on);

    [[nodiscard]] ebpf::AttachMode mode() const { return calls_.mode; }
    [[nodiscard]] int lifecycle_ring() const;
    [[nodiscard]] int calls_ring() const;
    [[nodiscard]] int slow_ring() const;
    [[nodiscard]] int account_map() const;
    // Slow calls whose record found no room in their ring, and were sent as others are.
    [[nodiscard]] std::uint64_t slow_details_lost() const;
    // Records of calls that began that found no room.
    [[nodiscard]] std::uint64_t entries_lost() const;
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
                                    FunctionIds &table) const;

    std::unique_ptr<Loaded> loaded_;
    ebpf::CallPrograms calls_;
    Details details_;
    std::mutex mute_mutex_;
    std::size_t muted_ = 0;
};

}  // namespace gpusnoop::probes
