// Whose the series of the host probes are: of followed processes, and of nobody else.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/harness/exporter.h"

using namespace harness;
using Json = nlohmann::json;

namespace {

constexpr auto host_attribution_exits = "gpusnoop_host_process_exits_total";
constexpr auto host_attribution_signals = "gpusnoop_host_signals_total";

const std::string all_by_pid =
    "host: {time: {enabled: true}, life: {enabled: true, keep: 1000}, tasks: {enabled: true}, "
    "pressure: "
    "{enabled: true}, memory: {enabled: true}, net: {enabled: true}}\nlabels: {pid: true}\nseries: "
    "{retention: 10s}\n";

Process host_attribution_lives(std::vector<std::string> steps) {
    steps.insert(steps.begin(), standin("lives"));
    return Process(std::move(steps));
}

// The processes that it has said are idle.
std::set<std::string> host_attribution_idle(const Process &process, std::size_t expected) {
    std::set<std::string> pids;
    eventually("all children to be idle", [&] {
        pids.clear();
        std::istringstream words(process.output());
        for (std::string word; words >> word;) {
            if (word == "idle" && words >> word) {
                pids.insert(word);
            }
        }
        return pids.size() == expected;
    });
    return pids;
}

// The exporter's own.
std::set<std::string> children_of(pid_t pid) {
    const std::string id = std::to_string(pid);
    std::istringstream words(read_file("/proc/" + id + "/task/" + id + "/children"));
    std::set<std::string> pids;
    for (std::string word; words >> word;) {
        pids.insert(word);
    }
    return pids;
}

// The samples of all families of the host probes that have the label `pid`, with one of these
// values.
std::vector<std::string> samples_of(const Exporter &exporter, const std::set<std::string> &pids) {
    std::vector<std::string> samples;
    std::istringstream lines(http(exporter.port(), "/metrics").body);
    constexpr std::string_view label = "pid=\"";
    for (std::string line; std::getline(lines, line);) {
        const std::size_t at = line.find(label);
        if (line.starts_with("gpusnoop_host_") && at != std::string::npos) {
            const std::size_t begin = at + label.size();
            if (pids.contains(line.substr(begin, line.find('"', begin) - begin))) {
                samples.push_back(line);
            }
        }
    }
    return samples;
}

std::string id_of(const Process &process) {
    return std::to_string(process.pid());
}

// Does all that the host probes count, but for CUDA calls.
std::vector<std::string> activity(std::vector<std::string> before) {
    const std::vector<std::string> steps = {"idle",  "2",     "family",  "threads", "2",   "burn",
                                            "50",    "write", "1",       "signal",  "12",  "3",
                                            "exits", "3",     "2",       "killed",  "9",   "1",
                                            "execs", "2",     "crashes", "1",       "wait"};
    before.insert(before.end(), steps.begin(), steps.end());
    return before;
}

}  // namespace

