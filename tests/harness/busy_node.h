// A node as one meets it at night, for the picture of the page at /: a job that leaks, one that
// hangs, one that runs out of memory, and the end of one that crashed.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "exporter/status/facts.h"
#include "exporter/status/rates.h"

namespace harness {

namespace busy_node {

inline constexpr std::chrono::nanoseconds now{1'795'917'724'000'000'000};  // 2026-11-29 02:02:04
inline constexpr std::uint64_t gib = std::uint64_t{1} << 30U;

struct Job {
    std::uint32_t pid;
    gpusnoop::processes::ProcessNames names;
    std::vector<std::string> gpus;
    double held;      // GiB
    double grown;     // GiB in the last 15 minutes
    double launches;  // per second
    std::string verdict, limit;
    gpusnoop::probes::CallCounts calls = {};
};

inline std::vector<Job> jobs() {
    const auto host = std::string(
        "In the last 88 s: Host code is the limit: the launching thread ran outside CUDA calls 61 "
        "% of the time.");
    const auto gpu = std::string(
        "In the last 64 s: The GPU is the limit: the launching thread "
        "waited for it 82 % of the time.");
    return {{.pid = 41'207,
             .names = {.comm = "python3",
                       .script = "pretrain.py",
                       .container = "4be1c9aa77d0e1",
                       .slurm_job_id = "90211",
                       .user = "mina"},
             .gpus = {"0", "1", "2", "3"},
             .held = 268.4,
             .grown = 0,
             .launches = 18'430,
             .verdict = "gpu",
             .limit = gpu},
            {.pid = 39'944,
             .names = {.comm = "python3",
                       .script = "serve.py",
                       .container = "9d02c1f4ab3312",
                       .slurm_job_id = "",
                       .user = "svc-llm"},
             .gpus = {"4"},
             .held = 71.2,
             .grown = 9.6,
             .launches = 2'215,
             .verdict = "host",
             .limit = host},
            {.pid = 40'318,
             .names = {.comm = "python3",
                       .script = "evaluate.py",
                       .container = "",
                       .slurm_job_id = "90187",
                       .user = "tomas"},
             .gpus = {"5"},
             .held = 38.9,
             .grown = 0,
             .launches = 0,
             .verdict = "hangs",
             .limit = "In the last 731 s: The program hangs: the launching thread has been in "
                      "ncclGroupEnd for 12m 11s, and the program has launched nothing since."},
            {.pid = 41'530,
             .names = {.comm = "python3",
                       .script = "finetune.py",
                       .container = "",
                       .slurm_job_id = "90230",
                       .user = "ada"},
             .gpus = {"4"},
             .held = 57.3,
             .grown = 1.1,
             .launches = 6'120,
             .verdict = "data",
             .limit = "In the last 71 s: Data is the limit: the launching thread waited for other "
                      "processes 47 % of the time, mostly in the state poll.",
             .calls = {.launches = 1, .errors = 3, .out_of_memory = 3}},
            {.pid = 38'002,
             .names = {.comm = "jupyter-lab",
                       .script = "",
                       .container = "",
                       .slurm_job_id = "",
                       .user = "ada"},
             .gpus = {"6"},
             .held = 11.5,
             .grown = 0,
             .launches = 0,
             .verdict = "idle",
             .limit = ""}};
}

inline gpusnoop::status::ProcessPast past_of(const Job &job) {
    gpusnoop::status::ProcessPast past;
    constexpr std::size_t last = gpusnoop::status::Past::most_samples;
    for (std::size_t i = 0; i <= last; i++) {
        const double share = static_cast<double>(last - i) / static_cast<double>(last);
        past.held.push_back(
            static_cast<std::uint64_t>((job.held - share * job.grown) * static_cast<double>(gib)));
    }
    past.launches_per_second = job.launches;
    return past;
}

inline void add_processes(gpusnoop::status::Facts &facts) {
    auto &memory = facts.overview.memory.emplace();
    std::map<std::string, gpusnoop::probes::GpuOverview> gpus;
    for (std::size_t i = 0; i < 8; i++) {
        gpusnoop::probes::GpuOverview &gpu = gpus[std::to_string(i)];
        gpu.gpu = std::to_string(i);
        gpu.name = "NVIDIA H200";
    }
    for (const Job &job : jobs()) {
        const auto bytes = static_cast<std::uint64_t>(job.held * static_cast<double>(gib));
        memory.processes.push_back({.pid = job.pid,
                                    .names = job.names,
                                    .exe = "/opt/conda/bin/jupyter-lab",
                                    .gpus = job.gpus,
                                    .outstanding = {bytes, 400 + job.pid % 2'000},
                                    .calls = job.calls,
                                    .limit = job.limit,
                                    .verdict = job.verdict});
        facts.past.push_back(past_of(job));
        memory.outstanding.bytes += bytes;
        memory.outstanding.count += 400 + job.pid % 2'000;
        for (const std::string &label : job.gpus) {
            gpusnoop::probes::GpuOverview &gpu = gpus[label];
            const std::uint64_t part = bytes / job.gpus.size();
            gpu.bytes += part;
            gpu.holders.push_back({.pid = job.pid, .names = job.names, .bytes = part});
            gpu.holder_count++;
        }
    }
    memory.process_count = memory.processes.size();
    for (auto &[label, gpu] : gpus) {
        memory.gpus.push_back(std::move(gpu));
    }
    for (const auto &[site, held, at] :
         {std::tuple("c10::cuda::CUDACachingAllocator::malloc < pretrain.py:forward:88", 201.0, 0U),
          std::tuple("KVCache.append < serve.py:generate:212 < serve.py:main:391", 64.0, 1U),
          std::tuple("c10::cuda::CUDACachingAllocator::malloc < finetune.py:step:140", 55.1, 3U)}) {
        memory.sites.push_back(
            {.pid = jobs()[at].pid,
             .names = jobs()[at].names,
             .site = site,
             .outstanding = {static_cast<std::uint64_t>(held * static_cast<double>(gib)), 812}});
    }
    memory.site_count = 148;
}

inline void add_hang(gpusnoop::probes::Overview &overview) {
    auto &in_flight = overview.in_flight.emplace();
    gpusnoop::probes::OpenCall &call = in_flight.oldest.emplace_back();
    static_cast<gpusnoop::processes::ProcessNames &>(call) = jobs()[2].names;
    call.pid = jobs()[2].pid;
    call.tid = call.pid;
    call.thread = "python3";
    call.function = "ncclGroupEnd";
    call.library = "libnccl.so.2";
    call.gpu = "5";
    in_flight.now_ns = 731'000'000'000;
    in_flight.count = 1;
    in_flight.min_age = std::chrono::seconds(1);
    in_flight.stacks = [tid = call.tid] {
        using Frames = std::vector<gpusnoop::symbols::Frame>;
        return std::map<std::uint32_t, Frames>{
            {tid, Frames{{"poll", "libc.so.6", 0},
                         {"ncclGroupEnd", "libnccl.so.2", 0},
                         {"evaluate.py:gather_scores:174", "evaluate.py", 0},
                         {"evaluate.py:main:230", "evaluate.py", 0}}}};
    };
}

inline void add_events(gpusnoop::probes::Overview &overview) {
    const gpusnoop::processes::ProcessNames crashed = {.comm = "python3",
                                                       .script = "export.py",
                                                       .container = "",
                                                       .slurm_job_id = "90229",
                                                       .user = "mina"};
    auto &xids = overview.xids.emplace();
    gpusnoop::probes::XidOverview &xid = xids.last.emplace_back();
    xid.at = now - std::chrono::seconds(1'325);
    xid.code = 31;
    xid.kind = "application";
    xid.device = "0000:db:00.0";
    xid.gpu = "7";
    xid.pid = 41'466;
    xid.process = crashed;
    xid.text = "pid=41466, name=python3, Ch 00000008, MMU Fault: ENGINE GRAPHICS";
    xids.count = 1;
    auto &ends = overview.ends.emplace();
    gpusnoop::probes::EndOverview &crash = ends.last.emplace_back();
    crash.at = now - std::chrono::seconds(1'324);
    crash.pid = xid.pid;
    crash.names = crashed;
    crash.cause = "SIGABRT";
    crash.is_bad = true;
    crash.held_bytes = 22 * gib;
    gpusnoop::probes::EndOverview &done = ends.last.emplace_back();
    done.at = now - std::chrono::seconds(4'101);
    done.pid = 37'511;
    done.names = jobs()[0].names;
    done.cause = "0";
    done.held_bytes = 0;
    ends.count = 2;
    auto &reports = overview.job_reports.emplace();
    reports.last = {
        {.ended = ends.last.front().at,
         .sentence = "export.py (pid 41466) lasted 19m 12s; GPU 7: peak 22.0 GiB, mean 20.3 GiB, "
                     "unfreed 22.0 GiB; 41,022 launches; copied h2d 21.4 GiB, d2h 20.9 GiB; 1 "
                     "error, 0 slow and 0 hanging calls; the GPU waited 2m 51s for the host; end: "
                     "SIGABRT"},
        {.ended = done.at,
         .sentence = "pretrain.py (pid 37511) lasted 9h 4m; GPU 0: peak 67.4 GiB, mean 66.9 GiB; "
                     "604,113,920 launches; copied h2d 1.92 TiB, d2h 88.1 GiB; 0 errors, 3 slow "
                     "and 0 hanging calls; the GPU waited 21m 40s for the host; end: exit code 0"}};
    reports.count = 2;
    auto &refusals = overview.out_of_memory.emplace();
    gpusnoop::probes::OutOfMemoryEventOverview &refusal = refusals.last.emplace_back();
    refusal.at = now - std::chrono::seconds(204);
    refusal.count = 3;
    refusal.pid = jobs()[3].pid;
    refusal.names = jobs()[3].names;
    refusal.gpu = "4";
    refusal.requested = 12 * gib;
    refusal.verdict = "neighbor";
    refusal.sentence =
        "It asked for 12.0 GiB on GPU 4, where 10.1 GiB were free. python3 serve.py (pid 39944) "
        "holds 71.2 GiB there, python3 finetune.py itself 57.3 GiB.";
    refusals.count = 1;
}

inline void add_exporter(gpusnoop::status::Facts &facts) {
    for (const auto &[name, functions, events, rate] :
         {std::tuple("cuda", 309, 918'220'114, 26'765.0), std::tuple("functions", 24, 1'204, 0.4),
          std::tuple("xid", 1, 1, 0.0), std::tuple("host_time", 3, 80'112'904, 3'020.0),
          std::tuple("host_life", 5, 212, 0.0), std::tuple("in_flight", 4, 0, 0.0)}) {
        facts.probes.push_back({.name = name,
                                .state = gpusnoop::probes::ProbeState::up,
                                .detail = "",
                                .functions = static_cast<std::uint64_t>(functions),
                                .libraries = 0,
                                .attach_failures = {},
                                .events = static_cast<std::uint64_t>(events),
                                .lost = {},
                                .rate = {rate, 0}});
    }
    facts.libraries.push_back({.path = "/opt/conda/lib/python3.11/site-packages/nvidia/"
                                       "cuda_runtime/lib/libcudart.so.12",
                               .build = "78bef256b4eae49076d0c046770946996b2eb240",
                               .processes = 4,
                               .attached = {{"cuda", 138}},
                               .expensive = {},
                               .problems = {}});
}

}  // namespace busy_node

inline gpusnoop::status::Facts busy_node_facts() {
    gpusnoop::status::Facts facts;
    facts.node = "gpu-a01";
    facts.version = "0.1.0";
    facts.revision = "255eb658960b";
    facts.now = busy_node::now;
    facts.uptime_seconds = 812'000;
    facts.config_file = "/etc/gpusnoop_exporter/config.yaml";
    facts.last_reload.at = busy_node::now - std::chrono::seconds(812'000);
    facts.may_profile = true;
    facts.rate_seconds = 7.5;
    busy_node::add_processes(facts);
    busy_node::add_hang(facts.overview);
    busy_node::add_events(facts.overview);
    facts.overview.slow_calls.emplace();
    busy_node::add_exporter(facts);
    return facts;
}

}  // namespace harness
