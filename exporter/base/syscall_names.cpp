#include "exporter/base/syscall_names.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <unordered_map>

namespace gpusnoop {

namespace {

constexpr std::int32_t NONE = -1;

struct Syscall {
    std::string_view name;
    std::int32_t x86_64;
    std::int32_t arm64;
    std::string_view group;

    [[nodiscard]] std::int32_t number(Machine machine) const {
        return machine == Machine::x86_64 ? x86_64 : arm64;
    }
};

#define SYSCALL(name, x86_64, arm64, group) Syscall{#name, x86_64, arm64, #group},
constexpr Syscall syscalls[] = {
#include "exporter/base/syscall_table.inc"
};
#undef SYSCALL

constexpr std::string_view no_group = "other";

const Syscall *find(std::string_view name) {
    static const auto by_name = [] {
        std::unordered_map<std::string_view, const Syscall *> names;
        for (const Syscall &one : syscalls) {
            names.emplace(one.name, &one);
        }
        return names;
    }();
    const auto found = by_name.find(name);
    return found == by_name.end() ? nullptr : found->second;
}

// include/linux/errno.h of the kernel: a program never sees these.
std::string_view kernel_errno_name(std::uint32_t number) {
    switch (number) {
        case 512:
            return "ERESTARTSYS";
        case 513:
            return "ERESTARTNOINTR";
        case 514:
            return "ERESTARTNOHAND";
        case 515:
            return "ENOIOCTLCMD";
        case 516:
            return "ERESTART_RESTARTBLOCK";
        case 524:
            return "ENOTSUPP";
        default:
            return "unknown";
    }
}

}  // namespace

Machine this_machine() {
#if defined(__aarch64__)
    return Machine::arm64;
#else
    return Machine::x86_64;
#endif
}

std::optional<std::string_view> syscall_name(std::uint32_t number, Machine machine) {
    const auto found = std::ranges::find_if(syscalls, [&](const Syscall &one) {
        return one.number(machine) == static_cast<std::int32_t>(number);
    });
    return found == std::end(syscalls) || number > 0x7fffffff ? std::nullopt
                                                              : std::optional(found->name);
}

std::optional<std::uint32_t> syscall_number(std::string_view name, Machine machine) {
    const Syscall *const one = find(name);
    return one == nullptr || one->number(machine) == NONE
               ? std::nullopt
               : std::optional(static_cast<std::uint32_t>(one->number(machine)));
}

bool is_syscall(std::string_view name) {
    return find(name) != nullptr;
}

const std::vector<std::string> &syscall_groups() {
    static const auto groups = [] {
        std::vector<std::string> all;
        for (const Syscall &one : syscalls) {
            if (one.group != no_group && std::ranges::find(all, one.group) == all.end()) {
                all.emplace_back(one.group);
            }
        }
        std::ranges::sort(all);
        return all;
    }();
    return groups;
}

std::vector<std::string_view> syscalls_of_group(std::string_view group) {
    std::vector<std::string_view> names;
    for (const Syscall &one : syscalls) {
        if (one.group == group && group != no_group) {
            names.push_back(one.name);
        }
    }
    return names;
}

std::string_view errno_name(std::uint32_t number) {
    const char *const name = number < 512 ? ::strerrorname_np(static_cast<int>(number)) : nullptr;
    return name != nullptr && number != 0 ? name : kernel_errno_name(number);
}

}  // namespace gpusnoop
