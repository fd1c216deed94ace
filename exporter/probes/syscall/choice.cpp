#include "exporter/probes/syscall/choice.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "exporter/base/text/text.h"
#include "exporter/config/problems.h"
#include "exporter/symbols/names/syscall_names.h"

namespace gpusnoop::probes {

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
