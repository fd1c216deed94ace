// Files that cannot be attached to yet: they are being detached from, or a process maps them which
// keeps its mappings locked.
//
// The kernel takes the lock of each process that maps a file to set a breakpoint in the file. It
// would wait for as long as the process likes, and all of discovery with it, and each fork on the
// machine.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "exporter/base/log.h"
#include "exporter/discovery/discovery.h"
#include "exporter/ebpf/attach/mapper_locks.h"

namespace gpusnoop::discovery {

namespace {

using std::chrono::milliseconds;

// While a probe is being detached from the file.
constexpr milliseconds before_next_wait{20};
// A loader holds the lock for microseconds, again and again, while its file is found.
constexpr int first_looks = 4;
// After so many looks, one in each round, the lock is not one that the process just happens to
// hold.
constexpr int before_warning = 10;
// Then each pause between two looks is twice the one before.
constexpr milliseconds shortest_pause{10};
constexpr milliseconds longest_pause{2'000};

// Somebody maps the file thousands of times.
constexpr milliseconds long_look{10};

milliseconds pause_after(int looks) {
    const int doublings = std::clamp(looks - before_warning, 0, 8);
    return std::min(shortest_pause * (1 << doublings), longest_pause);
}

}  // namespace

bool Discovery::must_wait_for(const FileId &id) {
    // Any attacher counts: all share the kernel's breakpoints.
    return std::ranges::any_of(attachers_, [&](Attacher *one) { return one->must_wait_for(id); });
}

bool Discovery::must_wait(const Key &key, const ebpf::Mapping &mapping) {
    const Turns::Spending nobodys(shares_.turns, std::nullopt);  // any process may have the lock
    if (must_wait_for(mapping.file)) {
        offers_.postpone(key, mapping, Clock::now() + before_next_wait);
        return true;
    }
    const int looks = offers_.at(key).looks_at_locks == 0 ? first_looks : 1;
    const auto began = Clock::now();
    const auto free = ebpf::check_mapper_locks(mapping.file, looks);
    if (const auto took = Clock::now() - began; took >= long_look) {
        const std::uint32_t user = user_of(ebpf::main_mapper(mapping.file));
        shares_.turns.spend(user, took);
        shares_.files.spend(user, took);
    }
    if (!free) {
        await_unlock(key, mapping, free.error());
    }
    return !free;
}

void Discovery::await_unlock(const Key &key, const ebpf::Mapping &mapping, const Error &error) {
    File &file = offers_.at(key);
    offers_.postpone(key, mapping, Clock::now() + pause_after(file.looks_at_locks++));
    if (file.looks_at_locks >= before_warning) {
        complain("a library is attached to later", mapping, error);
        found_.failed(*key.first, mapping.file, "not attached to yet: " + error.message);
    }
}

void Discovery::note_unreadable() {
    const std::size_t processes = kernel_.mappings->left_alone();
    progress_.note_unreadable_processes(processes);
    if (processes == 0) {
        return;
    }
    if (const auto more = shares_.lines.due("processes keep their mappings locked")) {
        log::warn(
            "processes keep their mappings locked: libraries that only they use are not attached "
            "to",
            {{"processes", std::to_string(processes)}, {"more_since_last_line", *more}});
    }
}

}  // namespace gpusnoop::discovery
