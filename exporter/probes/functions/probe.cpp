#include "exporter/probes/functions/probe.h"

#include <bpf/bpf.h>

#include <optional>
#include <utility>

#include "exporter/base/read_file.h"
#include "exporter/probes/frame/bpf/overhead_limits.h"
#include "exporter/probes/frame/budget.h"
#include "exporter/probes/frame/calls/open_call_reader.h"
#include "exporter/probes/frame/calls/open_calls.h"
#include "exporter/probes/frame/libraries/library_probe.h"
#include "exporter/probes/frame/reports/report_facts.h"
#include "exporter/probes/functions/attach/programs.h"
#include "exporter/probes/functions/attacher.h"
#include "exporter/probes/functions/consumer.h"
#include "exporter/probes/functions/count/aggregator.h"
#include "exporter/probes/functions/count/families.h"
#include "exporter/probes/functions/limit/governor.h"
#include "exporter/probes/functions/report/call_details.h"
#include "exporter/probes/functions/report/functions_api.h"
#include "exporter/probes/functions/report/slow_calls.h"
#include "exporter/probes/functions/trace/trace.h"
#include "exporter/system/machine.h"
#include "func_in_flight.skel.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

// What the probe was made with.
struct Setup {
    FunctionsConfig config;
    std::optional<FunctionTracing> tracing;  // for an exporter, nothing
    ebpf::Features features;
    nanoseconds rescan_interval;
    nanoseconds unreturned_after;
    std::uint32_t max_overhead;  // of a trace: none
};

Setup setup_of(const config::Config &config, ebpf::Features features,
               std::optional<FunctionTracing> tracing) {
    Setup setup{.config = config.of<FunctionsConfig>(),
                .tracing = std::move(tracing),
                .features = std::move(features),
                .rescan_interval = config.discovery.rescan_interval,
                .unreturned_after = config.of<InFlightConfig>().unreturned_after(),
                .max_overhead = 0};
    if (!setup.tracing) {
        setup.max_overhead = config.of<MaxOverhead>().percent;
    }
    setup.config.groups = as_is_harmless(std::move(setup.config.groups), setup.features);
    if (setup.tracing && !setup.features.has_harmless_return_probes()) {
        setup.tracing->endings = ebpf::Endings::exits;
    }
    return setup;
}

// Of this boot of this machine; containers have the same.
std::string boot_id() {
    return read_text("/proc/sys/kernel/random/boot_id", 64).value_or("");
}

