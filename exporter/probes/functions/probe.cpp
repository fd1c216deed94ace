#include "exporter/probes/functions/probe.h"

#include <algorithm>
#include <atomic>
#include <optional>

#include "exporter/base/glob.h"
#include "exporter/base/label.h"
#include "exporter/base/log.h"
#include "exporter/base/text.h"
#include "exporter/base/words.h"
#include "exporter/ebpf/ring.h"
#include "exporter/probes/frame/attached_libraries.h"
#include "exporter/probes/frame/budget.h"
#include "exporter/probes/frame/sandbox_warnings.h"
#include "exporter/probes/functions/attach/attached_files.h"
#include "exporter/probes/functions/attach/programs.h"
#include "exporter/probes/functions/count/aggregator.h"
#include "exporter/probes/functions/count/families.h"
#include "exporter/probes/functions/report/call_details.h"
#include "exporter/probes/functions/report/functions_api.h"
#include "exporter/probes/functions/report/log_report.h"
#include "exporter/probes/functions/report/slow_calls_api.h"
#include "exporter/probes/functions/select/selection.h"
#include "exporter/probes/functions/select/unmatched.h"
#include "exporter/probes/functions/trace/trace.h"
#include "exporter/symbols/elf/debug_file.h"
#include "exporter/symbols/elf/elf_file.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

// May a file of this name be wanted? Of globs for paths only the last part is looked at.
bool may_want(const FunctionGroups &groups, const std::string &name) {
    return std::ranges::any_of(groups, [&](const auto &entry) {
        const FunctionGroup &group = entry.second;
        return group.enabled && std::ranges::any_of(group.libraries, [&](const std::string &glob) {
                   return matches_glob(std::string(last_part(glob)), name);
               });
    });
}

class FunctionsProbe final : public Probe, public discovery::Attacher {
public:
    FunctionsProbe(const config::Config &config, ebpf::Features features,
                   std::optional<FunctionTracing> tracing = std::nullopt)
        : config_(config.of<FunctionsConfig>()),
          tracing_(std::move(tracing)),
          named_(tracing_ ? named_groups(*tracing_) : FunctionGroups{}),
          rescan_interval_(config.discovery.rescan_interval),
          features_(std::move(features)),
          details_(config),
          aggregator_({.budget = budget_of(config.series),
                       .pid_label = config.labels.pid,
                       .retention = config.series.retention,
                       .on_slow_call = details_.on_slow_call(),
                       .on_call = tracing_ ? tracing_->on_call : details_.on_call(),
                       .on_entry = tracing_ ? tracing_->on_call : details_.on_entry(),
                       .to_realtime = [this](nanoseconds at) { return details_.to_realtime(at); }},
                      table_,
                      [this](ProcessIdentity &process) {
                          sandboxes_.look(process);
                          return look_up(process);
                      }),
          report_(config_.report, since_.monotonic) {
        config_.groups = as_is_harmless(std::move(config_.groups), features_);
        named_ = as_is_harmless(std::move(named_), features_);
        if (tracing_ && !features_.has_harmless_return_probes()) {
            tracing_->endings = ebpf::Endings::exits;
        }
    }

    Result<> start() override;
    discovery::Attacher *attacher() override { return programs_ ? this : nullptr; }
    void drain() override;
    std::vector<series::FamilySnapshot> report() override {
        return aggregator_.report(now_on(CLOCK_MONOTONIC));
    }
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const override {
        return aggregator_.folded();
    }
    [[nodiscard]] std::vector<ApiResource> documents(std::string_view name) const override;
    void add_to(Overview &overview) const override {
        if (programs_) {
            details_.add_to(overview);
        }
    }
    [[nodiscard]] Health health() const override;

