#include "exporter/probes/xid/aggregator.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "bpf/xid.h"
#include "exporter/base/log.h"
#include "exporter/base/text/quantity_text.h"
#include "exporter/ebpf/maps/ring.h"
#include "exporter/probes/frame/api/list_page.h"
#include "exporter/probes/frame/pci_address.h"
#include "exporter/processes/proc.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json known(const std::optional<T> &value) {
    return value ? Json(*value) : Json();
}

Json to_json(const XidEvent &event) {
    const XidReport &report = event.report;
    Json json = Json::object();
    json["time"] = utc_time(event.at);
    json["kind"] = report.is_switch ? "sxid" : "xid";
    json["xid"] = report.code;
    json[report.is_switch ? "severity" : "class"] = event.kind;
    json["device"] = report.device;
    if (!report.is_switch) {
        json["gpu"] = event.gpu;
        json["gpu_instance"] = known(report.gpu_instance);
        json["compute_instance"] = known(report.compute_instance);
    }
    json["pid"] = known(report.pid);
    if (event.process) {
        processes::add_names(json, *event.process);
    }
    json["text"] = report.text;
    return json;
}

ApiResponse write_xids(const std::vector<XidEvent> &all, const ListQuery &query) {
    std::string text = "{";
    JsonList list(text, xids_page_name, query.limit());
    for (const XidEvent &event : all) {
        const XidReport &report = event.report;
        if (query.wants("device", report.device) && query.wants("xid", report.code) &&
            query.wants_process(report.pid.value_or(0),
                                event.process.value_or(processes::ProcessNames()))) {
            list.add([&] { return to_json(event); });
        }
    }
    const std::size_t left_out = list.end();
    return end_page(std::move(text), left_out);
}

}  // namespace

void XidHistory::add(XidEvent event) {
    if (events_.size() == max_kept_xids) {
        events_.pop_front();
    }
    events_.push_back(std::move(event));
    count_++;
}

std::vector<XidEvent> XidHistory::list() const {
    return {events_.rbegin(), events_.rend()};
}

XidsOverview XidHistory::overview() const {
    XidsOverview overview;
    overview.count = count_;
    const std::size_t shown = std::min(events_.size(), max_overview_xids);
    for (auto event = events_.rbegin(); overview.last.size() < shown; ++event) {
        overview.last.push_back({.at = event->at,
                                 .is_switch = event->report.is_switch,
                                 .code = event->report.code,
                                 .kind = event->kind,
                                 .device = event->report.device,
                                 .gpu = event->gpu,
                                 .pid = event->report.pid.value_or(0),
                                 .process = event->process,
                                 .text = event->report.text});
    }
    return overview;
}

ApiPage xids_page(std::vector<XidEvent> all) {
    return list_page(xids_page_name,
                     process_parameters({{"device"}, {"xid", PageParameter::Type::number}}),
                     std::move(all), write_xids);
}

using std::chrono::nanoseconds;

namespace {

constexpr std::uint32_t log_lines_per_second = 10;

// A process that has ended is known by the name in the report.
SeriesSettings with_name(SeriesSettings settings, const std::string &name) {
    settings.look_up = [inner = std::move(settings.look_up), &name](ProcessIdentity &identity) {
        if (inner(identity)) {
            return true;
        }
        if (!name.empty()) {
            identity.comm = name;
        }
        return false;
    };
    return settings;
}

// "00000000:3B:00.0", as NVML writes it, to the form of /sys.
std::string device_of(const discovery::Gpu &gpu) {
    const auto device = pci_device(gpu.pci_bus_id);
    return device ? pci_address(*device) : std::string();
}

series::Description without_process(std::string name, std::string help,
                                    std::vector<series::Label> labels) {
    return {.name = "gpusnoop_" + std::move(name),
            .help = std::move(help),
            .type = series::Type::counter,
            .labels = std::move(labels)};
}

}  // namespace

XidFamilies make_xid_families(series::FamilySet &set) {
    return {
        .xids = set.counter("gpu_xid_total",
                            "GPU errors reported by the NVIDIA driver (Xid), by the process that "
                            "the report names. `class` follows the action that NVIDIA documents: "
                            "hardware, application, or information (no action).",
                            {{"gpu", true}, {"device"}, {"xid"}, {"class", true}}),
        .sxids = set.add(without_process("nvswitch_sxid_total",
                                         "NVSwitch errors reported by the NVIDIA driver (SXid).",
                                         {{"device"}, {"sxid"}, {"severity", true}})),
        .ignored = set.add(without_process(
            "xid_lines_ignored_total",
            "Lines of the kernel log that look like reports of the NVIDIA driver but are not "
            "counted: a program wrote them to /dev/kmsg (written), they cannot be parsed "
            "(malformed), or they belong to the previous report (continued).",
            {{"reason", true}})),
    };
}

