#include "exporter/probes/xid/history.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "exporter/base/text/utc_time.h"
#include "exporter/probes/frame/api/list_page.h"

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

}  // namespace gpusnoop::probes
