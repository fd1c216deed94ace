// What probes hand over of GPU processes that end, for the reports that `host_life` makes of them
// (probes/host_life/reports/). Each probe hands over its part when it has counted everything of the
// process.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exporter/probes/frame/processes/process_identity.h"

namespace gpusnoop::probes {

// Of a GPU's memory.
struct HeldTotals {
    std::uint64_t peak_bytes = 0;  // at one moment
    double byte_seconds = 0;       // the bytes held, over time
    std::uint64_t unfreed_bytes = 0;
};
using HeldByGpu = std::map<std::string, HeldTotals>;  // by the label `gpu`

// What the probe `cuda` has counted of a GPU process that has ended. Times are of CLOCK_MONOTONIC.
struct GpuProcessTotals {
    ProcessIdentity process = {};  // with the probe's key
    std::chrono::nanoseconds ended{};
    HeldByGpu held = {};             // also of GPUs that it used and held no memory on
    bool is_memory_complete = true;  // false: it may have held more
    // Of its owners, until now. An owner without processes is forgotten at some time: what it holds
    // after that counts from a later `since`.
    struct Owned {
        JobOwner owner;
        std::chrono::nanoseconds since{};
        HeldByGpu held;
    };
    std::vector<Owned> owned = {};
    std::uint64_t launches = 0;
    std::uint64_t errors = 0;
    std::map<std::string, std::uint64_t> copied_bytes = {};  // by the label `direction`
    bool are_calls_complete = true;  // false: there may have been more of these
    // The same of launches alone: some were not observed, because that costs the process too much.
    bool are_launches_complete = true;
};

// The time in which the host kept the GPU waiting, by its launch gaps after waits.
struct HostWaited {
    std::chrono::nanoseconds time{};
    bool is_complete = true;  // false: the process is older than the probe
};

// For the aggregating thread. All but the first part come at any time around a process's end, and
// are kept for a minute.
class ReportFacts {
public:
    // Nobody takes what is added before this.
    void want() { is_wanted_ = true; }
    [[nodiscard]] bool is_wanted() const { return is_wanted_; }
    // Whether these probes are up: what they hand over nothing of was not there, or is not known.
    struct Sources {
        bool host_time = false;
        bool functions = false;
        bool in_flight = false;
    };
    [[nodiscard]] Sources &sources() { return sources_; }
    [[nodiscard]] const Sources &sources() const { return sources_; }

    // `cuda`: once for each process.
    void add(GpuProcessTotals totals) {
        if (is_wanted_) {
            ended_.push_back(std::move(totals));
        }
    }
    [[nodiscard]] std::vector<GpuProcessTotals> take() { return std::exchange(ended_, {}); }

    // `host_time`, of processes that submitted work: the key is that of the followed process.
    // Again, if there is more.
    void add_waited(const ProcessKey &key, const HostWaited &waited, std::chrono::nanoseconds now) {
        if (auto *const kept = at(waited_, key, now)) {
            *kept = waited;
        }
    }
    // `functions`: slow calls of a process that has ended.
    void add_slow(std::uint32_t pid, std::uint64_t calls, std::chrono::nanoseconds now) {
        if (auto *const kept = at(slow_, pid, now)) {
            *kept += calls;
        }
    }
    // `in_flight`: a thread ended inside of a call that hung.
    void add_hanging(std::uint32_t pid, std::chrono::nanoseconds now) {
        if (auto *const kept = at(hanging_, pid, now)) {
            ++*kept;
        }
    }

    // What is known of a process, once. Nothing: nobody handed it over.
    [[nodiscard]] std::optional<HostWaited> take_waited(const ProcessKey &key) {
        return take_from(waited_, key);
    }
    [[nodiscard]] std::optional<std::uint64_t> take_slow(std::uint32_t pid) {
        return take_from(slow_, pid);
    }
    [[nodiscard]] std::optional<std::uint64_t> take_hanging(std::uint32_t pid) {
        return take_from(hanging_, pid);
    }

    // For once a second.
    void forget_old(std::chrono::nanoseconds now) {
        constexpr std::chrono::minutes age{1};
        const auto is_old = [&](const auto &entry) { return now - entry.second.at > age; };
        std::erase_if(waited_, is_old);
        std::erase_if(slow_, is_old);
        std::erase_if(hanging_, is_old);
    }

private:
    // Of each kind. Most ended processes are no GPU processes, and nobody takes theirs.
    static constexpr std::size_t most = 16'384;

    template <typename T>
    struct Kept {
        T value{};
        std::chrono::nanoseconds at{};
    };
    template <typename Key, typename T>
    using AllKept = std::map<Key, Kept<T>>;

    // Null: there is no room.
    template <typename Key, typename T>
    T *at(AllKept<Key, T> &all, const Key &key, std::chrono::nanoseconds now) const {
        if (!is_wanted_ || (all.size() >= most && !all.contains(key))) {
            return nullptr;
        }
        Kept<T> &kept = all[key];
        kept.at = now;
        return &kept.value;
    }
    template <typename Key, typename T>
    static std::optional<T> take_from(AllKept<Key, T> &all, const Key &key) {
        const auto found = all.extract(key);
        return found ? std::optional(found.mapped().value) : std::nullopt;
    }

    bool is_wanted_ = false;
    Sources sources_;
    std::vector<GpuProcessTotals> ended_;
    AllKept<ProcessKey, HostWaited> waited_;
    AllKept<std::uint32_t, std::uint64_t> slow_;
    AllKept<std::uint32_t, std::uint64_t> hanging_;
};

using ReportFactsPtr = std::shared_ptr<ReportFacts>;

}  // namespace gpusnoop::probes
