// What the page at / shows when every list of it has more than it takes, with names as they are on
// busy nodes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exporter/status/facts.h"
#include "exporter/status/rates.h"

namespace harness {

// The part of the page below the heading of this id.
inline std::string section_of(const std::string &html, const std::string &id) {
    const std::size_t at = html.find("<h2 id=\"" + id + "\">");
    return at == std::string::npos ? "" : html.substr(at, html.find("<h2", at + 1) - at);
}

namespace full_page {

inline constexpr std::chrono::nanoseconds now{1'772'357'400'123'456'789};  // 2026-03-01 09:30

inline gpusnoop::processes::ProcessNames names(std::size_t number) {
    return {.comm = "python3",
            .script = "pretrain_language_model_" + std::to_string(number) + ".py",
            .container = "4be1c9aa77d0ffff4be1c9aa77d0ffff4be1c9aa77d0ffff4be1c9aa77d0ffff",
            .slurm_job_id = "47110815",
            .user = "alice.example"};
}

// It hangs, if the number is the last one.
inline gpusnoop::probes::ProcessOverview process(std::size_t number) {
    const bool hangs = number + 1 == gpusnoop::probes::max_overview_processes;
    return {.pid = static_cast<std::uint32_t>(4'000'000 + number),
            .names = names(number),
            .exe = "/opt/conda/envs/training-2026.02/bin/python3.11",
            .gpus = {std::to_string(number % 8)},
            .outstanding = {(20 - number) << 32U, 123'456},
            .calls = {.launches = 9'000, .errors = 12, .out_of_memory = 2},
            .limit =
                "In the last 75 s: Host code is the limit: the launching thread ran outside CUDA "
                "calls 62 % of the time. The host kept the GPU or a stream waiting at least 41 % "
                "of the time, mostly in the state running.",
            .verdict = hangs ? "hangs" : "host"};
}

// Its growth is a line that no two neighbouring pieces of are alike.
inline gpusnoop::status::ProcessPast past() {
    gpusnoop::status::ProcessPast past;
    past.launches_per_second = 12'345.5;
    for (std::size_t i = 0; i <= gpusnoop::status::Past::most_samples; i++) {
        past.held.push_back((10 + i + i * i % 7) << 30U);
    }
    return past;
}

inline gpusnoop::probes::GpuOverview gpu(std::size_t number) {
    gpusnoop::probes::GpuOverview gpu;
    gpu.gpu = std::to_string(number);
    gpu.name = "NVIDIA H100 80GB HBM3";
    gpu.bytes = std::uint64_t{79} << 30U;
    for (std::size_t i = 0; i < gpusnoop::probes::max_overview_holders; i++) {
        gpu.holders.push_back({.pid = static_cast<std::uint32_t>(4'000'000 + i),
                               .names = names(i),
                               .bytes = std::uint64_t{9} << 30U});
    }
    gpu.holder_count = 20;
    return gpu;
}

inline std::vector<gpusnoop::symbols::Frame> stack() {
    std::vector<gpusnoop::symbols::Frame> stack(
        20, {"torch::autograd::Engine::evaluate_function", "libtorch_cuda.so", 4});
    stack[2] = {"train.py:wait_for_all_ranks:142", "train.py", 0};
    return stack;
}

inline gpusnoop::probes::InFlightOverview in_flight() {
    gpusnoop::probes::InFlightOverview all;
    for (std::size_t i = 0; i < gpusnoop::probes::max_overview_in_flight; i++) {
        gpusnoop::probes::OpenCall &call = all.oldest.emplace_back();
        static_cast<gpusnoop::processes::ProcessNames &>(call) = names(i);
        call.pid = static_cast<std::uint32_t>(4'000'000 + i);
        call.tid = static_cast<std::uint32_t>(4'100'000 + i);
        call.thread = "pt_autograd_0";
        call.function = "cudaDeviceSynchronize";
        call.library = "libcudart-d0da41ae.so.12";
        call.gpu = "3";
        call.began_ns = 5'000'000'000 + i;
    }
    all.now_ns = 95'500'000'000;
    all.count = 1'000;
    all.min_age = std::chrono::seconds(1);
    all.stacks = [] {
        std::map<std::uint32_t, std::vector<gpusnoop::symbols::Frame>> stacks;
        for (std::size_t i = 0; i < gpusnoop::probes::max_overview_in_flight; i++) {
            stacks[static_cast<std::uint32_t>(4'100'000 + i)] = stack();
        }
        return stacks;
    };
    return all;
}

inline void add_events(gpusnoop::probes::Overview &overview) {
    auto &xids = overview.xids.emplace();
    gpusnoop::probes::XidOverview xid;
    xid.at = now - std::chrono::minutes(10);
    xid.code = 79;
    xid.kind = "hardware";
    xid.device = "0000:3b:00.0";
    xid.gpu = "2";
    xid.pid = 4'000'001;
    xid.process = names(1);
    xid.text = "pid=4000001, name=python3, GPU has fallen off the bus.";
    xids.last.assign(gpusnoop::probes::max_overview_xids, xid);
    xids.count = 40;
    auto &refusals = overview.out_of_memory.emplace();
    gpusnoop::probes::OutOfMemoryEventOverview refusal;
    refusal.at = now - std::chrono::minutes(1);
    refusal.count = 17;
    refusal.pid = 4'000'001;
    refusal.names = names(1);
    refusal.gpu = "3";
    refusal.requested = std::uint64_t{2} << 30U;
    refusal.verdict = "neighbor";
    refusal.sentence =
        "python3 asked for 2.00 GiB on GPU 3, of which 0.40 GiB were free. python3 "
        "pretrain_language_model_2.py (pid 4000002) holds 61.0 GiB, python3 "
        "pretrain_language_model_1.py itself 17.8 GiB.";
    refusals.last.assign(gpusnoop::probes::max_overview_out_of_memory, refusal);
    refusals.count = 20;
    auto &ends = overview.ends.emplace();
    gpusnoop::probes::EndOverview end;
    end.at = now - std::chrono::minutes(11);
    end.pid = 3'999'000;
    end.names = names(3);
    end.cause = "SIGSEGV";
    end.is_bad = true;
    end.held_bytes = std::uint64_t{9} << 30U;
    ends.last.assign(gpusnoop::probes::max_overview_ends, end);
    ends.count = 100;
    auto &reports = overview.job_reports.emplace();
    reports.last.assign(
        2 * gpusnoop::probes::max_overview_reports,
        {.ended = now - std::chrono::minutes(9),
         .sentence = "pretrain_language_model_3.py (pid 3999000) lasted 2h 5m; GPU 0: peak 61.2 "
                     "GiB, mean 40.1 GiB; GPU 1: peak 61.2 GiB, mean 40.1 GiB, unfreed 2.00 GiB; "
                     "\u2265 1,234,567 launches; copied h2d 12.0 GiB, d2h 1.20 GiB, d2d 4.00 MiB; "
                     "0 errors, 3 slow and 0 hanging calls; the GPU waited 12m 3s for the host; "
                     "end: SIGSEGV"});
    reports.count = 200;
}

inline gpusnoop::probes::SlowCallOverview slow_call() {
    gpusnoop::probes::SlowCallOverview call;
    call.ended = now;
    call.function = "ncclAllReduce";
    call.library = "libnccl.so.2.21.5";
    call.duration_ns = 4'207'000'000;
    call.pid = 4'000'001;
    call.names = names(1);
    call.error = "ncclSystemError";
    call.stack = std::make_shared<const std::vector<gpusnoop::symbols::Frame>>(stack());
    return call;
}

inline void add_exporter(gpusnoop::status::Facts &facts) {
    facts.probes.assign(40, {.name = "host_pressure",
                             .state = gpusnoop::probes::ProbeState::up,
                             .detail = "attached by session",
                             .functions = 180,
                             .libraries = 20,
                             .attach_failures = {{"elf", 2}},
                             .events = 1'234'567'890,
                             .lost = {{"ring_full", 100}, {"undecodable", 2}},
                             .rate = {150.25, 12}});
    facts.libraries.assign(100, {.path = "/opt/conda/envs/training-2026.02/lib/python3.11/"
                                         "site-packages/nvidia/cuda_runtime/lib/libcudart.so.12",
                                 .build = "d0da41ae0123456789abcdefd0da41ae01234567",
                                 .processes = 3,
                                 .attached = {{"cuda", 18}, {"functions", 2}},
                                 .expensive = {{"functions", 1}},
                                 .problems = {{"torch", "not attached to yet: it is locked"}}});
}

}  // namespace full_page

inline gpusnoop::status::Facts full_page_facts() {
    using namespace gpusnoop;
    status::Facts facts;
    facts.node = "gpu-node-0123.cluster.example";
    facts.version = "1.2.3";
    facts.revision = "0123456789ab";
    facts.now = full_page::now;
    facts.uptime_seconds = 7'500;
    facts.config_file = "/etc/gpusnoop_exporter/config.yaml";
    facts.last_reload = {.successful = false,
                         .last_success = 0,
                         .at = full_page::now,
                         .problem = "/etc/gpusnoop_exporter/config.yaml:10:3: cuda.x: unknown key"};
    facts.may_profile = true;
    facts.rate_seconds = 7.5;
    full_page::add_exporter(facts);
    auto &memory = facts.overview.memory.emplace();
    for (std::size_t i = 0; i < probes::max_overview_processes; i++) {
        memory.processes.push_back(full_page::process(i));
        facts.past.push_back(full_page::past());
    }
    memory.process_count = 500;
    memory.outstanding = {std::uint64_t{600} << 30U, 1'000'000};
    for (std::size_t i = 0; i < probes::max_overview_gpus; i++) {
        memory.gpus.push_back(full_page::gpu(i));
    }
    memory.sites.assign(probes::max_overview_sites,
                        {.pid = 4'000'001,
                         .names = full_page::names(1),
                         .site = "c10::cuda::CUDACachingAllocator::malloc < at::empty < "
                                 "train.py:forward:88 < train.py:main:140",
                         .outstanding = {std::uint64_t{9} << 30U, 1'234}});
    memory.site_count = 5'000;
    facts.overview.in_flight = full_page::in_flight();
    full_page::add_events(facts.overview);
    auto &calls = facts.overview.slow_calls.emplace();
    calls.last.assign(probes::max_overview_slow_calls, full_page::slow_call());
    calls.kept = 100;
    return facts;
}

}  // namespace harness
