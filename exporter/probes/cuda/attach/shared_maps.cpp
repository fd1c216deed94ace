#include "exporter/probes/cuda/attach/shared_maps.h"

#include <bpf/libbpf.h>

#include "bpf/lib/cost.h"
#include "cuda.skel.h"
#include "exporter/base/fd.h"

namespace gpusnoop::probes {

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
        shared.threads = copy(maps.cuda_threads);
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

}  // namespace gpusnoop::probes