    [[nodiscard]] bool wants(std::string_view name) const override {
        return may_want(groups_of_files(), std::string(name));
    }
    Result<> attach(const discovery::Library &library) override;
    void detach(const FileId &id, bool is_changed) override;
    [[nodiscard]] bool must_wait_for(const FileId &id) override {
        return files_->must_wait_for(id);
    }
    bool reconfigure(const config::Config &config) override;
    void failed(std::string_view reason) override { attached_.failed(reason); }

private:
    Result<> open();
    [[nodiscard]] FunctionPrograms::Details wanted_details() const;
    // By whose libraries files are wanted.
    [[nodiscard]] const FunctionGroups &groups_of_files() const {
        return named_.empty() ? config_.groups : named_;
    }
    Result<Selection> select(const discovery::Library &library);
    Result<> change(const discovery::Library &library,
                    const std::vector<SelectedFunction> &functions);
    void let_go(const FileId &id);
    void report(const Selection &selection, const discovery::Library &file);
    static void report_refused(const std::vector<std::string> &functions,
                               const discovery::Library &library);

    FunctionsConfig config_;                  // the discovery thread's, once that runs
    std::optional<FunctionTracing> tracing_;  // for an exporter, nothing
    FunctionGroups named_;                    // by what is to be traced, if it says files
    nanoseconds rescan_interval_;
    ebpf::Features features_;
    FunctionIds table_;
    CallReporter details_;
    SandboxWarnings sandboxes_{"functions"};
    FunctionsAggregator aggregator_;
    FunctionsMoment since_ = FunctionsMoment::now();
    LogReport report_;
    UnmatchedFunctions unmatched_;     // the discovery thread's
    symbols::DebugFiles debug_files_;  // its, too
    std::unique_ptr<FunctionPrograms> programs_;
    std::optional<AttachedFiles> files_;
    std::unique_ptr<ebpf::Ring> lifecycle_;
    std::unique_ptr<ebpf::Ring> calls_;
    std::unique_ptr<ebpf::Ring> slow_calls_;
    nanoseconds tidied_{};
    nanoseconds looked_around_{};
    std::atomic<std::uint64_t> undecodable_ = 0;

    AttachedLibraries attached_{"functions", "no library of a group in use yet"};
};

Result<> FunctionsProbe::start() {
    const auto opened = open();
    attached_.started(opened);
    return opened;
}

Result<> FunctionsProbe::open() {
    auto programs = FunctionPrograms::load(config_, wanted_details(), features_);
    if (!programs) {
        return tl::unexpected(programs.error());
    }
    const auto count = [this](auto bytes) { aggregator_.on_record(bytes); };
    auto lifecycle = ebpf::Ring::open((*programs)->lifecycle_ring(), count);
    auto calls = ebpf::Ring::open((*programs)->calls_ring(), count);
    auto slow_calls = ebpf::Ring::open((*programs)->slow_ring(), count);
    for (const auto *const ring : {&lifecycle, &calls, &slow_calls}) {
        if (!*ring) {
            return tl::unexpected(ring->error());
        }
    }
    if (const auto started = details_.start(); !started) {
        return started;
    }
    programs_ = std::move(*programs);
    files_.emplace(*programs_, table_);
    lifecycle_ = std::move(*lifecycle);
    calls_ = std::move(*calls);
    slow_calls_ = std::move(*slow_calls);
    return {};
}

FunctionPrograms::Details FunctionsProbe::wanted_details() const {
    return tracing_ ? FunctionPrograms::Details{.all_arguments = true,
                                                .entries = tracing_->entries,
                                                .tracing = &*tracing_}
                    : details_.wanted();
}

