// The processes that the probes of the host group count: GPU processes, those that `targets:`
// names, and what they start. One table for all of these probes.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bpf/lib/processes/followed.h"
#include "exporter/base/result.h"
#include "exporter/probes/frame/processes/cuda_shared.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/frame/processes/process_table.h"
#include "exporter/probes/frame/processes/target_processes.h"

struct bpf_map;

namespace gpusnoop::probes {

// The values of the label `role`, by enum followed_role.
inline constexpr std::array<std::string_view, FOLLOWED_ROLES> followed_role_names = {"gpu",
                                                                                     "worker"};
// The same of reasons as in bpf/lib/processes/followed.h.
[[nodiscard]] std::string_view role_name(std::uint32_t reasons);

// How long an ended process is known: records of other rings may come later than its end.
inline constexpr std::chrono::seconds kept_after_end{10};

// Loaded and attached when the first probe asks for it (TracedProcesses::follow()). All but lost()
// and share_maps_with() are for the aggregating thread.
class FollowedProcesses {
public:
    struct Settings {
        bool descendants = true;
        std::uint32_t except = 0;   // as in struct Following
        bool looks_always = false;  // each second, if nobody says whether there are new ones
        std::chrono::nanoseconds rescan_interval{};
    };
    // Processes that run already are followed when this returns. The programs of `cuda` enter
    // processes into the maps `of_cuda`, if it shares them.
    static Result<std::unique_ptr<FollowedProcesses>> start(const Settings &settings,
                                                            const TargetProcesses &targets,
                                                            const FollowMaps &of_cuda);
    ~FollowedProcesses();
    FollowedProcesses(const FollowedProcesses &) = delete;
    FollowedProcesses &operator=(const FollowedProcesses &) = delete;

    // Makes a skeleton with the maps of bpf/lib/processes/followed.bpf.h use ours: after open,
    // before load.
    template <typename Skeleton>
    Result<> share_maps_with(Skeleton &skeleton) const {
        return share_maps_with(skeleton.maps.follow_procs, skeleton.maps.follow_filter);
    }

    // Hands each record to `use` from now on, after it has been applied here; `process` is the
    // record's.
    using OnRecord = std::function<void(const follow_record &, const ProcessIdentity &process)>;
    void on_record(OnRecord use) { users_.push_back(std::move(use)); }

    // Reads the ring. Each second, it follows processes that could not be seen to start, if there
    // may be some; each rescan interval, it looks for processes that have ended unseen. Every probe
    // calls this at every drain.
    void drain();

    // The processes that have not ended.
    struct Entry {
        ProcessKey key;
        std::chrono::nanoseconds started{};  // since boot
        std::uint32_t reasons = 0;
        std::uint32_t root = 0;  // the process that began it; of a GPU process, mostly itself
    };
    [[nodiscard]] std::vector<Entry> running() const;
    // Whether there may be any.
    [[nodiscard]] bool has_any() const;

    // The `look_up` of SeriesSettings: fills in who the process with this key is. Short processes
    // are known once their record is drained: so drain() comes before a probe counts for a process.
    bool identify(ProcessIdentity &identity);

    // Whether it runs, or has ended a moment ago.
    [[nodiscard]] bool knows(const ProcessKey &key) const;

    // Ends those processes of the table that have ended, or are followed no more.
    void end_gone(ProcessTableBase &table, std::chrono::nanoseconds now) const;

    // Adds the processes that found no room to a probe's account: it has none of them. For any
    // thread.
    void add_lost(probe_account &account) const;
    // What the table's programs have counted. For any thread.
    [[nodiscard]] follow_counts counts() const;

private:
    struct Loaded;
    struct Known {
        ProcessIdentity identity;
        std::optional<std::chrono::nanoseconds> ended;
    };
    using Entries = std::vector<std::pair<std::uint32_t, followed>>;

    FollowedProcesses(std::unique_ptr<Loaded> loaded, const Settings &settings,
                      const TargetProcesses &targets);
    Result<> share_maps_with(bpf_map *processes, bpf_map *filter) const;
    void apply(std::span<const std::byte> bytes);
    Known &know(const ProcessKey &key, std::chrono::nanoseconds started = {});
    [[nodiscard]] Entries entries() const;
    Result<> find_running();
    void look(std::chrono::nanoseconds now);
    // Looks which of those in the table still run, some at each drain.
    void begin_checks(std::chrono::nanoseconds now);
    void check(std::size_t most, std::chrono::nanoseconds now);

    const std::unique_ptr<Loaded> loaded_;
    const std::chrono::nanoseconds rescan_interval_;
    const bool looks_always_;
    const TargetProcesses &targets_;
    std::unordered_map<ProcessKey, Known, ProcessKeyHash> known_;
    Entries unchecked_;
    std::vector<OnRecord> users_;
    std::chrono::nanoseconds looked_{};
    std::chrono::nanoseconds rescanned_{};
    std::uint64_t news_ = 0;  // when it looked
    bool is_full_ = false;
};

}  // namespace gpusnoop::probes
