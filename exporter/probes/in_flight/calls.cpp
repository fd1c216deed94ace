#include "exporter/probes/in_flight/calls.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <tuple>
#include <utility>

namespace gpusnoop::probes {

namespace {

// A thread has one call at a place of its stack.
using Place = std::pair<std::uint32_t, std::uint64_t>;

Place place_of(const OpenCall &call) {
    return {call.tid, call.sp};
}

// Of calls of a thread that have become one, the start that the one has.
using Starts = std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint64_t>;

// A thread's record names its call by the start.
void name_calls(std::vector<blocked_thread_record> &threads, const Starts &kept) {
    for (blocked_thread_record &thread : threads) {
        const auto start = kept.find({thread.tid, thread.call_started_ns});
        if (start != kept.end()) {
            thread.call_started_ns = start->second;
        }
    }
}

}  // namespace

// The description by the probe that knows the file stays, with what only the other one knows.
void merge(OpenCall &into, OpenCall other) {
    if (!into.is_file_known && other.is_file_known) {
        std::swap(into, other);
    }
    if (into.gpu.empty()) {
        into.gpu = std::move(other.gpu);
    }
    if (into.arguments.empty()) {
        into.arguments = std::move(other.arguments);
    }
    if (into.returns_to == 0) {
        into.returns_to = other.returns_to;
    }
}

void join(OpenCalls &all, OpenCalls more) {
    std::map<Place, std::size_t> places;
    for (std::size_t i = 0; i < all.calls.size(); i++) {
        places.emplace(place_of(all.calls[i]), i);
    }
    Starts kept;
    for (OpenCall &call : more.calls) {
        const auto [place, is_new] = places.emplace(place_of(call), all.calls.size());
        if (is_new) {
            all.calls.push_back(std::move(call));
            continue;
        }
        OpenCall &into = all.calls[place->second];
        const std::uint64_t begins[] = {into.began_ns, call.began_ns};
        merge(into, std::move(call));
        for (const std::uint64_t began_ns : begins) {
            kept.emplace(std::pair(into.tid, began_ns), into.began_ns);
        }
    }
    std::ranges::move(more.more, std::back_inserter(all.more));
    name_calls(all.threads, kept);
    name_calls(more.threads, kept);
    std::set<std::uint32_t> threads;
    for (const blocked_thread_record &thread : all.threads) {
        threads.insert(thread.tid);
    }
    std::ranges::copy_if(more.threads, std::back_inserter(all.threads),
                         [&](const auto &thread) { return threads.insert(thread.tid).second; });
}

void sort_by_age(std::vector<OpenCall> &calls) {
    std::ranges::sort(calls, {}, [](const OpenCall &call) {
        return std::tuple(call.began_ns, call.tid, call.sp);
    });
}

std::map<std::uint32_t, std::uint64_t> innermost_calls(const std::vector<OpenCall> &calls) {
    std::map<std::uint32_t, std::uint64_t> innermost;
    for (const OpenCall &call : calls) {
        std::uint64_t &began_ns = innermost[call.tid];
        began_ns = std::max(began_ns, call.began_ns);
    }
    return innermost;
}

OpenCalls threads_of(const std::vector<OpenCall> &calls, const OpenCalls &all) {
    OpenCalls open;
    const auto threads = innermost_calls(calls);
    std::ranges::copy_if(all.calls, std::back_inserter(open.calls),
                         [&](const OpenCall &call) { return threads.contains(call.tid); });
    std::ranges::copy_if(all.threads, std::back_inserter(open.threads),
                         [&](const auto &thread) { return threads.contains(thread.tid); });
    return open;
}

InFlightGauges make_in_flight_gauges(series::FamilySet &set) {
    return {
        .calls = set.gauge("calls_in_flight",
                           "Calls that began at least in_flight.min_age ago and have not "
                           "returned, per running process.",
                           {{"library"}, {"function"}}),
        .oldest =
            set.gauge("oldest_call_seconds", "Age of the oldest of the calls in calls_in_flight.",
                      {{"library"}, {"function"}}, 1e9),
        .site = set.gauge("oldest_call_site_info",
                          "1 for the oldest call of a Python program, with the lines of Python "
                          "that made it, named as the call sites of allocations. Known at the "
                          "second scrape that sees the call five seconds old.",
                          {{"library"}, {"function"}, {"site"}}),
    };
}

void add_in_flight(const InFlightGauges &gauges, const OpenCalls &open, std::uint64_t now_ns,
                   const SiteOfCall &site_of) {
    const auto labels_of = [](const auto &of) {
        return series::LabelValues{
            of.comm,    of.script,  of.container, of.slurm_job_id, std::to_string(of.pid),
            of.library, of.function};
    };
    const auto add = [&](const auto &of, std::uint64_t count, std::uint64_t oldest_ns) {
        const series::LabelValues values = labels_of(of);
        gauges.calls.add(gauges.calls.slot(1, values), count);
        const series::Slot oldest = gauges.oldest.slot(1, values);
        gauges.oldest.set(
            oldest, std::max(gauges.oldest.value(oldest), now_ns - std::min(now_ns, oldest_ns)));
    };
    for (const OpenCall &call : open.calls) {
        add(call, 1, call.began_ns);
    }
    for (const MoreCalls &more : open.more) {
        add(more, more.count, more.oldest_ns);
    }
    std::map<series::LabelValues, const OpenCall *> oldest;
    for (const OpenCall &call : open.calls) {
        const auto first = oldest.try_emplace(labels_of(call), &call).first;
        first->second = call.began_ns < first->second->began_ns ? &call : first->second;
    }
    for (auto &[labels, call] : oldest) {
        if (const std::string site = site_of ? site_of(*call) : ""; !site.empty()) {
            series::LabelValues values = labels;
            values.push_back(site);
            gauges.site.set(gauges.site.slot(1, values), 1);
        }
    }
}

}  // namespace gpusnoop::probes
