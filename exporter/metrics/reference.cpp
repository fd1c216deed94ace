#include "exporter/metrics/reference.h"

#include <map>
#include <set>
#include <string_view>

#include "exporter/metrics/process.h"
#include "exporter/metrics/self.h"
#include "exporter/probes/frame/budget.h"
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

// The names of others for a family.
struct Elsewhere {
    std::string_view family;  // without the prefix gpusnoop_
    std::string_view obi;     // of OpenTelemetry eBPF Instrumentation, for the same thing
    std::string_view dcgm;    // fields of DCGM, for the GPU's side of it
};

constexpr Elsewhere others[] = {
    {"cuda_memory_allocated_bytes_total", "gpu.cuda.memory.allocations", ""},
    {"cuda_memory_freed_bytes_total", "gpu.cuda.memory.free.bytes", ""},
    {"cuda_memory_outstanding_bytes", "", "DCGM_FI_DEV_FB_USED"},
    {"cuda_memcpy_bytes_total", "",
     "DCGM_FI_PROF_PCIE_TX_BYTES, DCGM_FI_PROF_PCIE_RX_BYTES, DCGM_FI_DEV_MEM_COPY_UTIL"},
    {"cuda_memcpy_size_bytes", "gpu.cuda.memory.copies", ""},
    {"cuda_memset_bytes_total", "gpu.cuda.memset.bytes", ""},
    {"cuda_kernel_launches_total", "gpu.cuda.kernel.launch.calls",
     "DCGM_FI_DEV_GPU_UTIL, DCGM_FI_PROF_GR_ENGINE_ACTIVE"},
    {"cuda_graph_launches_total", "gpu.cuda.graph.launch.calls",
     "DCGM_FI_DEV_GPU_UTIL, DCGM_FI_PROF_GR_ENGINE_ACTIVE"},
    {"cuda_api_errors_total", "", "DCGM_FI_DEV_XID_ERRORS"},
    {"gpu_xid_total", "", "DCGM_FI_DEV_XID_ERRORS"},
    {"nccl_bytes_total", "", "DCGM_FI_PROF_NVLINK_TX_BYTES, DCGM_FI_PROF_NVLINK_RX_BYTES"},
};

std::string elsewhere(std::string_view family) {
    for (const Elsewhere &other : others) {
        if (family != "gpusnoop_" + std::string(other.family)) {
            continue;
        }
        std::string text = other.obi.empty() ? "" : "OBI `" + std::string(other.obi) + "`";
        if (!other.dcgm.empty()) {
            text += (text.empty() ? "DCGM `" : "; DCGM `") + std::string(other.dcgm) + "`";
        }
        return text;
    }
    return "";
}

// The row of a probe's family.
std::string row(const series::Description &family) {
    std::string labels;
    for (const series::Label &label : family.labels) {
        labels += (labels.empty() ? "`" : ", `") + std::string(label.name) + "`";
    }
    const bool is_off =
        family.type == series::Type::histogram && !probes::HistogramsConfig().has(family.name);
    return "| `" + family.name + "` | " + type_name(family.type) + " | " + labels + " | " +
           family.help + (is_off ? " Off by default." : "") + " | " + elsewhere(family.name) +
           " |\n";
}

