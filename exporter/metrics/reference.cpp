#include "exporter/metrics/reference.h"

#include <prometheus/metric_family.h>

#include <map>
#include <string>
#include <vector>

#include "exporter/metrics/process.h"
#include "exporter/metrics/self.h"
#include "exporter/probes/frame/registry.h"

namespace gpusnoop::metrics {

namespace {

// The row of a family of the exporter itself.
std::string row(const prometheus::MetricFamily &family) {
    std::string labels;
    if (!family.metric.empty()) {
        for (const auto &label : family.metric.front().label) {
            labels += (labels.empty() ? "`" : ", `") + label.name + "`";
        }
    }
    const bool is_counter = family.type == prometheus::MetricType::Counter;
    return "| `" + family.name + "` | " + (is_counter ? "counter" : "gauge") + " | " + labels +
           " | " + family.help + " |\n";
}

const char *type_name(series::Type type) {
    switch (type) {
        case series::Type::counter:
            return "counter";
        case series::Type::gauge:
            return "gauge";
        case series::Type::histogram:
            return "histogram";
    }
    return "untyped";
}

// The row of a probe's family.
std::string row(const series::Description &family) {
    std::string labels;
    for (const series::Label &label : family.labels) {
        labels += (labels.empty() ? "`" : ", `") + std::string(label.name) + "`";
    }
    return "| `" + family.name + "` | " + type_name(family.type) + " | " + labels + " | " +
           family.help + " |\n";
}

template <typename Families>
void add_rows(std::string &text, const Families &families) {
    text += "| family | type | labels | meaning |\n|---|---|---|---|\n";
    for (const auto &family : families) {
        text += row(family);
    }
}

}  // namespace

std::string metrics_reference() {
    std::vector<series::FamilySnapshot> snapshots;
    std::map<std::string, std::uint64_t> folded;
    std::string tables;
    for (const probes::ProbeKind *const kind : probes::all_probes()) {
        std::vector<series::Description> families;
        for (series::FamilySet &set : kind->declare()) {
            for (series::Family &family : set.families()) {
                family.slot(1, series::LabelValues(family.description().labels.size()));
                snapshots.push_back(family.snapshot());
                families.push_back(family.description());
                folded[family.description().name] = 0;
            }
        }
        tables += "## " + std::string(kind->title) + "\n\n";
        add_rows(tables, families);
        tables += '\n';
    }
    // One probe with a value for every family.
    probes::Health probe;
    probe.name = "cuda";
    probe.runs = 1;
    probe.slow_details_lost = {{"busy", 0}};
    probe.sinks = {{"file", 0, {{"queue_full", 0}}}};
    std::vector<prometheus::MetricFamily> self = probe_families({probe});
    for (auto &family : series_families(snapshots, folded)) {
        self.push_back(std::move(family));
    }
    self.push_back(log_family(0));
    for (auto &family : discovery_families({})) {
        self.push_back(std::move(family));
    }
    self.push_back(feature_family({{{"btf", true, ""}}}));
    for (auto &family : reload_families({})) {
        self.push_back(std::move(family));
    }
    self.push_back(build_info(""));
    for (auto &family : process_families(read_own_process())) {
        self.push_back(std::move(family));
    }

    std::string text =
        "# Metrics\n\n"
        "Made by `gpusnoop_exporter list-metrics`; do not edit.\n\n"
        "`comm` is the name of the process at its first traced call, `script` the script that it "
        "runs as an interpreter; `container_id` and `slurm_job_id` come from its cgroup "
        "([identity.md](identity.md)). A label without a value is not on the page. With "
        "`labels: {pid: true}` every family of a probe has the label `pid` too. `gpu` is `unknown` "
        "where the device is not known. Past a family's "
        "budget of label sets "
        "(`series:` in the configuration) the lightest of counters, and of others new ones, are "
        "counted as `other`. Nothing is labelled by address.\n\n"
        "Times are those inside the call, on the CPU: not a kernel's run time on the GPU.\n\n";
    text += tables;
    text +=
        "## The exporter itself\n\n"
        "For each probe: `entries = events + in_flight + stale + lost` (all reasons but "
        "`undecodable` and `forgotten`, which are of events, and `skipped`, which the kernel "
        "counts: of programs that were not run, as one was running on that CPU already).\n\n";
    add_rows(text, self);
    return text;
}

}  // namespace gpusnoop::metrics
