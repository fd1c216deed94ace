#include "exporter/probes/xid/history.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "exporter/base/text.h"
#include "exporter/base/utc_time.h"
#include "exporter/probes/frame/frame_json.h"

namespace gpusnoop::probes {

namespace {

using Json = nlohmann::ordered_json;

struct XidQuery {
    std::optional<std::string> device;
    std::optional<std::uint32_t> code;
    std::optional<std::uint32_t> pid;
    std::uint32_t limit = std::numeric_limits<std::uint32_t>::max();
};

Result<XidQuery> read_xid_query(const QueryParameters &parameters) {
    XidQuery query;
    for (const auto &[name, value] : parameters) {
        if (name == "device") {
            query.device = value;
            continue;
        }
        if (name != "xid" && name != "pid" && name != "limit") {
            return fail(in_quotes(name) +
                        " is not a parameter of this page; it has device, xid, pid and limit");
        }
        const auto number = read_parameter(name, value, name == "limit" ? 0 : 1);
        if (!number) {
            return tl::unexpected(number.error());
        }
        if (name == "limit") {
            query.limit = *number;
        } else {
            (name == "xid" ? query.code : query.pid) = *number;
        }
    }
    return query;
}

bool is_asked_for(const XidEvent &event, const XidQuery &query) {
    return query.device.value_or(event.report.device) == event.report.device &&
           query.code.value_or(event.report.code) == event.report.code &&
           (!query.pid || query.pid == event.report.pid);
}

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

std::string xid_text(const std::vector<XidEvent> &all, const XidQuery &query) {
    Json xids = Json::array();
    std::size_t left_out = 0;
    for (const XidEvent &event : all) {
        if (!is_asked_for(event, query)) {
            continue;
        }
        if (xids.size() == query.limit) {
            left_out++;
        } else {
            xids.push_back(to_json(event));
        }
    }
    return to_text({{"xids", std::move(xids)}, {"xids_left_out", left_out}}) + "\n";
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

ApiResource xids_document(std::vector<XidEvent> all) {
    const auto shared = std::make_shared<const std::vector<XidEvent>>(std::move(all));
    return {"xids", [shared](const QueryParameters &parameters) -> Result<ApiResponse> {
                const auto query = read_xid_query(parameters);
                if (!query) {
                    return tl::unexpected(query.error());
                }
                return ApiResponse{"application/json", xid_text(*shared, *query)};
            }};
}

}  // namespace gpusnoop::probes
