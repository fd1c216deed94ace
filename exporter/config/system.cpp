#include "exporter/config/system.h"

#include <algorithm>
#include <string_view>

#include "exporter/config/globs.h"
#include "exporter/probes/syscall/choice.h"

namespace gpusnoop::config {

namespace {

constexpr std::size_t max_items = 1'000;
constexpr std::size_t short_id = 12;  // as container runtimes print it
constexpr std::size_t whole_id = 64;

std::string container_problem(const std::string &id) {
    if (id.size() < short_id || id.size() > whole_id ||
        id.find_first_not_of("0123456789abcdef") != std::string::npos) {
        return quoted(id) + " is not a container's id: its first 12 to 64 hexadecimal digits";
    }
    return "";
}

// A list of texts without problems and without repetitions.
template <typename Problem>
void read_texts(Section &section, const std::string &key, std::string_view what,
                std::vector<std::string> &value, Problem problem) {
    const Value *const entry = section.find(key);
    if (entry == nullptr) {
        return;
    }
    const auto items = entry->list("a list of " + std::string(what), what, 0, max_items);
    if (!items) {
        return;
    }
    std::vector<std::string> texts;
    for (const Value &item : *items) {
        const auto text = item.text(what);
        if (!text) {
            continue;
        }
        if (const std::string wrong = problem(*text); !wrong.empty()) {
            item.reject(wrong);
        } else if (std::ranges::find(texts, *text) != texts.end()) {
            item.reject(quoted(*text) + " is in the list twice");
        } else {
            texts.push_back(*text);
        }
    }
    value = std::move(texts);
}

}  // namespace

void read_targets(Section targets, Config::Targets &value) {
    targets.boolean("gpu_processes", value.gpu_processes);
    targets.boolean("everything", value.everything);
    if (const Value *pids = targets.find("pids")) {
        if (const auto items = pids->list("a list of process ids", "process ids", 0, max_items)) {
            value.pids.clear();
            for (const Value &item : *items) {
                if (const auto pid = item.integer(1, 1U << 22U)) {
                    value.pids.push_back(*pid);
                }
            }
        }
    }
    read_texts(targets, "comms", "names of processes", value.comms, glob_problem);
    read_texts(targets, "containers", "ids of containers", value.containers, container_problem);
    targets.finish();
}

void read_syscall(Section syscall, Config::Syscall &value) {
    syscall.boolean("enabled", value.enabled);
    read_texts(syscall, "syscalls", "names of system calls", value.syscalls, syscall_problem);
    syscall.integer("max_counts", value.max_counts, 64, 1U << 22U);
    syscall.finish();
}

void read_fence(Section fence, Config::Fence &value) {
    fence.boolean("enabled", value.enabled);
    fence.integer("max_fences", value.max_fences, 64, 1U << 22U);
    fence.size("ring_bytes", value.ring_bytes, 4U << 10U, 256U << 20U);
    fence.finish();
}

}  // namespace gpusnoop::config
