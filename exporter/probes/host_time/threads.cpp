#include "exporter/probes/host_time/threads.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "exporter/base/seconds.h"
#include "exporter/base/text/quantity_text.h"
#include "exporter/base/text/text.h"
#include "exporter/probes/host_time/aggregator.h"
#include "exporter/probes/host_time/calls.h"

namespace gpusnoop::probes {

namespace {

using Json = nlohmann::ordered_json;

// Of the same form as the ids of calls.
std::string thread_id(std::uint32_t number, std::uint64_t since_ns) {
    return std::to_string(number) + "-" + std::to_string(since_ns);
}

Json to_json(const ThreadsState::Process &process, std::size_t threads) {
    const ProcessKey &key = process.identity.key;
    Json json = {{"id", thread_id(key.tgid, key.since_ns)}, {"pid", key.tgid}};
    processes::add_names(json, process.identity);
    json["pod_uid"] = process.identity.pod_uid;
    json["threads"] = threads;
    json["wall_seconds"] = in_seconds(process.times.cells.wall_ns());
    json["seconds"] = to_json(process.times.cells);
    json["launch_gaps"] = to_json(process.times.gaps);
    json["workers"] = to_json(process.times.workers);
    json["call"] = to_json(process.times.call);
    return json;
}

Json to_json(const LaunchingThread &thread, const ProcessIdentity &process,
             std::chrono::nanoseconds to_realtime) {
    const std::chrono::nanoseconds began(static_cast<std::int64_t>(thread.since_ns));
    Json json = {{"id", thread_id(thread.tid, thread.since_ns)},
                 {"began", utc_time(began + to_realtime)},
                 {"pid", process.key.tgid},
                 {"tid", thread.tid}};
    processes::add_names(json, process);
    json["thread"] = thread.name;
    json["pod_uid"] = process.pod_uid;
    json["cpu"] = thread.cpu;
    json["numa_node"] = thread.numa_node ? Json(*thread.numa_node) : Json();
    json["phase"] = host_phase_name(thread.phase);
    json["state"] = host_state_name(thread.state);
    json["open_seconds"] = in_seconds(thread.open_ns);
    json["wall_seconds"] = in_seconds(thread.cells.wall_ns());
    json["seconds"] = to_json(thread.cells);
    return json;
}

// The limit is one of threads.
ApiResponse write_threads(const ThreadsState &state, const ListQuery &query) {
    std::map<ProcessKey, std::size_t> threads;
    for (const LaunchingThread &thread : state.threads) {
        threads[thread.process]++;
    }
    std::map<ProcessKey, const ProcessIdentity *> asked;
    std::string text = R"({"elapsed_seconds":)" +
                       Json(std::chrono::duration<double>(state.elapsed).count()).dump() + ",";
    JsonList processes(text, "processes");
    for (const ThreadsState::Process &process : state.processes) {
        const ProcessKey &key = process.identity.key;
        if (query.wants_process(key.tgid, process.identity)) {
            asked.emplace(key, &process.identity);
            processes.add([&] { return to_json(process, threads[key]); });
        }
    }
    std::size_t left_out = processes.end();
    text += ',';
    JsonList list(text, threads_page_name, query.limit());
    for (const LaunchingThread &thread : state.threads) {
        const auto process = asked.find(thread.process);
        if (process != asked.end()) {
            list.add([&] { return to_json(thread, *process->second, state.to_realtime); });
        }
    }
    left_out += list.end();
    return end_page(std::move(text), left_out);
}

void take(LaunchingThread &thread, const host_thread_record &record,
          const HostTimeReading &reading) {
    thread.process = {record.process.tgid, record.process.since_ns};
    thread.tid = record.tid;
    thread.since_ns = record.since_ns;
    thread.name =
        to_valid_utf8({record.comm, ::strnlen(record.comm, sizeof(record.comm))}, max_label_bytes);
    thread.cpu = record.cpu;
    thread.numa_node.reset();
    if (record.cpu < reading.nodes.size()) {
        thread.numa_node = reading.nodes[record.cpu];
    }
    thread.phase = record.phase;
    thread.state = record.state;
    thread.open_ns = record.open_ns;
    thread.cells.grow_to(record.times);
}

}  // namespace

void LaunchingThreads::on_reading(const HostTimeReading &reading) {
    std::map<Key, LaunchingThread> now;
    for (const host_thread_record &record : reading.threads) {
        const Key key{record.since_ns, record.tid};
        auto known = threads_.extract(key);
        if (known.empty()) {
            take(now[key], record, reading);
        } else {
            take(known.mapped(), record, reading);
            now.insert(std::move(known));
        }
    }
    threads_ = std::move(now);
}

std::vector<LaunchingThread> LaunchingThreads::list() const {
    std::vector<LaunchingThread> all;
    all.reserve(threads_.size());
    for (const auto &[key, thread] : threads_) {
        all.push_back(thread);
    }
    return all;
}

ThreadsState threads_state(const HostTimeAggregator &aggregator, const LaunchingThreads &threads) {
    ThreadsState state;
    aggregator.for_each([&](const ProcessIdentity &identity, const ProcessTimes &times) {
        state.processes.push_back({identity, times});
    });
    std::ranges::sort(state.processes, {},
                      [](const ThreadsState::Process &process) { return process.identity.key; });
    state.threads = threads.list();
    return state;
}

ApiPage threads_page(ThreadsState state) {
    return list_page(threads_page_name, process_parameters(), std::move(state), write_threads);
}

}  // namespace gpusnoop::probes
