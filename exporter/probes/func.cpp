#include "exporter/probes/func.h"

#include <fnmatch.h>

#include <algorithm>
#include <atomic>

#include "exporter/base/log.h"
#include "exporter/base/machine.h"
#include "exporter/base/text.h"
#include "exporter/kernel/ring.h"
#include "exporter/probes/attached_libraries.h"
#include "exporter/probes/func_aggregator.h"
#include "exporter/probes/func_document.h"
#include "exporter/probes/func_programs.h"
#include "exporter/probes/func_report.h"
#include "exporter/probes/func_selection.h"
#include "exporter/symbols/elf_file.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

constexpr std::size_t max_label_bytes = 128;

// May a file of this name be wanted? Of globs for paths only the last part is looked at.
bool may_want(const config::FunctionGroups &groups, const std::string &name) {
    return std::ranges::any_of(groups, [&](const auto &entry) {
        const config::FunctionGroup &group = entry.second;
        return group.enabled && std::ranges::any_of(group.libraries, [&](const std::string &glob) {
                   const std::string last = glob.substr(glob.rfind('/') + 1);  // npos + 1 is 0
                   return ::fnmatch(last.c_str(), name.c_str(), 0) == 0;
               });
    });
}

class FuncProbe final : public Probe, public discovery::Attacher {
public:
    FuncProbe(const config::Config &config, kernel::Features features)
        : config_(config.functions),
          rescan_interval_(config.discovery.rescan_interval),
          features_(std::move(features)),
          aggregator_({.budget = budget_of(config.series),
                       .pid_label = config.labels.pid,
                       .retention = config.series.retention},
                      table_, look_up),
          report_(config.functions.report, since_.monotonic) {}

    Result<> start() override;
    discovery::Attacher *attacher() override { return programs_ ? this : nullptr; }
    void drain() override;
    std::vector<series::FamilySnapshot> report() override {
        return aggregator_.report(now_on(CLOCK_MONOTONIC));
    }
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const override {
        return aggregator_.folded();
    }
    [[nodiscard]] std::vector<Document> documents(std::string_view name) const override;
    [[nodiscard]] Health health() const override;

    [[nodiscard]] bool wants(std::string_view name) const override {
        return may_want(config_.groups, std::string(name));
    }
    Result<> attach(const discovery::Library &library) override;
    void detach(const FileId &id) override;
    void failed(std::string_view reason) override { attached_.failed(reason); }

private:
    Result<> open();
    Result<Selection> select(const discovery::Library &library);
    void report(const Selection &selection, const std::string &library) const;

    config::Config::Functions config_;
    nanoseconds rescan_interval_;
    kernel::Features features_;
    FuncTable table_;
    FuncAggregator aggregator_;
    FuncMoment since_ = FuncMoment::now();
    FuncReport report_;
    std::unique_ptr<FuncPrograms> programs_;
    std::unique_ptr<kernel::Ring> calls_;
    nanoseconds tidied_{};
    nanoseconds looked_around_{};
    EndedProcesses ended_;
    std::atomic<std::uint64_t> undecodable_ = 0;

    AttachedLibraries attached_{"func", "no library of a group in use yet"};
};

Result<> FuncProbe::start() {
    const auto opened = open();
    attached_.started(opened);
    return opened;
}

Result<> FuncProbe::open() {
    auto programs = FuncPrograms::load(config_, features_);
    if (!programs) {
        return tl::unexpected(programs.error());
    }
    auto calls = kernel::Ring::open((*programs)->calls_ring(),
                                    [this](auto bytes) { aggregator_.on_record(bytes); });
    if (!calls) {
        return tl::unexpected(calls.error());
    }
    programs_ = std::move(*programs);
    calls_ = std::move(*calls);
    return {};
}

void FuncProbe::drain() {
    if (!programs_) {
        return;
    }
    const nanoseconds now = now_on(CLOCK_MONOTONIC);
    calls_->drain_to(calls_->produced());
    if (now - tidied_ > std::chrono::seconds(1)) {
        tidied_ = now;
        aggregator_.tidy(now);
    }
    if (now - looked_around_ >= rescan_interval_) {
        looked_around_ = now;
        for (const ProcessKey &key : ended_.look(aggregator_.running())) {
            aggregator_.assume_ended(key, now);
        }
    }
    if (report_.is_due(now)) {
        if (const auto rows = report_.make(aggregator_.snapshot(now))) {
            write_to_log(*rows);
        }
    }
    undecodable_ = aggregator_.undecodable();
}

Result<Selection> FuncProbe::select(const discovery::Library &library) {
    const auto elf = symbols::ElfFile::open(library.file.get());
    if (!elf) {
        return tl::unexpected(elf.error());
    }
    return select_functions(*elf, library.file.get(), library.name, library.path, config_.groups,
                            config_.max_functions);
}

// What was not found, and what else is to be known. The groups that ship name functions of several
// libraries and versions, which none has all of.
void FuncProbe::report(const Selection &selection, const std::string &library) const {
    const auto shipped = config::shipped_function_groups();
    for (const auto &[group, patterns] : selection.unmatched) {
        std::string list;
        for (const std::string &pattern : patterns) {
            list += (list.empty() ? "" : " ") + pattern;
        }
        const auto as_shipped = shipped.find(group);
        const bool is_shipped =
            as_shipped != shipped.end() && as_shipped->second == config_.groups.at(group);
        (is_shipped ? log::debug : log::warn)(
            "functions not found in the library",
            {{"probe", "func"}, {"group", group}, {"library", library}, {"functions", list}});
    }
    for (const std::string &problem : selection.problems) {
        log::warn(problem, {{"probe", "func"}});
    }
}

Result<> FuncProbe::attach(const discovery::Library &library) {
    // Programs are offered because of a library that they use, and paths are only known here.
    if (!probes::wants(config_.groups, library.name, library.path)) {
        return library.path.empty() ? fail("its path could not be read", ESRCH) : Result<>();
    }
    const std::string name = to_valid_utf8(library.name, max_label_bytes);
    const auto selection = select(library);
    if (!selection) {
        failed("elf");
        return tl::unexpected(selection.error());
    }
    report(*selection, name);
    if (selection->functions.empty()) {
        return {};
    }
    auto probes = programs_->attach(library, selection->functions, table_);
    if (!probes) {
        failed("attach");
        return tl::unexpected(probes.error());
    }
    attached_.add(library, std::move(*probes), programs_->mode(), "attached");
    return {};
}

void FuncProbe::detach(const FileId &id) {
    attached_.remove(id);
}

std::vector<Document> FuncProbe::documents(std::string_view name) const {
    if (!programs_ || name != functions_document_name) {
        return {};
    }
    const FuncMoment now = FuncMoment::now();
    return {functions_document(aggregator_.snapshot(now.monotonic), since_, now)};
}

Health FuncProbe::health() const {
    Health health = attached_.health();
    health.undecodable = undecodable_;
    if (programs_) {
        add_counts(health, programs_->account_map(), programs_->runs());
    }
    return health;
}

}  // namespace

std::unique_ptr<Probe> make_func(const config::Config &config, const kernel::Features &features) {
    if (!config.functions.enabled) {
        return nullptr;
    }
    return std::make_unique<FuncProbe>(config, features);
}

}  // namespace gpusnoop::probes