class FunctionsProbe final
    : public LibraryProbe<FunctionPrograms, FunctionsConsumer, FunctionsAttacher>,
      public CallFollower {
public:
    FunctionsProbe(const config::Config &config, ebpf::Features features, sinks::SinksPtr sinks,
                   OverheadLimitsPtr overhead, ReportFactsPtr report_facts,
                   std::optional<FunctionTracing> tracing = std::nullopt)
        : LibraryProbe("functions", "no library of a group in use yet"),
          setup_(setup_of(config, std::move(features), std::move(tracing))),
          reporter_(config, std::move(sinks)),
          report_facts_(std::move(report_facts)),
          aggregator_({.budget = budget_of(config),
                       .pid_label = config.labels.pid,
                       .retention = config.series.retention,
                       .on_slow_call = reporter_.on_slow_call(),
                       .on_call = setup_.tracing ? setup_.tracing->on_call : reporter_.on_call(),
                       .on_entry = setup_.tracing ? setup_.tracing->on_call : reporter_.on_entry(),
                       .to_realtime = [this](nanoseconds at) { return reporter_.to_realtime(at); },
                       .script_label = config.labels.script,
                       .boot_id = boot_id(),
                       .cost_of = [this](const auto &process) { return cost_of(process); },
                       .overhead = std::move(overhead),
                       .on_end =
                           [this](const ProcessKey &process, std::uint64_t slow_calls) {
                               report_facts_->add_slow(process.tgid, slow_calls,
                                                       now_on(CLOCK_MONOTONIC));
                           },
                       .take_unobserved =
                           [this] {
                               return governor_ ? governor_->take_unobserved()
                                                : std::vector<UnobservedFunction>();
                           }},
                      ids_, [this](ProcessIdentity &process) {
                          sandboxes_.look(process);
                          return look_up(process);
                      }) {}

    ~FunctionsProbe() override {
        governor_.reset();
        close();
    }
    FunctionsProbe(const FunctionsProbe &) = delete;
    FunctionsProbe &operator=(const FunctionsProbe &) = delete;

    [[nodiscard]] StartTurn start_turn() const override { return StartTurn::beside; }
    std::vector<series::FamilySnapshot> report() override {
        return aggregator_.report(now_on(CLOCK_MONOTONIC));
    }
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const override {
        return aggregator_.folded();
    }
    [[nodiscard]] std::vector<ApiPage> api_pages(std::string_view name) override;
    void add_to(Overview &overview) const override {
        if (consumer_) {
            reporter_.add_to(overview);
        }
    }
    Result<OpenCalls> open_calls(const OpenCallQuery &query) override;
    std::vector<UnreturnedCall> take_unreturned() override { return aggregator_.take_unreturned(); }
    bool reconfigure(const config::Config &config) override {
        return attacher_->reconfigure(config);
    }

private:
    Result<> open() override;
    void after_drain() override {
        if (governor_ && governor_->is_due(now_on(CLOCK_MONOTONIC))) {
            governor_->note(aggregator_.take_calls());
        }
    }
    [[nodiscard]] Uncounted count_uncounted() const override {
        return {.undecodable = aggregator_.undecodable()};
    }
    void add_own_counts(Health &health) const override {
        health.lost_details = reporter_.lost_details(programs_->slow_details_lost());
        health.lost_details->entries = programs_->entries_lost();
    }
    [[nodiscard]] FunctionPrograms::Details wanted_details() const;
    [[nodiscard]] std::uint64_t cost_of(const ProcessKey &process) const {
        return cost_in<func_process>(programs_->processes_map(), process);
    }
    [[nodiscard]] std::uint64_t unmuted_cost_of(const ProcessKey &process) const {
        func_process value{};
        return bpf_map_lookup_elem(programs_->processes_map(), &process.tgid, &value) == 0 &&
                       value.entry.since_ns == process.since_ns
                   ? value.entry.cost_ns - value.muted_ns
                   : 0;
    }

    Setup setup_;
    FunctionIds ids_;
    CallReporter reporter_;
    ReportFactsPtr report_facts_;
    SandboxWarnings sandboxes_{"functions"};
    FunctionsAggregator aggregator_;
    FunctionsMoment since_ = FunctionsMoment::now();
    std::unique_ptr<FunctionGovernor> governor_;  // null: there is no limit
    Result<std::unique_ptr<OpenCallReader>> open_calls_ = fail("the probe is not up");
};

Result<> FunctionsProbe::open() {
    auto programs = FunctionPrograms::load(setup_.config, wanted_details(), setup_.features);
    if (!programs) {
        return tl::unexpected(programs.error());
    }
    auto consumer = FunctionsConsumer::open(**programs, ids_, reporter_, aggregator_,
                                            {.rescan_interval = setup_.rescan_interval,
                                             .report = setup_.config.report,
                                             .since = since_.monotonic});
    if (!consumer) {
        return tl::unexpected(consumer.error());
    }
    reporter_.start();
    report_facts_->sources().functions = true;
    programs_ = std::move(*programs);
    if (!setup_.tracing && setup_.unreturned_after > nanoseconds(0)) {
        open_calls_ = OpenCallReader::open<func_in_flight_bpf>(programs_->threads_map());
    }
    consumer_ = std::move(*consumer);
    attacher_.emplace(*programs_, ids_, attached_, setup_.config,
                      setup_.tracing ? &*setup_.tracing : nullptr, setup_.features);
    if (setup_.max_overhead > 0) {
        governor_ = std::make_unique<FunctionGovernor>(
            setup_.max_overhead, attacher_->files(), ids_,
            FunctionGovernor::Kernel{
                .cost_of = [this](const auto &process) { return unmuted_cost_of(process); },
                .open_reader =
                    [this] {
                        return OpenCallReader::open<func_in_flight_bpf>(programs_->threads_map());
                    }});
    }
    return {};
}

