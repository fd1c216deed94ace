// The processes behind a probe's records, and the series that they own.
#pragma once

#include <tsl/robin_map.h>

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bpf/lib/processes/process.h"
#include "exporter/config/config.h"
#include "exporter/probes/frame/bpf/overhead_limits.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/processes/user_names.h"
#include "exporter/series/family.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

// Processes with the same labels share their series, which stay until the last of them has been
// gone for a while.
class ProcessGroups {
public:
    // Adds a process with these labels of all families. Returns the owner of its series.
    series::Owner join(const series::LabelValues &labels);

    // Removes a process that had joined.
    void leave(const series::LabelValues &labels, std::chrono::nanoseconds at);

    // Forgets the groups that had no process for `retention`, and returns them: the caller removes
    // their series.
    std::vector<series::Owner> expire(std::chrono::nanoseconds now,
                                      std::chrono::nanoseconds retention);

private:
    struct Group {
        series::Owner owner;
        int processes = 0;
        std::chrono::nanoseconds idle_since{};
    };

    std::map<series::LabelValues, Group> groups_;
    series::Owner next_owner_ = 1;
};

// The settings for the series of a probe.
struct SeriesSettings {
    series::Budget budget;
    bool pid_label = false;
    bool script_label = true;  // false: no script is known anywhere
    std::chrono::nanoseconds retention{};
    std::function<bool(ProcessIdentity &)> look_up = probes::look_up;
};

[[nodiscard]] SeriesSettings series_settings(const config::Config &config);

struct KnownProcess : ProcessIdentity {
    virtual ~KnownProcess() = default;

    series::LabelValues labels;  // the process's, of all families
    series::Owner owner = 0;
    std::optional<std::chrono::nanoseconds> ended;
    // What the probe has cost it: for Overhead.
    struct {
        std::uint64_t noted_ns = 0;
        OverheadSharePtr share;
        std::optional<series::Slot> slot;
    } overhead;
};

// The part that does not depend on a probe's data of a process; see ProcessTable.
class ProcessTableBase {
public:
    virtual ~ProcessTableBase() = default;
    ProcessTableBase(const ProcessTableBase &) = delete;
    ProcessTableBase &operator=(const ProcessTableBase &) = delete;

    // Notes the end of a process from a record. The first call counts.
    void end(const ProcessKey &key, std::chrono::nanoseconds at);
    // Applies a record of bpf/lib/traced.h, a start or an end. False: another type, or a wrong
    // size.
    bool on_record(std::span<const std::byte> bytes);

    [[nodiscard]] bool contains(const ProcessKey &key) const { return find(key) != nullptr; }
    // With their start times.
    [[nodiscard]] std::vector<std::pair<ProcessKey, std::chrono::nanoseconds>> running() const;

    // What a series of a process begins with; null: of an unknown one.
    struct Row {
        series::LabelValues labels;
        series::Owner owner = 0;
    };
    [[nodiscard]] Row row_of(const KnownProcess *process) const;

    // Checks in /proc for processes whose end was not recorded, and ends them. For each rescan
    // interval.
    void scan(std::chrono::nanoseconds now);

    // The same check, for a probe that ends the processes itself.
    std::vector<ProcessKey> find_ended() { return ended_.look(running()); }

    // Forgets the processes that have ended, which it returns, and the series whose last process
    // ended at least the retention before. Lets each family show its heaviest label sets. For once
    // a second; all records from before `now` must have been read.
    std::vector<ProcessKey> tidy(std::chrono::nanoseconds now);

protected:
    ProcessTableBase(series::FamilySet &families, SeriesSettings settings,
                     std::chrono::nanoseconds grace);

    using Processes = tsl::robin_map<ProcessKey, std::unique_ptr<KnownProcess>, ProcessKeyHash>;

    KnownProcess *start(const ProcessKey &key, const process_identity &identity,
                        const process_details &details);
    KnownProcess &of(const ProcessKey &key);
    KnownProcess &of(std::uint32_t tgid, const process_identity &identity,
                     const process_details *details);
    [[nodiscard]] KnownProcess *find(const ProcessKey &key) const;
    [[nodiscard]] const Processes &processes() const { return processes_; }
    std::vector<std::unique_ptr<KnownProcess>> take_if(
        const std::function<bool(KnownProcess &)> &is_over);
    std::vector<series::Owner> expire(std::chrono::nanoseconds now);

private:
    // A process that a record describes. An exec changes its program, and it may change its name.
    struct Described {
        std::uint32_t tgid = 0;
        std::uint64_t started_ns = 0;
        std::uint32_t execs = 0;
        std::string comm;
        auto operator<=>(const Described &) const = default;
    };

