#include "exporter/probes/syscall/settings.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "exporter/base/text/text.h"
#include "exporter/config/document.h"
#include "exporter/config/reader.h"
#include "exporter/symbols/names/syscall_names.h"

namespace gpusnoop::probes {

void read_syscall(config::Section syscall, config::Config &config) {
    SyscallConfig value;
    syscall.boolean("enabled", value.enabled);
    syscall.texts("syscalls", "names of system calls", value.syscalls, syscall_problem);
    syscall.integer("max_counts", value.max_counts, 64, 1U << 22U);
    syscall.finish();
    config.set(std::move(value));
}

namespace {

// The labels of system calls without a name.
constexpr std::array<std::string_view, 2> nameless = {"compat", "unknown"};

}  // namespace

std::string syscall_problem(const std::string &name) {
    const auto &groups = syscall_groups();
    if (is_syscall(name) || std::ranges::find(groups, name) != groups.end() ||
        std::ranges::find(nameless, name) != nameless.end()) {
        return "";
    }
    std::string list;
    for (const std::string &group : groups) {
        list += (list.empty() ? "" : ", ") + group;
    }
    return in_quotes(name) + " is neither a system call nor a group of them (" + list +
           "), nor compat or unknown";
}

}  // namespace gpusnoop::probes
