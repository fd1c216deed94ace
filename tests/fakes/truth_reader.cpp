#include "truth_reader.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <tuple>

namespace truth {
namespace {

void add(std::uint64_t &to, std::uint64_t from) {
    to += from;
}

void add(Memory &to, const Memory &from) {
    to.allocations += from.allocations;
    to.allocated_bytes += from.allocated_bytes;
    to.empty_allocations += from.empty_allocations;
    to.frees += from.frees;
    to.freed_bytes += from.freed_bytes;
    to.untracked_frees += from.untracked_frees;
    to.freed_by_reset += from.freed_by_reset;
    to.freed_by_reset_bytes += from.freed_by_reset_bytes;
    to.outstanding_allocations += from.outstanding_allocations;
    to.outstanding_bytes += from.outstanding_bytes;
}

void add(Held &to, const Held &from) {
    to.bytes += from.bytes;
    to.peak_bytes = std::max(to.peak_bytes, from.peak_bytes);
}

void add(Copies &to, const Copies &from) {
    to.calls += from.calls;
    to.bytes += from.bytes;
}

template <typename Value, std::size_t size>
void add(std::array<Value, size> &to, const std::array<Value, size> &from) {
    for (std::size_t at = 0; at < size; ++at) {
        add(to[at], from[at]);
    }
}

template <std::size_t size>
std::string text(const std::array<char, size> &letters) {
    return {letters.begin(), std::find(letters.begin(), letters.end(), '\0')};
}

void add_functions(TruthSnapshot &snapshot, const FileLayout &file) {
    for (std::size_t function = 0; function < kFunctions; ++function) {
        const std::string name = kFunctionNames[function];
        if (file.entered[function] != 0) {
            snapshot.entered[name] = file.entered[function];
        }
        for (std::size_t code = 0; code < kErrorCodes.size(); ++code) {
            if (const std::uint64_t count = file.results[function][code]; count != 0) {
                snapshot.results[{name, kErrorCodes[code]}] = count;
            }
        }
    }
}

TruthSnapshot snapshot_of(const FileLayout &file) {
    TruthSnapshot snapshot;
    snapshot.pid = file.pid;
    snapshot.generation = file.generation;
    snapshot.created_ns = file.created_ns;
    snapshot.comm = text(file.comm);
    snapshot.memory = file.memory;
    snapshot.held = file.held;
    snapshot.copies = file.copies;
    snapshot.memsets = file.memsets;
    snapshot.graph_launches = file.graph_launches;
    snapshot.captured = file.captured;
    snapshot.synchronizations = file.synchronizations;
    snapshot.launches = file.launches;
    snapshot.launches_by_graphs = file.launches_by_graphs;
    snapshot.launches_unlisted = file.launches_unlisted;
    snapshot.empty_frees = file.empty_frees;
    snapshot.elapsed_times = file.elapsed_times;
    snapshot.elapsed_ns = file.elapsed_ns;
    snapshot.elapsed_invalid = file.elapsed_invalid;
    snapshot.nested_entered = file.nested_entered;
    snapshot.nested_calls = file.nested_calls;
    snapshot.returns_without_entry = file.returns_without_entry;
    add_functions(snapshot, file);
    for (const Launches &entry : file.launch_table) {
        if (entry.state == static_cast<std::uint32_t>(EntryState::ready) && entry.count != 0) {
            auto &table = entry.by == static_cast<std::uint32_t>(LaunchedBy::graph)
                              ? snapshot.graph_launch_table
                              : snapshot.launch_table;
            table[{text(entry.name), entry.grid, entry.block, entry.device}] += entry.count;
        }
    }
    return snapshot;
}

// False for a file that its process has created and not filled in yet.
bool read_file(const std::filesystem::path &path, FileLayout &file) {
    std::ifstream stream(path, std::ios::binary);
    stream.read(reinterpret_cast<char *>(&file), sizeof file);
    if (stream.gcount() != 0 && stream.gcount() != sizeof file) {
        throw std::runtime_error(path.string() + ": not the size of a truth file");
    }
    if (stream.gcount() == 0 || file.magic == 0) {
        return false;
    }
    if (file.magic != kMagic || file.version != kVersion) {
        throw std::runtime_error(path.string() + ": not a truth file of this version");
    }
    return true;
}

}  // namespace

Memory TruthSnapshot::of(MemoryKind kind) const {
    Memory total{};
    for (const auto &device : memory) {
        add(total, device[static_cast<std::size_t>(kind)]);
    }
    return total;
}

Memory TruthSnapshot::all_memory() const {
    Memory total{};
    for (const auto &device : memory) {
        for (const Memory &kind : device) {
            add(total, kind);
        }
    }
    return total;
}

Copies TruthSnapshot::of(CopyKind kind, CopyMode mode) const {
    Copies total{};
    for (std::size_t device = 0; device < kDevices; ++device) {
        add(total, of(device, kind, mode));
    }
    return total;
}

Copies TruthSnapshot::sets(CopyMode mode) const {
    Copies total{};
    for (const auto &device : memsets) {
        add(total, device[static_cast<std::size_t>(mode)]);
    }
    return total;
}

std::uint64_t TruthSnapshot::graphs() const {
    return std::accumulate(graph_launches.begin(), graph_launches.end(), std::uint64_t{0});
}

std::uint64_t TruthSnapshot::of(Captured what) const {
    std::uint64_t total = 0;
    for (const auto &device : captured) {
        total += device[static_cast<std::size_t>(what)];
    }
    return total;
}

std::uint64_t TruthSnapshot::waits() const {
    return std::accumulate(synchronizations.begin(), synchronizations.end(), std::uint64_t{0});
}

std::uint64_t TruthSnapshot::calls(std::string_view function) const {
    std::uint64_t total = 0;
    for (auto at = results.lower_bound({std::string(function), 0});
         at != results.end() && at->first.first == function; ++at) {
        total += at->second;
    }
    return total;
}

std::uint64_t TruthSnapshot::result(std::string_view function, int code) const {
    const auto found = results.find({std::string(function), code});
    return found == results.end() ? 0 : found->second;
}

std::uint64_t TruthSnapshot::never_returned(std::string_view function) const {
    const auto found = entered.find(std::string(function));
    return found == entered.end() ? 0 : found->second - calls(function);
}

std::vector<TruthSnapshot> read_truth(const std::filesystem::path &directory) {
    std::vector<TruthSnapshot> snapshots;
    const auto file = std::make_unique<FileLayout>();  // more than a stack should hold
    for (const auto &entry : std::filesystem::directory_iterator(directory)) {
        if (entry.path().extension() == ".truth" && read_file(entry.path(), *file)) {
            snapshots.push_back(snapshot_of(*file));
        }
    }
    std::ranges::sort(snapshots, {}, [](const TruthSnapshot &snapshot) {
        return std::tuple(snapshot.pid, snapshot.generation);
    });
    return snapshots;
}

TruthSnapshot sum(const std::vector<TruthSnapshot> &snapshots) {
    TruthSnapshot total;
    if (!snapshots.empty()) {
        total.pid = snapshots.front().pid;
        total.generation = snapshots.front().generation;
        total.created_ns = snapshots.front().created_ns;
        total.comm = snapshots.front().comm;
    }
    for (const TruthSnapshot &one : snapshots) {
        add(total.memory, one.memory);
        add(total.held, one.held);
        add(total.copies, one.copies);
        add(total.memsets, one.memsets);
        add(total.graph_launches, one.graph_launches);
        add(total.captured, one.captured);
        add(total.synchronizations, one.synchronizations);
        total.launches += one.launches;
        total.launches_by_graphs += one.launches_by_graphs;
        total.launches_unlisted += one.launches_unlisted;
        total.empty_frees += one.empty_frees;
        total.elapsed_times += one.elapsed_times;
        total.elapsed_ns += one.elapsed_ns;
        total.elapsed_invalid += one.elapsed_invalid;
        total.nested_entered += one.nested_entered;
        total.nested_calls += one.nested_calls;
        total.returns_without_entry += one.returns_without_entry;
        for (const auto &[function, count] : one.entered) {
            total.entered[function] += count;
        }
        for (const auto &[key, count] : one.results) {
            total.results[key] += count;
        }
        for (const auto &[key, count] : one.launch_table) {
            total.launch_table[key] += count;
        }
        for (const auto &[key, count] : one.graph_launch_table) {
            total.graph_launch_table[key] += count;
        }
    }
    return total;
}

}  // namespace truth
