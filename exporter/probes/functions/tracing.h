// How the probe passes on single calls, for `gpusnoop_exporter trace`.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/probes/functions/report/call.h"
#include "exporter/probes/functions/select/selection.h"
#include "exporter/probes/functions/setting_groups.h"
#include "exporter/symbols/elf/elf_file.h"

namespace gpusnoop::probes {

struct FunctionTracing {
    bool stacks = false;
    std::vector<std::uint32_t> pids;     // only these processes, TRACED_PIDS at most; or all
    std::vector<std::string> libraries;  // as in a group; none: those that the groups name
    std::vector<std::string> functions;  // symbols or shown names, or globs for either; none: all
    bool only_slow = false;              // calls that reach their function's slow_threshold
    std::chrono::nanoseconds min_duration{};
    bool entries = false;  // also when they begin
    OnFuncCall on_call{};
    std::uint32_t ring_bytes = 32U << 20U;             // of each of two rings; a power of two
    ebpf::Endings endings = ebpf::Endings::automatic;  // of what only `functions` names

    // Calls that are faster are not wanted; 0: all are.
    [[nodiscard]] std::uint64_t wanted_from_ns(const FunctionOptions &options) const;
    // Whether short calls are left out, and with them those whose duration is not known.
    [[nodiscard]] bool is_by_duration() const {
        return only_slow || min_duration > std::chrono::nanoseconds::zero();
    }
};

// The group of the libraries and functions that `tracing` names, if it names libraries. It is
// called
// "--function", for sentences about it.
[[nodiscard]] FunctionGroups named_groups(const FunctionTracing &tracing);

// As select_functions(): of the functions that `groups` want those that are to be traced. Where
// both libraries and functions are named, also those that no group wants.
[[nodiscard]] Result<Selection> select_traced(const FunctionTracing &tracing,
                                              const symbols::ElfFile &file, int fd,
                                              std::string_view file_name, std::string_view path,
                                              const FunctionGroups &groups,
                                              std::size_t max_functions);

}  // namespace gpusnoop::probes