void FunctionsProbe::drain() {
    if (!programs_) {
        return;
    }
    const nanoseconds now = now_on(CLOCK_MONOTONIC);
    details_.begin_round(now);
    // Before the records: calls that were sent before a change count as before it.
    const std::uint64_t changes = table_.queued();
    // Positions in this order, and records in the other one: each process is known before what it
    // does.
    const std::uint64_t slow_until = slow_calls_->produced();
    const std::uint64_t calls_until = calls_->produced();
    const std::uint64_t lifecycle_until = lifecycle_->produced();
    lifecycle_->drain_to(lifecycle_until);
    const bool all_calls = calls_->drain_to(calls_until);
    const bool all_slow_calls = slow_calls_->drain_to(slow_until);
    details_.end_round();
    if (all_calls && all_slow_calls) {
        if (const auto replaced = table_.apply(changes)) {
            aggregator_.refresh(*replaced, now);
        }
        // Else, a process that had ended by `now` could have calls that are not read yet.
        if (now - tidied_ > std::chrono::seconds(1)) {
            tidied_ = now;
            aggregator_.tidy(now);
        }
    }
    if (now - looked_around_ >= rescan_interval_) {
        looked_around_ = now;
        aggregator_.processes().scan(now);
    }
    if (report_.is_due(now)) {
        if (const auto rows = report_.make(aggregator_.snapshot(now))) {
            write_to_log(*rows);
        }
    }
    undecodable_ = aggregator_.undecodable();
}

Result<Selection> FunctionsProbe::select(const discovery::Library &library) {
    auto elf = symbols::ElfFile::open(library.readable());
    if (!elf) {
        return tl::unexpected(elf.error());
    }
    debug_files_.add_to(*elf, library.id,
                        {library.tid, library.path, library.content ? -1 : library.file.get()});
    const int fd = library.readable();
    return tracing_ ? select_traced(*tracing_, *elf, fd, library.name, library.path, config_.groups,
                                    config_.max_functions)
                    : select_functions(*elf, fd, library.name, library.path, config_.groups,
                                       config_.max_functions);
}

// What was not found, and what else is to be known. The groups that ship name functions of several
// libraries and versions, which none has all of.
void FunctionsProbe::report(const Selection &selection, const discovery::Library &file) {
    const auto shipped = as_is_harmless(shipped_function_groups(), features_);
    const std::string library = to_valid_utf8(file.name, max_label_bytes);
    for (const auto &[group, settings] : config_.groups) {
        if (!probes::wants({{group, settings}}, file.name, file.path)) {
            continue;
        }
        const auto in_file = selection.unmatched.find(group);
        const auto patterns = unmatched_.note(
            group, settings, file.name,
            in_file == selection.unmatched.end() ? std::vector<std::string>{} : in_file->second);
        if (patterns.empty()) {
            continue;
        }
        std::string list;
        for (const std::string &pattern : patterns) {
            list += (list.empty() ? "" : " ") + pattern;
        }
        const auto as_shipped = shipped.find(group);
        const bool is_shipped =
            as_shipped != shipped.end() && as_shipped->second == config_.groups.at(group);
        (is_shipped ? log::debug : log::warn)(
            "functions not found in the library",
            {{"probe", "functions"}, {"group", group}, {"library", library}, {"functions", list}});
    }
    for (const std::string &problem : selection.problems) {
        log::warn(problem, {{"probe", "functions"}});
    }
}

Result<> FunctionsProbe::attach(const discovery::Library &library) {
    // Programs are offered because of a library that they use, and paths are only known here.
    if (!probes::wants(groups_of_files(), library.name, library.path)) {
        let_go(library.id);
        return library.path.empty() ? fail("its path could not be read", ESRCH) : Result<>();
    }
    const auto selection = select(library);
    if (!selection) {
        let_go(library.id);
        failed("elf");
        return tl::unexpected(selection.error());
    }
    report(*selection, library);
    return change(library, selection->functions);
}

Result<> FunctionsProbe::change(const discovery::Library &library,
                                const std::vector<SelectedFunction> &functions) {
    const bool is_new = !files_->has(library.id);
    const auto changed = files_->change(library, functions);
    const std::size_t count = files_->functions(library.id);
    if (count == 0) {
        let_go(library.id);
    } else if (is_new) {
        attached_.note(library, count, programs_->mode(), "attached");
    } else if (!changed || changed->added + changed->dropped + changed->changed > 0) {
        attached_.note(library, count, programs_->mode(), "attached as now configured");
    }
    if (!changed) {
        failed("attach");
        return tl::unexpected(changed.error());
    }
    report_refused(changed->refused, library);
    return {};
}

