#include "workload/everything.h"

#include <algorithm>

namespace demo {

using standin::Dim3;
using truth::MemoryKind;

void Everything::run() {
    const std::uint64_t most = iterations(options_);
    if (most == 0) {
        return;
    }
    for (const auto &begin : beginnings) {
        begin();
    }
    const Deadline deadline(options_);
    for (std::uint64_t done = 0; done < most && !deadline.passed(); ++done) {
        std::shuffle(actions.begin(), actions.end(), generator_);
        for (const auto &action : actions) {
            action();
            if (options_.failures && !failures.empty() && random(16) == 0) {
                any(failures)();
            }
            if (deadline.passed()) {
                break;
            }
        }
    }
    finish();
}

// With calls that may fail: each is tried a few times.
void Everything::finish() {
    if (options_.hold) {
        return;
    }
    for (int attempt = 0; attempt < 10 && !live_.empty(); ++attempt) {
        for (const Live &live : std::vector(live_)) {
            any(frees)(live);
        }
    }
    for (const auto &end : endings) {
        end();
    }
}

Dim3 Everything::random_grid() {
    return {static_cast<std::uint32_t>(1 + random(8)), static_cast<std::uint32_t>(1 + random(2)),
            1};
}

Dim3 Everything::random_block() {
    return {static_cast<std::uint32_t>(32U << random(3)), 1,
            static_cast<std::uint32_t>(1 + random(2))};
}

void Everything::replace_current(const Where &where) {
    if (stack.empty()) {
        stack.push_back(where);
    } else {
        stack.back() = where;
    }
}

truth::Memory &Everything::memory(MemoryKind kind, int device) {
    return tally_.memory[static_cast<std::size_t>(device)][static_cast<std::size_t>(kind)];
}

void Everything::note_allocation(MemoryKind kind, void *start, std::size_t bytes, bool registered) {
    note_allocation(Live{start, bytes, kind, current(), registered});
}

void Everything::note_allocation(const Live &live) {
    truth::Memory &of = memory(live.kind, live.where.device);
    ++of.allocations;
    of.allocated_bytes += live.bytes;
    ++of.outstanding_allocations;
    of.outstanding_bytes += live.bytes;
    live_.push_back(live);
}

void Everything::note_free(const Live &live) {
    truth::Memory &of = memory(live.kind, live.where.device);
    ++of.frees;
    of.freed_bytes += live.bytes;
    --of.outstanding_allocations;
    of.outstanding_bytes -= live.bytes;
    std::erase_if(live_, [&](const Live &other) { return other.start == live.start; });
}

void Everything::note_reset(const Where &where) {
    std::erase_if(live_, [&](const Live &live) {
        if (live.where != where) {
            return false;
        }
        truth::Memory &of = memory(live.kind, live.where.device);
        ++of.freed_by_reset;
        of.freed_by_reset_bytes += live.bytes;
        --of.outstanding_allocations;
        of.outstanding_bytes -= live.bytes;
        return true;
    });
}

void Everything::note_copy(truth::CopyKind kind, truth::CopyMode mode, std::size_t bytes) {
    truth::Copies &of =
        tally_.copies[device()][static_cast<std::size_t>(kind)][static_cast<std::size_t>(mode)];
    ++of.calls;
    of.bytes += bytes;
}

void Everything::note_set(truth::CopyMode mode, std::size_t bytes) {
    truth::Copies &of = tally_.memsets[device()][static_cast<std::size_t>(mode)];
    ++of.calls;
    of.bytes += bytes;
}

truth::LaunchKey Everything::key(const char *kernel, Dim3 grid, Dim3 block) const {
    return {kernel,
            {grid.x, grid.y, grid.z},
            {block.x, block.y, block.z},
            static_cast<std::uint32_t>(current().device)};
}

void Everything::note_launch(const char *kernel, Dim3 grid, Dim3 block) {
    ++tally_.launches;
    ++tally_.launch_table[key(kernel, grid, block)];
}

void Everything::note_graph(const std::vector<GraphStep> &steps) {
    ++tally_.graph_launches[device()];
    for (const GraphStep &step : steps) {
        if (!step.enabled) {
            continue;
        }
        if (step.type == standin::kKernelNode) {
            ++tally_.launches_by_graphs;
            ++tally_.graph_launch_table[key(step.kernel, step.grid, step.block)];
        } else if (step.type == standin::kCopyNode) {
            note_copy(step.direction, truth::CopyMode::graph, step.bytes);
        } else if (step.type == standin::kSetNode) {
            note_set(truth::CopyMode::graph, step.bytes);
        }
    }
}

std::optional<Everything::Live> Everything::pick(std::initializer_list<MemoryKind> kinds) {
    std::vector<Live> found;
    std::ranges::copy_if(live_, std::back_inserter(found), [&](const Live &live) {
        return !live.registered && std::ranges::find(kinds, live.kind) != kinds.end();
    });
    return found.empty() ? std::nullopt : std::optional(any(found));
}

std::optional<Everything::Live> Everything::pick_registered() {
    std::vector<Live> found;
    std::ranges::copy_if(live_, std::back_inserter(found), &Live::registered);
    return found.empty() ? std::nullopt : std::optional(any(found));
}

void *Everything::room_to_register() {
    for (std::size_t i = 0; i < kToRegister; ++i) {
        void *const room = to_register_ + i * kRoom;
        if (std::ranges::find(live_, room, &Live::start) == live_.end()) {
            return room;
        }
    }
    return nullptr;
}

std::size_t Everything::count(std::initializer_list<MemoryKind> kinds) const {
    return static_cast<std::size_t>(std::ranges::count_if(live_, [&](const Live &live) {
        return !live.registered && std::ranges::find(kinds, live.kind) != kinds.end();
    }));
}

void *Everything::device_room() {
    for (int attempt = 0; attempt < 10; ++attempt) {
        if (const auto live = pick({MemoryKind::device, MemoryKind::async, MemoryKind::managed})) {
            return live->start;
        }
        any(allocations)();
    }
    return nullptr;
}

void *Everything::host_room() {
    const auto pinned = coin()   ? pick({MemoryKind::pinned_host})
                        : coin() ? pick_registered()
                                 : std::nullopt;
    return pinned ? pinned->start : host_.data() + random(kHostBytes - kRoom);
}

}  // namespace demo
