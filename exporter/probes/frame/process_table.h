// The processes behind a probe's records, and the series that they own.
#pragma once

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

#include <tsl/robin_map.h>

#include "bpf/lib/process.h"
#include "exporter/config/config.h"
#include "exporter/probes/frame/process_groups.h"
#include "exporter/probes/frame/process_identity.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

// Of the configuration, as far as it is about a probe's series.
struct SeriesSettings {
    series::Budget budget;
    bool pid_label = false;
    std::chrono::nanoseconds retention{};
    std::function<bool(ProcessIdentity &)> look_up = probes::look_up;
};

[[nodiscard]] SeriesSettings series_settings(const config::Config &config);

struct KnownProcess : ProcessIdentity {
    virtual ~KnownProcess() = default;

    series::LabelValues labels;  // the process's, of all families
    series::Owner owner = 0;
    std::optional<std::chrono::nanoseconds> ended;
};

// All that does not depend on what a probe keeps of a process; see ProcessTable.
class ProcessTableBase {
public:
    virtual ~ProcessTableBase() = default;
    ProcessTableBase(const ProcessTableBase &) = delete;
    ProcessTableBase &operator=(const ProcessTableBase &) = delete;

    // What a record says of a process's end. The first one counts.
    void end(const ProcessKey &key, std::chrono::nanoseconds at);
    // The records of bpf/lib/traced.h, which say these. False: another one, or not of its size.
    bool on_record(std::span<const std::byte> bytes);

    [[nodiscard]] bool contains(const ProcessKey &key) const { return find(key) != nullptr; }
    // Each with when it started.
    [[nodiscard]] std::vector<std::pair<ProcessKey, std::chrono::nanoseconds>> running() const;

    // Asks /proc for processes whose end was not recorded, and ends them. For each rescan interval.
    void scan(std::chrono::nanoseconds now);

    // The same, for a probe that ends them by itself.
    std::vector<ProcessKey> find_ended() { return ended_.look(running()); }

    // Forgets the processes that have ended, which it returns, and the series whose last process
    // ended the retention before. Has the families show their heaviest. For once a second; `now` is
    // a time up to which all records have been seen.
    std::vector<ProcessKey> tidy(std::chrono::nanoseconds now);

protected:
    ProcessTableBase(series::FamilySet &families, SeriesSettings settings,
                     std::chrono::nanoseconds grace);

    using Processes = tsl::robin_map<ProcessKey, std::unique_ptr<KnownProcess>, ProcessKeyHash>;

    KnownProcess *start(const ProcessKey &key, const process_identity &identity);
    KnownProcess &of(const ProcessKey &key);
    KnownProcess &of(std::uint32_t tgid, const process_identity &identity);
    [[nodiscard]] KnownProcess *find(const ProcessKey &key) const;
    [[nodiscard]] const Processes &processes() const { return processes_; }
    std::vector<std::unique_ptr<KnownProcess>> take_if(
        const std::function<bool(KnownProcess &)> &is_over);
    std::vector<series::Owner> expire(std::chrono::nanoseconds now);

private:
    // A process that a record describes. By exec it gets another name.
    struct Described {
        std::uint32_t tgid = 0;
        std::uint64_t started_ns = 0;
        std::string comm;
        auto operator<=>(const Described &) const = default;
    };

    [[nodiscard]] virtual std::unique_ptr<KnownProcess> make() const = 0;
    KnownProcess &add(const ProcessKey &key);
    [[nodiscard]] bool is_over(const KnownProcess &process, std::chrono::nanoseconds now) const {
        return process.ended && *process.ended <= now - grace_;
    }
    void own_series(KnownProcess &process, std::string comm);

    series::FamilySet &families_;
    SeriesSettings settings_;
    std::chrono::nanoseconds grace_;
    Processes processes_;
    mutable KnownProcess *recent_ = nullptr;  // of the last record: they come in runs
    std::map<Described, KnownProcess *> described_;
    std::uint64_t numbers_ = 0;
    ProcessGroups groups_;
    EndedProcesses ended_;
};

// `Process` is a KnownProcess and what a probe keeps of each, which goes with it. All times are
// those of the kernel's monotonic clock.
template <typename Process = KnownProcess>
class ProcessTable final : public ProcessTableBase {
public:
    using Make = std::function<std::unique_ptr<Process>()>;

    // A process is known for the `grace` behind its end.
    ProcessTable(
        series::FamilySet &families, SeriesSettings settings, std::chrono::nanoseconds grace = {},
        Make make = [] { return std::make_unique<Process>(); })
        : ProcessTableBase(families, std::move(settings), grace), make_(std::move(make)) {}

    // What a record says of a process's beginning. Null: what it did came first, and is under other
    // labels, so it stays together.
    Process *start(const ProcessKey &key, const process_identity &identity) {
        return static_cast<Process *>(ProcessTableBase::start(key, identity));
    }

    // These are valid until tidy() or forget_if().
    //
    // Of a probe that has records of its processes. One whose record was lost is looked up in
    // /proc.
    Process &of(const ProcessKey &key) { return as_process(ProcessTableBase::of(key)); }
    // Of a record that describes its process. `tgid` 0 is an interrupt.
    Process &of(std::uint32_t tgid, const process_identity &identity) {
        return as_process(ProcessTableBase::of(tgid, identity));
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

    // The steps of tidy(), for a probe that does something in between: it forgets the processes
    // that have ended and are over, and the series, and their owners, whose last process ended the
    // retention before.
    void forget_if(auto &&is_over) {
        (void)take_if([&](KnownProcess &process) { return is_over(as_process(process)); });
    }
    using ProcessTableBase::expire;

private:
    static Process &as_process(KnownProcess &process) { return static_cast<Process &>(process); }

    [[nodiscard]] std::unique_ptr<KnownProcess> make() const override { return make_(); }

    Make make_;
};

}  // namespace gpusnoop::probes
