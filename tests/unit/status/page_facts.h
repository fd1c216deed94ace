// A small node, for tests of what the page at / says of it.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "exporter/status/facts.h"

namespace page_facts {

using namespace gpusnoop;
using namespace gpusnoop::status;

inline constexpr std::chrono::nanoseconds some_time{1'772'357'400'123'456'789};  // 2026-03-01 09:30

inline gpusnoop::probes::SlowCallOverview slow_call(const std::string &function,
                                                    std::size_t frames) {
    probes::SlowCallOverview call;
    call.ended = some_time;
    call.function = function;
    call.library = "libnccl.so.2";
    call.duration_ns = 4'207'000'000;
    call.pid = 41'230;
    call.names.comm = "train.py";
    const auto stack = std::make_shared<std::vector<symbols::Frame>>();
    for (std::size_t i = 0; i < frames; i++) {
        stack->push_back({"frame" + std::to_string(i), "module.so", i});
    }
    call.stack = stack;
    return call;
}

inline gpusnoop::status::Facts facts() {
    Facts facts;
    facts.node = "node-1";
    facts.version = "1.2.3";
    facts.revision = "abcdef";
    facts.now = some_time;
    facts.uptime_seconds = 7'500;
    facts.last_reload.at = some_time;
    facts.rate_seconds = 7.5;
    facts.probes.push_back({.name = "cuda",
                            .state = probes::ProbeState::up,
                            .detail = "attached by session",
                            .functions = 18,
                            .libraries = 2,
                            .attach_failures = {},
                            .events = 1'234'567,
                            .lost = {},
                            .rate = {150.25, 0}});
    facts.libraries.push_back({.path = "/usr/lib/libcudart.so.12",
                               .build = "c0ffee",
                               .processes = 3,
                               .attached = {{"cuda", 18}, {"functions", 2}},
                               .expensive = {{"functions", 1}},
                               .problems = {}});
    auto &memory = facts.overview.memory.emplace();
    memory.processes.push_back({.pid = 41'230,
                                .names = {.comm = "python3",
                                          .script = "train.py",
                                          .container = "4be1c9aa77d0ffff",
                                          .slurm_job_id = "4711",
                                          .user = "alice"},
                                .exe = "/usr/bin/python3.11",
                                .gpus = {"0", "3"},
                                .outstanding = {8'589'938'688, 3},
                                .calls = {.launches = 9'000, .errors = 12, .out_of_memory = 2},
                                .limit = "In the last 75 s: the GPU < the host.",
                                .verdict = "cuda_calls"});
    auto &refusals = facts.overview.out_of_memory.emplace();
    refusals.count = 1;
    probes::OutOfMemoryEventOverview &refusal = refusals.last.emplace_back();
    refusal.at = some_time - std::chrono::seconds(60);
    refusal.count = 2;
    refusal.pid = 41'230;
    refusal.names.comm = "train.py";
    refusal.gpu = "3";
    refusal.requested = 2'147'483'648;
    refusal.verdict = "neighbor";
    refusal.sentence = "eval.py holds 61.0 GiB";
    facts.past.push_back(
        {.held = {1'073'741'824, 4'294'967'296, 8'589'938'688}, .launches_per_second = 150.25});
    memory.gpus.push_back({.gpu = "0",
                           .name = "NVIDIA H100",
                           .bytes = 8'589'934'592,
                           .holders = {{.pid = 41'230,
                                        .names = {.comm = "python3",
                                                  .script = "train.py",
                                                  .container = "",
                                                  .slurm_job_id = "",
                                                  .user = ""},
                                        .bytes = 8'589'934'592}},
                           .holder_count = 3});
    memory.gpus.push_back({.gpu = "1", .name = "", .holders = {}});
    auto &ends = facts.overview.ends.emplace();
    ends.count = 1;
    probes::EndOverview &end = ends.last.emplace_back();
    end.at = some_time - std::chrono::seconds(30);
    end.pid = 40'000;
    end.names.comm = "eval.py";
    end.cause = "SIGSEGV";
    end.is_bad = true;
    end.held_bytes = 1'073'741'824;
    auto &reports = facts.overview.job_reports.emplace();
    reports.count = 1;
    reports.last.push_back({.ended = some_time - std::chrono::seconds(29),
                            .sentence = "<eval.py> (pid 40000) lasted 5m 0s; end: SIGSEGV"});
    memory.process_count = 1;
    memory.outstanding = {8'589'938'688, 3};
    memory.sites.push_back(
        {.pid = 41'230,
         .names =
             {.comm = "train.py", .script = "", .container = "", .slurm_job_id = "", .user = ""},
         .site = "leak_big < train_step < main",
         .outstanding = {8'589'934'592, 2}});
    memory.sites.push_back(
        {.pid = 41'230,
         .names =
             {.comm = "train.py", .script = "", .container = "", .slurm_job_id = "", .user = ""},
         .site = "",
         .outstanding = {4'096, 1}});
    memory.site_count = 2;
    auto &in_flight = facts.overview.in_flight.emplace();
    probes::OpenCall &hang = in_flight.oldest.emplace_back();
    hang.comm = "python3";
    hang.pid = 41'230;
    hang.tid = 41'301;
    hang.thread = "pt_autograd_0";
    hang.function = "ncclGroupEnd";
    hang.library = "libnccl.so.2";
    hang.began_ns = 5'000'000'000;
    in_flight.stacks = [] {
        return std::map<std::uint32_t, std::vector<symbols::Frame>>{
            {41'301,
             {{.function = "poll", .module = "libc.so.6", .offset = 4},
              {.function = "train.py:<lambda>:42", .module = "train.py", .offset = 0},
              {.function = "train.py:main:50", .module = "train.py", .offset = 0}}}};
    };
    in_flight.now_ns = 95'500'000'000;
    in_flight.count = 1;
    in_flight.min_age = std::chrono::seconds(1);
    auto &calls = facts.overview.slow_calls.emplace();
    calls.last.push_back(slow_call("ncclAllReduce", 2));
    calls.kept = 1;
    return facts;
}

// The row that is named so, without markup.
inline std::string row(const std::string &html, const std::string &name) {
    const std::size_t at = html.find("<tr><th>" + name);
    if (at == std::string::npos) {
        return "";
    }
    const std::string cells =
        std::regex_replace(html.substr(at, html.find('\n', at) - at), std::regex("<td>"), "|");
    return std::regex_replace(cells, std::regex("<[^>]*>"), "");
}

}  // namespace page_facts