// The families of the exporter itself, beside those of the probes.
std::vector<prometheus::MetricFamily> own_families(
    const std::vector<series::FamilySnapshot> &of_probes) {
    std::map<std::string, std::uint64_t> folded;
    for (const series::FamilySnapshot &family : of_probes) {
        folded[family.description->name] = 1;
    }
    // One probe with a value for every family.
    probes::Health probe;
    probe.name = "cuda";
    probe.state = probes::ProbeState::up;
    probe.can_count = {.entries = true,
                       .in_flight = true,
                       .stale = true,
                       .nested = true,
                       .unmatched = true,
                       .deaths = true,
                       .attach_failures = probes::library_failures};
    probe.runs.count = 1;
    probe.lost_details = {.slow = {{"busy", 0}}};
    std::vector<prometheus::MetricFamily> self = probe_families({probe});
    for (auto &family : sink_families({{"file", 0, {{"queue_full", 0}}}})) {
        self.push_back(std::move(family));
    }
    for (auto &family : series_families(of_probes, folded)) {
        self.push_back(std::move(family));
    }
    self.push_back(log_family(0));
    for (auto &family : discovery_families({})) {
        self.push_back(std::move(family));
    }
    self.push_back(feature_family({{{"btf", true, ""}}}));
    self.push_back(cost_family({{ebpf::AttachMode::session, {}}}));
    for (auto &family : reload_families({})) {
        self.push_back(std::move(family));
    }
    self.push_back(build_info(""));
    for (auto &family : process_families(read_own_process())) {
        self.push_back(std::move(family));
    }
    return self;
}

}  // namespace

EveryFamily every_family() {
    EveryFamily every;
    for (const probes::ProbeKind *const kind : probes::all_probes()) {
        every.of_probes.emplace_back(kind->title, std::vector<series::FamilySnapshot>());
        for (series::FamilySet &set : kind->declare()) {
            for (series::Family &family : set.families()) {
                const std::size_t labels = family.description().labels.size();
                family.slot(1, series::LabelValues(labels, "a"));
                every.of_probes.back().second.push_back(family.snapshot());
            }
        }
    }
    every.own = own_families(every.snapshots());
    return every;
}

std::vector<series::FamilySnapshot> EveryFamily::snapshots() const {
    std::vector<series::FamilySnapshot> all;
    std::set<std::string> seen;  // several probes have the same family
    for (const auto &[title, families] : of_probes) {
        for (const series::FamilySnapshot &family : families) {
            if (seen.insert(family.description->name).second) {
                all.push_back(family);
            }
        }
    }
    return all;
}

std::string metrics_reference() {
    const EveryFamily every = every_family();
    std::string text =
        "# Metrics\n\n"
        "Generated by `gpusnoop_exporter list-metrics`; do not edit.\n\n"
        "`comm` is the name of the process at its first traced call, `script` the script that it "
        "runs if it is an interpreter; `container_id` and `slurm_job_id` come from its cgroup "
        "([identity.md](identity.md)). Empty labels are left out of the page. With `labels: {pid: "
        "true}`, every family of a probe also has the label `pid`. `gpu` is `unknown` if the "
        "device is not known. Above a family's budget of label sets (`series:` in the "
        "configuration), the lightest ones of counters, and new ones of other types, are counted "
        "as `other`. No label contains an address.\n\n"
        "Histograms marked \"Off by default\" are on the page if `histograms` in the configuration "
        "lists them.\n\n"
        "Times are measured inside the call, on the CPU. They are not the run time of a kernel on "
        "the GPU.\n\n"
        "`elsewhere` lists the corresponding metric of OpenTelemetry eBPF Instrumentation (OBI), "
        "and the DCGM fields that show the GPU's side. OBI traces fewer functions (only "
        "`cudaMalloc` for allocations), and counts copies and memsets when they begin, even if "
        "they fail.\n\n";
    std::set<std::string> seen;
    for (const auto &[title, families] : every.of_probes) {
        text += "## " + title + "\n\n";
        text += "| family | type | labels | meaning | elsewhere |\n|---|---|---|---|---|\n";
        for (const series::FamilySnapshot &family : families) {
            if (seen.insert(family.description->name).second) {
                text += row(*family.description);
            }
        }
        text += '\n';
    }
    text +=
        "## The exporter itself\n\n"
        "For each probe, `entries = events + in_flight + stale + lost`, without the reasons "
        "`undecodable` and `forgotten`, which are included in the events, and `skipped`, which "
        "counts runs of BPF programs that the kernel skipped because one was already running on "
        "that CPU.\n\n";
    text += "| family | type | labels | meaning |\n|---|---|---|---|\n";
    for (const auto &family : every.own) {
        text += row(family);
    }
    return text;
}

}  // namespace gpusnoop::metrics
