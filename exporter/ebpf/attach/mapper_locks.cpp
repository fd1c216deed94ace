#include "exporter/ebpf/attach/mapper_locks.h"

#include <bpf/libbpf.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "bpf/processes/mappings.h"
#include "exporter/base/fd.h"
#include "exporter/base/log.h"
#include "exporter/ebpf/mappings/iterator.h"
#include "exporter/ebpf/maps/ring.h"
#include "exporter/ebpf/object.h"
#include "mapper_locks.skel.h"

namespace gpusnoop::ebpf {

namespace {

constexpr std::chrono::microseconds between_looks{500};
// The most runs of the program for one look: 85,000 mappings, as a run makes 128 moves, two for
// each of them. Nobody has as many of a library, except somebody who wants to hide a lock there.
constexpr int most_runs = 1330;
// A look that takes longer is repeated once at most.
constexpr std::chrono::milliseconds long_look{5};
// One at so many takes a tenth of a second. It is not repeated before.
constexpr std::chrono::seconds before_repeating{2};

class MapperLocks {
public:
    // Null if the kernel cannot be asked.
    static MapperLocks *of_this_process() {
        static const std::unique_ptr<MapperLocks> locks = open();
        return locks.get();
    }

    Result<std::vector<HeldLock>> look(const FileId &file) {
        const std::lock_guard lock(mutex_);
        std::erase_if(crowds_, [now = Clock::now()](const auto &entry) {
            return now - entry.second.seen >= before_repeating;
        });
        if (crowds_.contains(file.address)) {
            return std::vector<HeldLock>{HeldLock{}};
        }
        auto &state = *skeleton_->bss;
        state.inode_address = file.address;
        state.begins = true;
        std::vector<HeldLock> held;
        for (int run = 0; run < most_runs; run++) {
            const auto read =
                read_iterator(link_.get(), sizeof(held_lock), [&](std::span<const std::byte> at) {
                    const auto record = *decode<held_lock>(at);
                    held.push_back({record.memory, record.holder, record.tgid});
                });
            if (!read) {
                return tl::unexpected(read.error());
            }
            if (state.begins) {
                return fail("the program did not run: is this another pid namespace?");
            }
            if (state.walked_node == 0) {
                return held;
            }
        }
        crowds_[file.address] = {Clock::now(), state.leader_tgid};
        held.push_back({});  // one that may be among the rest
        return held;
    }

    // After a look at this file.
    [[nodiscard]] std::uint32_t leader_of(const FileId &file) {
        const std::lock_guard lock(mutex_);
        const auto crowd = crowds_.find(file.address);
        if (crowd != crowds_.end()) {
            return crowd->second.leader;
        }
        return skeleton_->bss->inode_address == file.address ? skeleton_->bss->leader_tgid : 0;
    }

private:
    using Clock = std::chrono::steady_clock;
    struct Crowd {
        Clock::time_point seen;
        std::uint32_t leader;
    };

    MapperLocks(Skeleton<mapper_locks_bpf> skeleton, Fd link)
        : skeleton_(std::move(skeleton)), link_(std::move(link)) {}

    static std::unique_ptr<MapperLocks> open() {
        Skeleton<mapper_locks_bpf> skeleton(mapper_locks_bpf::open_and_load());
        if (!skeleton) {
            log::warn("cannot see who keeps the mappings of a file locked: attaching waits for it",
                      {{"reason", fail_errno("load a BPF program").value().message}});
            return nullptr;
        }
        const auto self = static_cast<std::uint32_t>(::getpid());
        skeleton->bss->own_tgid = static_cast<int>(self);
        auto link = link_iterator_of(bpf_program__fd(skeleton->progs.mapper_locks), self);
        if (!link) {
            log::warn("cannot see who keeps the mappings of a file locked: attaching waits for it",
                      {{"reason", link.error().message}});
            return nullptr;
        }
        return std::unique_ptr<MapperLocks>(new MapperLocks(std::move(skeleton), *std::move(link)));
    }

    std::mutex mutex_;
    std::map<std::uint64_t, Crowd> crowds_;  // by the file's address
    Skeleton<mapper_locks_bpf> skeleton_;
    Fd link_;
};

}  // namespace

void prepare_mapper_locks() {
    (void)MapperLocks::of_this_process();
}

std::optional<HeldLock> held_throughout(const std::function<Result<std::vector<HeldLock>>()> &look,
                                        int most) {
    std::optional<std::vector<HeldLock>> held;  // in all looks so far
    for (int i = 0; i < most; i++) {
        auto now = look();
        if (!now) {
            return std::nullopt;
        }
        if (!held) {
            held = *std::move(now);
        } else {
            std::erase_if(*held, [&](const HeldLock &lock) {
                return std::ranges::find(*now, lock) == now->end();
            });
        }
        if (held->empty()) {
            return std::nullopt;
        }
    }
    return held ? std::optional(held->front()) : std::nullopt;
}

std::optional<LockingProcess> process_that_locks(const FileId &file, int looks) {
    MapperLocks *const locks = file.address == 0 ? nullptr : MapperLocks::of_this_process();
    if (locks == nullptr) {
        return std::nullopt;
    }
    const auto began = std::chrono::steady_clock::now();
    std::optional first = locks->look(file);
    const bool is_long = std::chrono::steady_clock::now() - began >= long_look;
    const auto held = held_throughout(
        [&] {
            if (first) {
                return *std::exchange(first, std::nullopt);
            }
            std::this_thread::sleep_for(between_looks);
            return locks->look(file);
        },
        is_long ? std::min(looks, 2) : looks);
    if (!held) {
        return std::nullopt;
    }
    return held->memory == 0 ? LockingProcess{locks->leader_of(file), true}
                             : LockingProcess{held->tgid};
}

std::uint32_t main_mapper(const FileId &file) {
    MapperLocks *const locks = file.address == 0 ? nullptr : MapperLocks::of_this_process();
    return locks == nullptr ? 0 : locks->leader_of(file);
}

Result<> check_mapper_locks(const FileId &file, int looks) {
    const auto process = process_that_locks(file, looks);
    if (!process) {
        return {};
    }
    return fail(
        (process->tgid == 0 ? std::string("a process")
                            : "process " + std::to_string(process->tgid)) +
            (process->is_crowd ? " maps it tens of thousands of times: others may hide a lock there"
                               : " maps it and keeps its mappings locked"),
        EAGAIN);
}

}  // namespace gpusnoop::ebpf