void FunctionsProbe::report_refused(const std::vector<std::string> &functions,
                                    const discovery::Library &library) {
    if (functions.empty()) {
        return;
    }
    std::string names;
    for (const std::string &name : functions) {
        names += (names.empty() ? "" : " ") + name;
    }
    log::warn(
        "the kernel allows no probe on the first instruction of these functions, so their calls "
        "are not counted",
        {{"probe", "functions"},
         {"library", to_valid_utf8(library.name, max_label_bytes)},
         {"functions", names}});
}

void FunctionsProbe::detach(const FileId &id, bool is_changed) {
    files_->detach(id, is_changed ? AttachedFiles::Reason::changed : AttachedFiles::Reason::unused);
    (void)attached_.remove(id);
    debug_files_.forget(id);
}

void FunctionsProbe::let_go(const FileId &id) {
    files_->detach(id, AttachedFiles::Reason::removed);
    (void)attached_.remove(id, "detached: no function of it is configured any more");
    debug_files_.forget(id);
}

// Switched off, it is attached to nothing, and can be switched on again.
bool FunctionsProbe::reconfigure(const config::Config &config) {
    FunctionsConfig wanted = config_;
    const auto &now = config.of<FunctionsConfig>();
    wanted.max_functions = now.max_functions;
    wanted.groups = now.enabled ? now.groups : FunctionGroups{};
    wanted.groups = as_is_harmless(std::move(wanted.groups), features_);
    const bool is_same = wanted == config_;
    unmatched_.forget();
    config_ = std::move(wanted);  // even so, as the lines may have moved
    return !is_same;
}

std::vector<ApiResource> FunctionsProbe::documents(std::string_view name) const {
    if (programs_ && name == functions_document_name) {
        const FunctionsMoment now = FunctionsMoment::now();
        return {functions_document(aggregator_.snapshot(now.monotonic), since_, now)};
    }
    return programs_ && name == slow_calls_document_name ? std::vector{details_.slow_calls()}
                                                         : std::vector<ApiResource>{};
}

Health FunctionsProbe::health() const {
    Health health = attached_.health();
    health.undecodable = undecodable_;
    if (programs_) {
        add_counts(health, programs_->account_map(), programs_->runs());
        details_.add_to(health, programs_->slow_details_lost(), programs_->entries_lost());
    }
    return health;
}

std::unique_ptr<Probe> make_functions(const config::Config &config, const ebpf::Features &features,
                                      const TargetProcessesPtr & /*targets*/) {
    return config.of<FunctionsConfig>().enabled ? std::make_unique<FunctionsProbe>(config, features)
                                                : nullptr;
}

series::Family &declare_durations(series::FamilySet &set) {
    return add_func_durations(set, {1});
}

}  // namespace

constinit const ProbeKind functions_kind = {
    .name = "functions",
    .title = "Functions",
    .make = make_functions,
    .read = read_functions,
    .attach = attach_of<FunctionsConfig>,
    .drain_interval = drain_interval_of<FunctionsConfig>,
    .declare = declare_families<make_func_families, declare_durations, make_func_gauges>,
    .trace = &trace::functions_trace,
};

std::unique_ptr<Probe> make_func_tracer(config::Config config, const ebpf::Features &features,
                                        FunctionTracing tracing) {
    config.set(sinks::SinkConfigs{});
    auto functions = config.of<FunctionsConfig>();
    functions.slow_calls.history = 0;
    functions.slow_calls.log_per_second = 0;
    functions.report = {};
    config.set(std::move(functions));
    return std::make_unique<FunctionsProbe>(config, features, std::move(tracing));
}

}  // namespace gpusnoop::probes
