// The settings of named functions: their files, and the data of their calls.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/ebpf/features.h"

namespace gpusnoop::config {
class Section;
class Value;
}  // namespace gpusnoop::config

namespace gpusnoop::probes {

// The results of a function that are errors, and the names of the errors.
enum class ErrorKind {
    none,  // the result has no error code, or there is no result
    cuda_error,
    cublas_status,
    cudnn_status,
    nccl_result,
    errno_value,  // from -4095 to -1: a negative code, or -1 with a code in errno, unseen
    nonzero,      // any but 0
    null,         // a null pointer
};

// By their names in the configuration.
inline constexpr std::pair<std::string_view, ErrorKind> error_kinds[] = {
    {"cudaError", ErrorKind::cuda_error},
    {"cublasStatus", ErrorKind::cublas_status},
    {"cudnnStatus", ErrorKind::cudnn_status},
    {"ncclResult", ErrorKind::nccl_result},
    {"errno", ErrorKind::errno_value},
    {"nonzero", ErrorKind::nonzero},
    {"null", ErrorKind::null},
    {"none", ErrorKind::none}};

[[nodiscard]] std::string_view to_text(ErrorKind kind);

// The default bounds of the histograms of durations. Few, as each costs a series for each function
// and process.
[[nodiscard]] std::vector<std::chrono::nanoseconds> default_buckets();

// How the calls of a function are recorded.
struct FunctionOptions {
    // A call that takes this long or longer is slow. If it is not set, no call is slow.
    std::optional<std::chrono::nanoseconds> slow_threshold{};
    // Upper bounds of the histogram of durations, ascending, at least one.
    std::vector<std::chrono::nanoseconds> buckets = default_buckets();
    ErrorKind errors = ErrorKind::none;
    // The arguments that are recorded with slow calls, counted from 1 to 6 among the ones that are
    // passed in integer registers.
    std::vector<std::uint8_t> arguments{};
    // Calls are counted at their entry, and nothing else is known of them.
    bool entry_only = false;
    ebpf::Endings endings = ebpf::Endings::automatic;
    bool operator==(const FunctionOptions &) const = default;
};

// The settings that one function, or the file, overrides. A slow_threshold without a value is
// "none".
struct FunctionOverrides {
    std::optional<std::optional<std::chrono::nanoseconds>> slow_threshold{};
    std::optional<std::vector<std::chrono::nanoseconds>> buckets{};
    std::optional<ErrorKind> errors{};
    std::optional<std::vector<std::uint8_t>> arguments{};
    std::optional<bool> entry_only{};
    std::optional<ebpf::Endings> endings{};
    bool operator==(const FunctionOverrides &) const = default;
};

[[nodiscard]] FunctionOptions apply(FunctionOptions options, const FunctionOverrides &overrides);

// The line of a setting in the configuration, for messages. It is ignored in comparisons.
struct ConfigLine {
    int number = 0;  // 0: not from a file
    bool operator==(const ConfigLine & /*other*/) const { return true; }
};

// One or more functions of a group. A function that several patterns match belongs to the one with
// its exact symbol, else to the first.
struct FunctionPattern {
    // A symbol as the file has it (C++: mangled), or a glob for fnmatch(3) without flags.
    std::string symbol;
    bool is_glob = false;
    // The shown name of the function; empty: from its symbol. All matches of a glob with a name are
    // shown as one function.
    std::string name{};
    FunctionOverrides overrides{};
    ConfigLine line{};
    bool operator==(const FunctionPattern &) const = default;
};

// What a program does between two USDT probes of one thread, which counts as a call of a function.
struct UsdtCall {
    std::string name{};  // the shown one
    std::string provider;
    std::string begin;  // probes
    std::string end;
    FunctionOverrides overrides{};  // slow_threshold and buckets
    bool operator==(const UsdtCall &) const = default;
};

// Functions of one library, or of several that belong together. A pattern need not match in each of
// the files.
struct FunctionGroup {
    bool enabled = true;
    // Globs for fnmatch(3) without flags. A glob that begins with / matches the path of a file as
    // the process sees it, others match the file's name.
    std::vector<std::string> libraries{};
    // Files of any other name, too, that export a function which the group names exactly.
    bool match_exports = false;
    std::vector<FunctionPattern> functions{};
    std::vector<UsdtCall> usdt{};
    // Symbols or globs of excluded functions, even if a pattern matches them.
    std::vector<std::string> exclude{};
    FunctionOptions options{};
    bool operator==(const FunctionGroup &) const = default;
};

[[nodiscard]] inline FunctionOptions options_of(const FunctionGroup &group,
                                                const FunctionPattern &pattern) {
    return apply(group.options, pattern.overrides);
}

// Without what only functions have.
[[nodiscard]] inline FunctionOptions options_of(const FunctionGroup &group, const UsdtCall &call) {
    FunctionOptions options = apply(group.options, call.overrides);
    options.errors = ErrorKind::none;
    options.arguments.clear();
    options.entry_only = false;
    return options;
}

// By name, which is [a-z][a-z0-9_]{0,31}.
using FunctionGroups = std::map<std::string, FunctionGroup>;

inline constexpr std::size_t max_function_groups = 64;
inline constexpr std::size_t max_function_patterns = 10'000;  // of one group
inline constexpr std::size_t max_usdt_calls = 256;            // of one group
inline constexpr std::size_t max_function_name = 128;         // bytes
inline constexpr std::size_t max_symbol_bytes = 16 * 1024;    // bytes

// The groups of a configuration without groups: cuda, cublas, cudnn, nccl, libtorch,
// and switched off, python and java.
[[nodiscard]] FunctionGroups shipped_function_groups();

// Reads the mapping of groups onto `groups`: a key of an existing group replaces its value.
void read_function_groups(const config::Value &mapping, FunctionGroups &groups);

// Reads the keys of a mapping that groups and functions share.
[[nodiscard]] FunctionOverrides read_function_overrides(config::Section &section);

// The same groups, with the ends of calls seen at exits if this kernel's return probes would end
// programs (ebpf::Features::has_harmless_return_probes()).
[[nodiscard]] FunctionGroups as_is_harmless(FunctionGroups groups, const ebpf::Features &features);

// Checks the names of libraries and functions in the configuration.
// Each returns a sentence about the problem, or "".

// A file name, or the path of a file; either may be a glob.
[[nodiscard]] std::string library_problem(const std::string &library);

// A symbol, or a glob. `bare`: without a key that marks it as a symbol.
[[nodiscard]] std::string symbol_problem(const std::string &symbol, bool bare);

// The shown name of a function, which becomes the value of a label.
[[nodiscard]] std::string function_name_problem(const std::string &name);

// The provider of a USDT probe, or the probe.
[[nodiscard]] std::string usdt_name_problem(const std::string &name);

}  // namespace gpusnoop::probes
