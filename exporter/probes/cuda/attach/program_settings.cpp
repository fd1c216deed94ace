#include "exporter/probes/cuda/attach/program_settings.h"

#include <bpf/libbpf.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

#include "bpf/cuda/cuda.h"
#include "bpf/lib/cost.h"
#include "bpf/lib/python/layout.h"
#include "cuda.skel.h"
#include "exporter/base/fd.h"
#include "exporter/base/text/text.h"
#include "exporter/ebpf/object.h"

namespace gpusnoop::probes {

using ebpf::AttachMode;

namespace {

// What the kernel allocates at once must be smaller (ebpf::size_table()).
constexpr std::uint32_t max_preallocated = 131'072;
constexpr std::uint32_t max_processes_past = 4'096;
// A stack of Python's functions has a kilobyte.
constexpr std::uint32_t max_preallocated_python = 2'048;

void size_tables(cuda_bpf &skeleton, const CudaConfig &config) {
    const auto size = [](bpf_map *map, std::uint32_t entries) {
        ebpf::size_table(map, entries, max_preallocated);
    };
    ebpf::grow_on_demand(skeleton.maps.cuda_procs);
    ebpf::grow_on_demand(skeleton.maps.follow_procs);
    size(skeleton.maps.cuda_live, config.max_live_allocations);
    size(skeleton.maps.cuda_registered, config.max_registered_kernels);
    size(skeleton.maps.cuda_capturing, bpf_map__max_entries(skeleton.maps.cuda_capturing));
    size(skeleton.maps.cuda_launches,
         config.max_overhead > 0 ? bpf_map__max_entries(skeleton.maps.cuda_launches) : 1);
    size(skeleton.maps.cuda_times_past, max_processes_past);
    size(skeleton.maps.cuda_dev_times, max_processes_past);
    bpf_map__set_max_entries(skeleton.maps.cuda_stacks,
                             config.call_stacks ? config.max_call_stacks : 1);
    size(skeleton.maps.cuda_pythons, config.python_stacks ? PYTHON_MAX_PROCESSES : 1);
    const std::uint32_t python_stacks = config.python_stacks ? config.max_call_stacks : 1;
    ebpf::size_table(skeleton.maps.cuda_pystacks, python_stacks, max_preallocated_python);
}

std::array<bpf_map *, 5> maps_of_followed(const cuda_bpf &skeleton) {
    const auto &maps = skeleton.maps;
    return {maps.follow_procs, maps.follow_filter, maps.follow_events, maps.follow_counts,
            maps.follow_refused};
}

void choose_times(cuda_bpf &skeleton, const CudaConfig &config) {
    const bool keep_times = config.keep_times;
    skeleton.rodata->keep_times = keep_times;
    skeleton.rodata->gap_min_ns =
        static_cast<std::uint64_t>(std::chrono::nanoseconds(config.gap_min).count());
    skeleton.rodata->send_gaps = config.send_gaps;
    for (bpf_map *map :
         {skeleton.maps.cuda_times, skeleton.maps.cuda_times_past, skeleton.maps.cuda_gaps,
          skeleton.maps.cuda_file_waits, skeleton.maps.cuda_dev_times}) {
        bpf_map__set_autocreate(map, keep_times);
    }
    for (bpf_program *program : {skeleton.progs.cuda_times_exit, skeleton.progs.cuda_times_exec}) {
        bpf_program__set_autoload(program, keep_times);
    }
}

}  // namespace

void apply_settings(cuda_bpf &skeleton, const CudaConfig &config) {
    bpf_map__set_max_entries(skeleton.maps.cuda_mem_events, config.allocation_ring_bytes);
    bpf_map__set_max_entries(skeleton.maps.cuda_events, config.call_ring_bytes);
    size_tables(skeleton, config);
    skeleton.rodata->max_calls_per_second = config.max_calls_per_second;
    skeleton.rodata->keep_stacks = config.call_stacks;
    skeleton.rodata->python_stacks = config.python_stacks;
    skeleton.rodata->follow_failed = config.follow_failed;
    skeleton.rodata->unreturned_after_ns =
        static_cast<std::uint64_t>(std::chrono::nanoseconds(config.unreturned_after).count());
    skeleton.rodata->follow = config.follow;
    for (bpf_map *map : maps_of_followed(skeleton)) {
        bpf_map__set_autocreate(map, config.follow);
    }
    choose_times(skeleton, config);
    skeleton.rodata->counts_launches = config.max_overhead > 0;
}

int load_with_tail(cuda_bpf &skeleton) {
    const int error = cuda_bpf::load(&skeleton);
    return error != 0 ? error
                      : ebpf::set_tail(skeleton.maps.cuda_tails, skeleton.progs.cuda_python);
}

void pin_maps(cuda_bpf &skeleton, const ebpf::Pins &pins) {
    const auto pin = [&](bpf_map *map) {
        bpf_map__set_pin_path(map, pins.path_of(std::string("map_") + bpf_map__name(map)).c_str());
    };
    const auto &maps = skeleton.maps;
    for (bpf_map *map :
         {maps.cuda_lifecycle,  maps.cuda_mem_events, maps.cuda_events,   maps.cuda_account,
          maps.cuda_threads,    maps.cuda_procs,      maps.cuda_filter,   maps.cuda_live,
          maps.cuda_stacks,     maps.cuda_contexts,   maps.cuda_pools,    maps.cuda_streams,
          maps.cuda_registered, maps.cuda_ended,      maps.cuda_captures, maps.cuda_capturing,
          maps.cuda_sights,     maps.cuda_detaches,   maps.cuda_runtimes, maps.cuda_launches,
          maps.cuda_pythons,    maps.cuda_pystacks,   maps.cuda_tails}) {
        pin(map);
    }
    if (skeleton.rodata->follow) {
        std::ranges::for_each(maps_of_followed(skeleton), pin);
    }
    if (skeleton.rodata->keep_times) {
        pin(maps.cuda_times);
        pin(maps.cuda_times_past);
        pin(maps.cuda_gaps);
        pin(maps.cuda_file_waits);
        pin(maps.cuda_dev_times);
    }
}

// (FNV-1a)
std::string generation_of(AttachMode mode, const CudaConfig &config) {
    constexpr std::uint32_t layout_of_pins = 6;  // of what Pins and CudaPins keep
    std::uint64_t hash = 0xcbf29ce484222325;
    const auto mix = [&](const void *data, std::size_t size) {
        for (std::size_t i = 0; i < size; i++) {
            hash = (hash ^ static_cast<const unsigned char *>(data)[i]) * 0x100000001b3;
        }
    };
    std::size_t size = 0;
    const void *object = cuda_bpf::elf_bytes(&size);
    mix(object, size);
    for (const std::uint32_t number :
         {layout_of_pins, static_cast<std::uint32_t>(mode), config.allocation_ring_bytes,
          config.call_ring_bytes, config.max_live_allocations, config.max_registered_kernels,
          config.max_call_stacks, config.max_calls_per_second, config.call_stacks ? 1U : 0U,
          config.python_stacks ? 1U : 0U, config.max_overhead > 0 ? 1U : 0U,
          config.follow ? 1U : 0U, config.keep_times ? 1U : 0U, config.send_gaps ? 1U : 0U,
          static_cast<std::uint32_t>(config.gap_min.count()),
          static_cast<std::uint32_t>(config.endings),
          static_cast<std::uint32_t>(config.unreturned_after.count())}) {
        mix(&number, sizeof(number));
    }
    return hexadecimal(hash);
}

Result<> share_maps(const cuda_bpf &skeleton, const CudaConfig &config, CudaShared &shared) {
    Result<> copied;
    const auto copy = [&](const bpf_map *map) {
        Fd fd = duplicate(bpf_map__fd(map));
        if (!fd) {
            copied = fail_errno("duplicate a descriptor");
        }
        return fd;
    };
    const auto &maps = skeleton.maps;
    shared.gpu_processes = {.processes = copy(maps.cuda_procs), .filter = copy(maps.cuda_filter)};
    if (config.follow) {
        shared.followed = {.processes = copy(maps.follow_procs),
                           .filter = copy(maps.follow_filter),
                           .events = copy(maps.follow_events),
                           .counts = copy(maps.follow_counts),
                           .refused = copy(maps.follow_refused)};
        shared.calls.threads = copy(maps.cuda_threads);
        shared.calls.failed = copy(maps.cuda_failed);
        shared.calls.failed_at_exit = copy(maps.cuda_fail_exit);
    }
    if (config.keep_times) {
        shared.times = {.threads = copy(maps.cuda_threads),
                        .times = copy(maps.cuda_times),
                        .past = copy(maps.cuda_times_past),
                        .gaps = copy(maps.cuda_gaps),
                        .file_waits = copy(maps.cuda_file_waits),
                        .devices = copy(maps.cuda_dev_times)};
    }
    return copied;
}

void set_up_tracing(cuda_bpf &skeleton, const CudaTracing *tracing) {
    if (tracing == nullptr) {
        bpf_map__set_autocreate(skeleton.maps.cuda_traces, false);
        bpf_map__set_autocreate(skeleton.maps.cuda_trace_lost, false);
        return;
    }
    bpf_map__set_max_entries(skeleton.maps.cuda_traces, tracing->ring_bytes);
    // This ring stays empty.
    bpf_map__set_max_entries(skeleton.maps.cuda_events,
                             static_cast<std::uint32_t>(::sysconf(_SC_PAGESIZE)));
    auto &settings = *skeleton.rodata;
    settings.tracing = true;
    settings.trace_stacks = tracing->stacks;
    settings.traced_pid_count =
        static_cast<std::uint32_t>(std::min<std::size_t>(tracing->pids.size(), TRACED_PIDS));
    std::copy_n(tracing->pids.begin(), settings.traced_pid_count, settings.traced_pids);
    for (const std::uint16_t number : tracing->functions) {
        settings.traced_functions[number / 64U] |= std::uint64_t{1} << (number % 64U);
    }
}

}  // namespace gpusnoop::probes
