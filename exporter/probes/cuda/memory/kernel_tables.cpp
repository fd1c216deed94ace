#include "exporter/probes/cuda/memory/kernel_tables.h"

#include <bpf/bpf.h>

#include <array>
#include <system_error>
#include <unordered_set>

#include "exporter/base/log.h"
#include "exporter/probes/frame/allocations/call_sites.h"
#include "exporter/processes/proc.h"

namespace gpusnoop::probes {

using ebpf::for_each;

Result<LiveTable> CudaTables::read(std::chrono::nanoseconds now) const {
    LiveTable table{.since = now, .entries = {}, .processes = {}};
    const auto read_live = for_each<cuda_live_key, cuda_live>(
        maps_.live,
        [&](const auto &key, const auto &live) { table.entries.emplace_back(key, live); });
    if (!read_live) {
        return tl::unexpected(read_live.error());
    }
    const auto read_contexts = for_each<cuda_live_key, cuda_context>(
        maps_.contexts, [&](const cuda_live_key &key, const cuda_context &context) {
            if (context.destroyed_ns != 0) {
                table.destroyed_ns[{{key.tgid, key.since_ns}, key.address}] = context.destroyed_ns;
            }
        });
    if (!read_contexts) {
        return tl::unexpected(read_contexts.error());
    }
    // Read after the entries: a process that is not in here has ended.
    const auto read_ended = for_each<cuda_live_key, cuda_live_process>(
        maps_.ended, [&](const cuda_live_key &key, const auto &process) {
            table.ended.insert_or_assign({key.tgid, key.since_ns}, process);
        });
    if (!read_ended) {
        return tl::unexpected(read_ended.error());
    }
    const auto read_processes = for_each<std::uint32_t, cuda_live_process>(
        maps_.processes, [&](std::uint32_t tgid, const auto &process) {
            if (process.ended_ns == 0) {  // else it is about to leave
                table.processes.emplace(tgid, process);
            }
        });
    if (!read_processes) {
        return tl::unexpected(read_processes.error());
    }
    return table;
}

std::vector<LiveEntry> CudaTables::forget_live(std::span<const LiveEntry> entries) const {
    std::vector<LiveEntry> briefly_missing;
    for (const auto &[key, born_ns] : entries) {
        if (key.space == CUDA_LIVE_ENDED) {
            bpf_map_delete_elem(maps_.ended, &key);
            continue;
        }
        cuda_live found{};
        if (bpf_map_lookup_elem(maps_.live, &key, &found) != 0 || found.born_ns != born_ns) {
            continue;
        }
        // A new allocation can still be inserted in between: then it is put back.
        if (bpf_map_lookup_and_delete_elem(maps_.live, &key, &found) == 0 &&
            found.born_ns != born_ns) {
            bpf_map_update_elem(maps_.live, &key, &found, BPF_NOEXIST);
            briefly_missing.push_back({key, found.born_ns});
        }
    }
    return briefly_missing;
}

void CudaTables::end_mappings(std::span<const LiveEntry> mappings) const {
    for (const auto &[key, born_ns] : mappings) {
        std::array<std::uint64_t, 4> arguments = {key.address, key.since_ns, key.tgid, born_ns};
        bpf_test_run_opts options{};
        options.sz = sizeof(options);
        options.ctx_in = arguments.data();
        options.ctx_size_in = sizeof(arguments);
        if (const int error = bpf_prog_test_run_opts(maps_.end_mapping, &options); error != 0) {
            log::warn("cannot remove unmapped memory from the table of live allocations",
                      {{"reason", std::generic_category().message(-error)}});
            return;
        }
    }
}

bool CudaTables::has_profiler(const ProcessKey &process) const {
    cuda_live_process found{};
    return bpf_map_lookup_elem(maps_.processes, &process.tgid, &found) == 0 &&
           found.since_ns == process.since_ns && (found.subscribers > 0 || found.activities != 0);
}

std::vector<std::uint64_t> CudaTables::addresses_of(const Site &site) const {
    return probes::addresses_of(maps_.stacks, CUDA_STACK_FRAMES, site);
}

void CudaTables::forget_stack(std::int32_t stack) const {
    probes::forget_stack(maps_.stacks, stack);
}

std::optional<std::uint64_t> CudaTables::registered_name(std::uint32_t tgid,
                                                         std::uint64_t host_function) const {
    std::uint64_t name = 0;
    cuda_live_key key{host_function, 0, tgid, CUDA_LIVE_REGISTERED};
    if (bpf_map_lookup_elem(maps_.registered, &key, &name) == 0) {
        return name;
    }
    if (const auto parent = processes::parent_of(tgid)) {
        key.tgid = *parent;
        if (bpf_map_lookup_elem(maps_.registered, &key, &name) == 0) {
            return name;
        }
    }
    return std::nullopt;
}

std::optional<std::uint64_t> CudaTables::launched_by(const ProcessKey &process,
                                                     std::uint64_t handle) const {
    const cuda_live_key key{handle, process.since_ns, process.tgid, CUDA_LIVE_LAUNCHED};
    std::uint64_t kernel = 0;
    if (bpf_map_lookup_elem(maps_.registered, &key, &kernel) != 0) {
        return std::nullopt;
    }
    return kernel;
}

void CudaTables::forget_registered_of_ended() const {
    std::unordered_set<std::uint32_t> running;
    std::unordered_set<std::uint32_t> ended;
    std::vector<cuda_live_key> keys;
    const auto looked = for_each<cuda_live_key, std::uint64_t>(
        maps_.registered, [&](const cuda_live_key &key, std::uint64_t) {
            if (!running.contains(key.tgid) && !ended.contains(key.tgid)) {
                const auto started = processes::start_time(key.tgid);
                const bool gone =
                    !started && (started.error().code == ENOENT || started.error().code == ESRCH);
                (gone ? ended : running).insert(key.tgid);
            }
            if (ended.contains(key.tgid)) {
                keys.push_back(key);
            }
        });
    if (looked) {
        for (const cuda_live_key &key : keys) {
            bpf_map_delete_elem(maps_.registered, &key);
        }
    }
}

void CudaTables::forget_launches(std::span<const cuda_launch_key> launches) const {
    for (const cuda_launch_key &launch : launches) {
        bpf_map_delete_elem(maps_.launches, &launch);
    }
}

bool CudaTables::is_running(const ProcessKey &process) const {
    cuda_live_process found{};
    return bpf_map_lookup_elem(maps_.processes, &process.tgid, &found) == 0 &&
           found.since_ns == process.since_ns;
}

void CudaTables::forget_ended_captures() const {
    const auto is_running = [&](const cuda_live_key &key) {
        return this->is_running({key.tgid, key.since_ns});
    };
    // Does it belong to no capture that lasts?
    const auto is_void = [&](const cuda_live_key &key, std::uint64_t number) {
        if (!is_running(key)) {
            return true;
        }
        const cuda_live_key capture{number, key.since_ns, key.tgid, CUDA_LIVE_CAPTURES};
        return key.space != CUDA_LIVE_CAPTURES &&
               bpf_map_lookup_elem(maps_.capturing, &capture, &number) != 0;
    };
    std::vector<cuda_live_key> keys;
    std::size_t entries = 0;
    const auto looked = for_each<cuda_live_key, std::uint64_t>(
        maps_.capturing, [&](const cuda_live_key &key, std::uint64_t number) {
            entries++;
            if (is_void(key, number)) {
                keys.push_back(key);
            }
        });
    if (!looked) {
        return;
    }
    // The next capture may take the entry between a look and its deletion, so those of running
    // processes stay while there is room.
    const bool is_crowded = entries > CUDA_MAX_CAPTURING / 2;
    for (const cuda_live_key &key : keys) {
        std::uint64_t number = 0;
        if ((is_crowded || !is_running(key)) &&
            bpf_map_lookup_elem(maps_.capturing, &key, &number) == 0 && is_void(key, number)) {
            bpf_map_delete_elem(maps_.capturing, &key);
        }
    }
}

}  // namespace gpusnoop::probes