TEST_CASE("only followed processes have series of the host probes, and a worker's end with it",
          "[kernel]") {
    require_bpf();
    // The exporter's name does not make it followed, nor those of its children.
    Exporter exporter(all_by_pid + "targets: {comms: [\"gpusnoop_expor*\"]}\n");
    const Process holder = host_attribution_lives({"name", "holder", "wait"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    const Process bystander = host_attribution_lives(activity({"name", "bystander"}));
    const Process root =
        host_attribution_lives(activity({"name", "root", "allocate", "64", "call", "cudaMemset"}));
    bystander.wait_for_output("waiting 1");
    root.wait_for_output("waiting 1");
    const std::set<std::string> workers = host_attribution_idle(root, 4);
    std::set<std::string> others = host_attribution_idle(bystander, 4);
    others.merge(children_of(exporter.process().pid()));
    others.insert({id_of(bystander), id_of(holder), id_of(exporter.process())});

    // All of what root has done is there, by its own count.
    const Page page = exporter.wait_for(host_attribution_exits,
                                        {{"comm", "root"}, {"role", "worker"}}, 2 + 1 + 2 + 1);
    CHECK(page.sum("gpusnoop_host_process_starts_total", {{"comm", "root"}}) ==
          1 + 4 + 2 + 1 + 2 + 1);
    for (const auto &[family, role] : std::vector<std::pair<std::string, std::string>>{
             {"gpusnoop_host_launch_thread_seconds_total", ""},
             {"gpusnoop_host_signals_total", "gpu"},
             {"gpusnoop_host_cpu_seconds_total", "gpu"},
             {"gpusnoop_host_memory_bytes", "gpu"}}) {
        CAPTURE(family);
        Labels labels = {{"pid", id_of(root)}};
        if (!role.empty()) {
            labels["role"] = role;
        }
        CHECK(page.has(family, labels));
    }
    for (const std::string &worker : workers) {
        CAPTURE(worker);
        const Labels labels = {{"pid", worker}, {"role", "worker"}};
        CHECK(page.has("gpusnoop_host_memory_bytes", labels));
        CHECK(page.has("gpusnoop_host_cpu_seconds_total", labels));
        CHECK(page.sum("gpusnoop_host_process_starts_total", labels) == 1);
    }
    CHECK(samples_of(exporter, others).empty());
    for (const auto *const comm : {"bystander", "holder"}) {
        CHECK_FALSE(page.has(host_attribution_exits, {{"comm", comm}}));
    }

    // One without children: they would end with it.
    const auto leaf = std::ranges::find_if(
        workers, [](const std::string &pid) { return children_of(std::stoi(pid)).empty(); });
    REQUIRE(leaf != workers.end());
    const std::string ended = *leaf;
    ::kill(std::stoi(ended), SIGKILL);
    eventually("the gauges of a worker to end", [&] {
        return !exporter.scrape().has("gpusnoop_host_memory_bytes", {{"pid", ended}});
    });
    CHECK_FALSE(samples_of(exporter, {ended}).empty());  // its counters, for the retention
    eventually("the series of a worker to end",
               [&] { return samples_of(exporter, {ended}).empty(); });
    for (const std::string &other : workers) {
        CHECK(samples_of(exporter, {other}).empty() == (other == ended));
    }
    CHECK_FALSE(samples_of(exporter, {id_of(root)}).empty());
    CHECK(samples_of(exporter, others).empty());
}

TEST_CASE("a process with the id of an ended one has nothing of its series", "[kernel]") {
    require_bpf();
    const Exporter exporter(all_by_pid);
    const Process holder = host_attribution_lives({"name", "holder", "wait"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    Process first = host_attribution_lives(
        {"name", "first", "allocate", "64", "signal", "12", "5", "exit", "1"});
    const std::string id = id_of(first);
    CHECK(first.wait() == 1);
    (void)exporter.wait_for(host_attribution_exits,
                            {{"comm", "first"}, {"pid", id}, {"cause", "1"}}, 1);
    const auto before = samples_of(exporter, {id});

    // It is not followed.
    Process second = Process::with_id(first.pid(), activity({standin("lives"), "name", "second"}));
    REQUIRE(second.pid() == first.pid());
    second.wait_for_output("waiting 1");
    ::sleep(2);  // by then the exporter has looked for processes to follow
    CHECK(samples_of(exporter, {id}) == before);
    CHECK_FALSE(exporter.scrape().has(host_attribution_exits, {{"comm", "second"}}));
    second.signal(SIGKILL);
    (void)second.wait();

    // Another followed process.
    Process third =
        Process::with_id(first.pid(), {standin("lives"), "name", "third", "allocate", "32",
                                       "signal", "12", "3", "call", "cudaMemset", "exit", "7"});
    REQUIRE(third.pid() == first.pid());
    CHECK(third.wait() == 7);
    const Page page = exporter.wait_for(host_attribution_exits,
                                        {{"comm", "third"}, {"pid", id}, {"cause", "7"}}, 1);
    CHECK(page.sum(host_attribution_exits, {{"pid", id}}) == 2);
    CHECK(page.sum(host_attribution_exits, {{"comm", "first"}, {"pid", id}, {"cause", "1"}}) == 1);
    CHECK(page.sum(host_attribution_signals, {{"comm", "first"}, {"pid", id}}) == 5);
    CHECK(page.sum(host_attribution_signals, {{"comm", "third"}, {"pid", id}}) == 3);
    Json ends;
    eventually("what both held", [&] {
        ends = Json::array();
        const Json all = Json::parse(http(exporter.port(), "/api/v1/exits").body);
        for (const Json &end : all.at("exits")) {
            if (end.at("pid") == first.pid() && !end.at("device_memory").is_null()) {
                ends.push_back(end);
            }
        }
        return ends.size() == 2;
    });
    CHECK(ends[0].at("comm") == "third");
    CHECK(ends[0].at("device_memory").at("bytes") == 32);
    CHECK(ends[0].at("last_cuda_call").at("function") == "cudaMemset");
    CHECK(ends[1].at("comm") == "first");
    CHECK(ends[1].at("device_memory").at("bytes") == 64);
    CHECK(ends[1].at("last_cuda_call").at("function") == "cudaMalloc");
}