    [[nodiscard]] virtual std::unique_ptr<KnownProcess> make() const = 0;
    // The same program under another name; null: there is none.
    [[nodiscard]] const KnownProcess *named_before(
        std::map<Described, KnownProcess *>::const_iterator now) const;
    KnownProcess &add(const ProcessKey &key);
    [[nodiscard]] bool is_over(const KnownProcess &process, std::chrono::nanoseconds now) const {
        return process.ended && *process.ended <= now - grace_;
    }
    void own_series(KnownProcess &process, std::string comm);

    series::FamilySet &families_;
    SeriesSettings settings_;
    std::chrono::nanoseconds grace_;
    Processes processes_;
    mutable KnownProcess *recent_ = nullptr;  // of the last record; records come in runs
    std::map<Described, KnownProcess *> described_;
    std::uint64_t numbers_ = 0;
    ProcessGroups groups_;
    processes::UserNames users_;
    EndedProcesses ended_;
};

// `Process` is a KnownProcess with the probe's data of a process; both are removed together. All
// times are of the kernel's monotonic clock.
template <typename Process = KnownProcess>
class ProcessTable final : public ProcessTableBase {
public:
    using Make = std::function<std::unique_ptr<Process>()>;

    // A process stays known until `grace` after its end.
    ProcessTable(
        series::FamilySet &families, SeriesSettings settings, std::chrono::nanoseconds grace = {},
        Make make = [] { return std::make_unique<Process>(); })
        : ProcessTableBase(families, std::move(settings), grace), make_(std::move(make)) {}

    // Applies the record of a process's start. Null: its calls came first and are counted under
    // other labels, so its later calls are, too.
    Process *start(const ProcessKey &key, const process_identity &identity,
                   const process_details &details) {
        return static_cast<Process *>(ProcessTableBase::start(key, identity, details));
    }

    // The results are valid until tidy() or forget_if().
    //
    // For a probe that has records of its processes. If a process's record was lost, it is looked
    // up in /proc.
    Process &of(const ProcessKey &key) { return as_process(ProcessTableBase::of(key)); }
    // For a record that describes its process. `tgid` 0 is an interrupt. The details are needed
    // with the first record of a process.
    Process &of(std::uint32_t tgid, const process_identity &identity,
                const process_details *details = nullptr) {
        return as_process(ProcessTableBase::of(tgid, identity, details));
    }
    // Null: it is not known.
    [[nodiscard]] Process *find(const ProcessKey &key) const {
        return static_cast<Process *>(ProcessTableBase::find(key));
    }

    void for_each(auto &&visit) const {
        for (const auto &[key, process] : processes()) {
            visit(as_process(*process));
        }
    }

    // The steps of tidy(), for a probe that works in between. This one forgets the processes that
    // have ended and are over; expire() forgets the series, and their owners, whose last process
    // ended at least the retention before.
    void forget_if(auto &&is_over) {
        (void)take_if([&](KnownProcess &process) { return is_over(as_process(process)); });
    }
    using ProcessTableBase::expire;

private:
    static Process &as_process(KnownProcess &process) { return static_cast<Process &>(process); }

    [[nodiscard]] std::unique_ptr<KnownProcess> make() const override { return make_(); }

    Make make_;
};

// What the aggregators of a BpfProbe have in common: the families, and the processes that own their
// series.
// `make_families` makes the probe's families in a set, and returns a struct of them. `Process` is
// what the probe keeps of a process.
template <auto make_families, typename Process = KnownProcess>
class CountingAggregator {
public:
    // A process stays known until `grace` after its end.
    explicit CountingAggregator(const SeriesSettings &settings, std::chrono::nanoseconds grace = {})
        : families_(settings.budget, settings.pid_label), processes_(families_, settings, grace) {}

    [[nodiscard]] const series::FamilySet &families() const { return families_; }
    [[nodiscard]] ProcessTableBase &processes() { return processes_; }
    // Valid until the next tidy().
    [[nodiscard]] const ProcessIdentity &process_of(const ProcessKey &key) {
        return processes_.of(key);
    }

private:
    series::FamilySet families_;

protected:
    decltype(make_families(families_)) of_ = make_families(families_);
    ProcessTable<Process> processes_;
};

}  // namespace gpusnoop::probes
