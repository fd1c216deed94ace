#include "exporter/probes/cuda/settings.h"

#include <cstdlib>

#include "exporter/config/reader.h"
#include "exporter/probes/frame/bpf/overhead_limits.h"
#include "exporter/probes/frame/calls/open_calls.h"
#include "exporter/probes/frame/host_settings.h"
#include "exporter/sinks/target.h"

namespace gpusnoop::probes {

using namespace std::chrono_literals;

void read_cuda(config::Section cuda, config::Config &config) {
    CudaConfig value;
    cuda.boolean("enabled", value.enabled);
    cuda.file_name_globs("libraries", value.libraries);
    cuda.choice("attach", value.attach, ebpf::attach_names);
    cuda.choice("endings", value.endings, ebpf::endings_names);
    cuda.integer("max_calls_per_second", value.max_calls_per_second, 0, 1'000'000'000);
    cuda.percent("max_overhead", value.max_overhead, 50);
    cuda.ring_bytes("allocation_ring_bytes", value.allocation_ring_bytes);
    cuda.ring_bytes("call_ring_bytes", value.call_ring_bytes);
    cuda.duration("drain_interval", value.drain_interval, 1ms, 1s);
    cuda.integer("max_live_allocations", value.max_live_allocations, 1'024, 64U << 20U);
    cuda.integer("max_registered_kernels", value.max_registered_kernels, 1, 16U << 20U);
    cuda.choice("pin", value.pin, pin_names);
    cuda.absolute_path("pin_path", value.pin_path);
    cuda.boolean("call_stacks", value.call_stacks);
    cuda.integer("max_call_stacks", value.max_call_stacks, 16, 1U << 20U);
    cuda.boolean("python_stacks", value.python_stacks);
    cuda.accept_old_name("max_call_sites", "call_sites");
    cuda.integer("max_call_sites", value.max_call_sites, 0, 1'000);
    cuda.finish();
    config.set(MaxOverhead{value.max_overhead});
    config.set(std::move(value));
}

CudaConfig config_for_probes(const config::Config &config, bool follows_gpu_processes) {
    auto cuda = config.of<CudaConfig>();
    const auto &host_time = config.of<HostTimeConfig>();
    cuda.follow = follows_gpu_processes;
    cuda.keep_times = cuda.follow && host_time.enabled;
    cuda.gap_min = host_time.gap_min;
    cuda.send_gaps = host_time.keep_gaps > 0 ||
                     sinks::want(config.of<sinks::SinkConfigs>(), sinks::Events::launch_gaps);
    cuda.unreturned_after = config.of<InFlightConfig>().unreturned_after();
    return cuda;
}

config::Config config_for_gpu_processes(config::Config config, bool records_calls) {
    auto cuda = config.of<CudaConfig>();
    cuda.call_stacks = false;
    cuda.python_stacks = false;
    cuda.follow_failed = records_calls;
    if (!records_calls) {
        cuda.max_calls_per_second = 1;
    }
    cuda.max_overhead = 0;
    cuda.pin = Pin::never;
    cuda.pin_path.clear();
    config.set(std::move(cuda));
    config.set(InFlightConfig{.enabled = false});
    return config;
}

bool is_supervised() {
    const char *const supervised = std::getenv("GPUSNOOP_SUPERVISED");
    return supervised != nullptr && std::string_view(supervised) == "1";
}

CudaConfig as_is_harmless(CudaConfig cuda, const ebpf::Features &features) {
    if (!features.has_harmless_return_probes()) {
        cuda.endings = ebpf::Endings::exits;
    }
    return cuda;
}

}  // namespace gpusnoop::probes
