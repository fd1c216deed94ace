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
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "bpf/lib/process.h"
#include "exporter/config/config.h"
#include "exporter/probes/process_groups.h"
#include "exporter/probes/process_identity.h"
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

// All that does not depend on the state; see ProcessTable.
class ProcessTableBase {
public:
    virtual ~ProcessTableBase() = default;
    ProcessTableBase(const ProcessTableBase &) = delete;
    ProcessTableBase &operator=(const ProcessTableBase &) = delete;

    // Records of bpf/lib/traced.h. False: it is another one, or not of its size.
    bool on_record(std::span<const std::byte> bytes);

    // Asks /proc for processes whose end was not recorded. For each rescan interval.
    void scan(std::chrono::nanoseconds now);

    // Forgets the processes that have ended, which it returns, and the series whose last process
    // ended the retention before. Has the families show their heaviest. For once a second; `now` is
    // a time up to which all records have been seen.
    std::vector<ProcessKey> tidy(std::chrono::nanoseconds now);

protected:
    ProcessTableBase(series::FamilySet &families, const SeriesSettings &settings,
                     std::chrono::nanoseconds grace);

    KnownProcess &find(const ProcessKey &key);
    KnownProcess &find(std::uint32_t tgid, const process_identity &identity);

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
    void own_series(KnownProcess &process, std::string comm);

    series::FamilySet &families_;
    SeriesSettings settings_;
    std::chrono::nanoseconds grace_;
    std::unordered_map<ProcessKey, std::unique_ptr<KnownProcess>, ProcessKeyHash> processes_;
    std::map<Described, KnownProcess *> described_;
    std::uint64_t numbers_ = 0;
    ProcessGroups groups_;
    EndedProcesses ended_;
};

// With a `State` for each process, which goes with it. All times are those of the kernel's
// monotonic clock.
template <typename State = std::monostate>
class ProcessTable final : public ProcessTableBase {
public:
    struct Process : KnownProcess {
        State state;
    };

    // A process is known for the `grace` behind its end.
    ProcessTable(series::FamilySet &families, const SeriesSettings &settings,
                 std::chrono::nanoseconds grace = {})
        : ProcessTableBase(families, settings, grace) {}

    // Both are valid until tidy().
    //
    // Of a probe that has records of processes (bpf/lib/traced.h). One whose record was lost is
    // looked up in /proc.
    Process &of(const ProcessKey &key) { return static_cast<Process &>(find(key)); }
    // Of a record that describes its process. `tgid` 0 is an interrupt.
    Process &of(std::uint32_t tgid, const process_identity &identity) {
        return static_cast<Process &>(find(tgid, identity));
    }

private:
    [[nodiscard]] std::unique_ptr<KnownProcess> make() const override {
        return std::make_unique<Process>();
    }
};

}  // namespace gpusnoop::probes