FunctionPrograms::Details FunctionsProbe::wanted_details() const {
    if (setup_.tracing) {
        return {
            .all_arguments = true, .entries = setup_.tracing->entries, .tracing = &*setup_.tracing};
    }
    FunctionPrograms::Details wanted = reporter_.wanted();
    wanted.unreturned_after = setup_.unreturned_after;
    return wanted;
}

Result<OpenCalls> FunctionsProbe::open_calls(const OpenCallQuery &query) {
    return open_calls_ ? (*open_calls_)
                             ->read(query, {.call_of =
                                                [this](const auto &record) {
                                                    return aggregator_.open_call(record);
                                                }})
                       : tl::unexpected(open_calls_.error());
}

std::vector<ApiPage> FunctionsProbe::api_pages(std::string_view name) {
    if (programs_ && name == functions_page_name) {
        const FunctionsMoment now = FunctionsMoment::now();
        return {functions_page(aggregator_.snapshot(now.monotonic), since_, now)};
    }
    return programs_ && name == slow_calls_page_name ? std::vector{reporter_.slow_calls()}
                                                     : std::vector<ApiPage>{};
}

std::unique_ptr<Probe> make_functions(const config::Config &config, const ebpf::Features &features,
                                      const Shared &shared) {
    if (!config.of<FunctionsConfig>().enabled) {
        return nullptr;
    }
    auto probe = std::make_unique<FunctionsProbe>(config, features, shared.sinks, shared.overhead,
                                                  shared.report_facts);
    shared.call_followers->emplace_back("functions", probe.get());
    return probe;
}

series::Family &declare_durations(series::FamilySet &set) {
    return add_function_durations(set, {1});
}

std::vector<series::FamilySet> declare_function_families() {
    auto sets = declare_families<make_function_families, declare_durations, make_function_gauges>();
    make_nccl_gauges(sets.emplace_back(one_for_each, true));
    return sets;
}

constexpr std::string_view functions_pages[] = {functions_page_name, slow_calls_page_name};

}  // namespace

constinit const ProbeKind functions_kind = {
    .name = "functions",
    .title = "Functions",
    .make = make_functions,
    .read = read_functions,
    .attach = attach_of<FunctionsConfig>,
    .drain_interval = drain_interval_of<FunctionsConfig>,
    .declare = declare_function_families,
    .counts = {.entries = true,
               .in_flight = true,
               .stale = true,
               .unmatched = true,
               .deaths = true,
               .lost = lost_for({LOST_ring_full, LOST_throttled, LOST_no_state, LOST_process_table,
                                 LOST_too_deep}),
               .attach_failures = function_failures},
    .api_pages = functions_pages,
    .trace = &trace::functions_trace,
};

std::unique_ptr<Probe> make_function_tracer(config::Config config, const ebpf::Features &features,
                                            FunctionTracing tracing) {
    auto functions = config.of<FunctionsConfig>();
    functions.slow_calls.history = 0;
    functions.slow_calls.log_per_second = 0;
    functions.report = {};
    config.set(std::move(functions));
    const auto no_sinks = std::make_shared<const sinks::Sinks>(sinks::SinkConfigs());
    return std::make_unique<FunctionsProbe>(config, features, no_sinks, nullptr,
                                            std::make_shared<ReportFacts>(), std::move(tracing));
}

}  // namespace gpusnoop::probes
