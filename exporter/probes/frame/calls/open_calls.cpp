#include "exporter/probes/frame/calls/open_calls.h"

#include <algorithm>
#include <numeric>

#include "exporter/base/text/text.h"
#include "exporter/config/reader.h"

namespace gpusnoop::probes {

OpenCall open_call_of(const ProcessIdentity &process, const open_call &record) {
    OpenCall call;
    static_cast<processes::ProcessNames &>(call) = process;
    call.began_ns = record.started_ns;
    call.pid = process.key.tgid;
    call.tid = record.tid;
    // A character of the name can become one of three bytes.
    call.thread = to_valid_utf8({record.comm, sizeof(record.comm)}, sizeof(record.comm) * 3);
    call.pod_uid = process.pod_uid;
    call.sp = record.sp;
    return call;
}

std::uint64_t OpenCalls::count() const {
    return std::accumulate(
        more.begin(), more.end(), std::uint64_t{calls.size()},
        [](std::uint64_t sum, const MoreCalls &of_kind) { return sum + of_kind.count; });
}

void OpenCallList::add(const open_call_record &record) {
    if (!describe_.is_shown(record)) {
        return;
    }
    std::size_t &listed = listed_[record.tgid];
    if (listed < always_listed_calls ||
        (listed < max_listed_calls && open_.calls.size() < max_listed_calls_of_all)) {
        if (auto call = describe_.call_of(record)) {
            open_.calls.push_back(*std::move(call));
            listed++;
        }
        return;
    }
    const auto [kind, is_new] =
        counted_.try_emplace(Kind(record.tgid, record.since_ns, record.call.cookie));
    if (is_new) {
        if (const auto call = describe_.call_of(record)) {
            kind->second = open_.more.size();
            MoreCalls &more = open_.more.emplace_back();
            static_cast<processes::ProcessNames &>(more) = *call;
            more.pid = call->pid;
            more.library = call->library;
            more.function = call->function;
            more.oldest_ns = call->began_ns;
        }
    }
    if (kind->second) {
        MoreCalls &more = open_.more[*kind->second];
        more.count++;
        more.oldest_ns = std::min<std::uint64_t>(more.oldest_ns, record.call.started_ns);
    }
}

using namespace std::chrono_literals;

void read_in_flight(config::Section in_flight, config::Config &config) {
    InFlightConfig value;
    in_flight.boolean("enabled", value.enabled);
    in_flight.duration("min_age", value.min_age, 1ms, 24h);
    in_flight.finish();
    config.set(value);
}

}  // namespace gpusnoop::probes
