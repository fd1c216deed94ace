// Passes on single calls, for `gpusnoop_exporter trace`.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/probes/functions/report/slow_calls.h"
#include "exporter/probes/functions/select/selection.h"
#include "exporter/probes/functions/setting_groups.h"
#include "exporter/symbols/elf/elf_file.h"

namespace gpusnoop::probes {

struct FunctionTracing {
    bool stacks = false;
    std::vector<std::uint32_t> pids;     // only these processes, TRACED_PIDS at most; or all
    std::vector<std::string> libraries;  // as in a group; empty: the libraries of the groups
    std::vector<std::string> functions;  // symbols, shown names or globs; empty: all
    bool only_slow = false;              // calls that reach their function's slow_threshold
    std::chrono::nanoseconds min_duration{};
    bool entries = false;  // a line when a call begins, too
    OnFuncCall on_call{};
    std::uint32_t ring_bytes = 32U << 20U;             // of each of two rings; a power of two
    ebpf::Endings endings = ebpf::Endings::automatic;  // for functions named only here

    // Faster calls are not wanted; 0: all are.
    [[nodiscard]] std::uint64_t wanted_from_ns(const FunctionOptions &options) const;
    // Are short calls dropped? Then calls of unknown duration are dropped, too.
    [[nodiscard]] bool is_by_duration() const {
        return only_slow || min_duration > std::chrono::nanoseconds::zero();
    }
};

// The group of the libraries and functions that `tracing` names, if it names libraries. Its name in
// messages is "--function".
[[nodiscard]] FunctionGroups named_groups(const FunctionTracing &tracing);

// As select_functions(), but only the traced functions. If both libraries and functions are named,
// also functions that no group wants.
[[nodiscard]] Result<Selection> select_traced(const FunctionTracing &tracing,
                                              const symbols::ElfFile &file, int fd,
                                              std::string_view file_name, std::string_view path,
                                              const FunctionGroups &groups,
                                              std::size_t max_functions);

}  // namespace gpusnoop::probes