XidAggregator::XidAggregator(const SeriesSettings &settings)
    : CountingAggregator(with_name(settings, name_)), log_limit_(log_lines_per_second) {}

void XidAggregator::set_gpus(const std::vector<discovery::Gpu> &gpus) {
    gpus_.clear();
    for (const discovery::Gpu &gpu : gpus) {
        gpus_[device_of(gpu)] = std::to_string(gpu.index);
    }
}

bool XidAggregator::on_record(std::span<const std::byte> bytes) {
    const auto record = ebpf::decode<xid_record>(bytes);
    if (!record || record->source >= XID_SOURCE_COUNT || record->text_bytes > XID_TEXT_BYTES) {
        return false;
    }
    const std::string_view text(record->text, record->text_bytes);
    const nanoseconds at(static_cast<std::int64_t>(record->at_ns));
    if (record->source == XID_LOG) {
        (void)on_line(text, record->written != 0, at);
        return true;
    }
    on_report(
        make_report(record->source == XID_SWITCH, pci_address(record->device), record->code, text),
        at);
    return true;
}

bool XidAggregator::on_line(std::string_view line, bool written_by_program, nanoseconds at) {
    auto report = read_report(line);
    if (!report) {
        if (line.find("Xid (") != std::string_view::npos) {
            ignore("malformed");
        }
        return false;
    }
    if (written_by_program && !counts_written_) {
        ignore("written");
        return false;
    }
    on_report(*std::move(report), at);
    return true;
}

void XidAggregator::ignore(std::string_view reason) {
    of_.ignored.add(of_.ignored.slot(0, {std::string(reason)}), 1);
}

void XidAggregator::on_report(XidReport report, nanoseconds at) {
    if (continues_report(report)) {
        ignore("continued");
        return;
    }
    XidEvent event;
    event.at = now_on(CLOCK_REALTIME) - (now_on(CLOCK_MONOTONIC) - at);
    if (report.is_switch) {
        event.kind = severity_of(report);
    } else {
        event.kind = to_string(class_of(report));
        const auto gpu = gpus_.find(report.device);
        event.gpu = gpu == gpus_.end() ? "unknown" : gpu->second;
    }
    event.report = std::move(report);
    const KnownProcess *const process = process_of(event.report, at);
    if (process != nullptr) {
        event.process = *process;
    }
    count(event, process);
    log_report(event);
    history_.add(std::move(event));
}

// A process is its start, which /proc has in whole hundredths of a second, and its name, which an
// exec changes. One that has ended already is another one at each report, as nothing separates it
// from a later process with its id.
const KnownProcess *XidAggregator::process_of(const XidReport &report, nanoseconds at) {
    if (!report.pid) {
        return nullptr;
    }
    name_ = report.process_name;
    const auto started = processes::start_time(*report.pid);
    constexpr std::uint64_t clock_tick_ns = 10'000'000;
    const std::uint64_t name = std::hash<std::string>()(processes::name_of(*report.pid));
    const auto since = static_cast<std::uint64_t>((started ? *started : at).count());
    const ProcessKey key{*report.pid, started ? since + name % clock_tick_ns : since};
    const KnownProcess &process = processes_.of(key);
    if (!started) {
        processes_.end(key, at);
    }
    return &process;
}

void XidAggregator::count(const XidEvent &event, const KnownProcess *process) {
    const std::string code = std::to_string(event.report.code);
    if (event.report.is_switch) {
        of_.sxids.add(of_.sxids.slot(0, {event.report.device, code, event.kind}), 1);
        return;
    }
    auto [values, owner] = processes_.row_of(process);
    values.insert(values.end(), {event.gpu, event.report.device, code, event.kind});
    of_.xids.add(of_.xids.slot(owner, values), 1);
}

void XidAggregator::log_report(const XidEvent &event) {
    if (!log_limit_.allow(now_on(CLOCK_MONOTONIC))) {
        return;
    }
    const bool needs_action = event.kind == to_string(XidClass::hardware) || event.kind == "fatal";
    log::write(needs_action ? log::Level::warn : log::Level::info,
               event.report.is_switch ? "the driver reports an SXid" : "the driver reports an Xid",
               {{"device", event.report.device},
                {"gpu", event.gpu},
                {event.report.is_switch ? "sxid" : "xid", event.report.code},
                {event.report.is_switch ? "severity" : "class", event.kind},
                {"pid", event.report.pid.value_or(0)},
                {"comm", event.process ? event.process->comm : std::string()},
                {"text", event.report.text},
                {"not_logged_before", log_limit_.take_suppressed()}});
}

}  // namespace gpusnoop::probes
