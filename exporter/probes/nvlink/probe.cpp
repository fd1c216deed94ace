#include "exporter/probes/nvlink/probe.h"

#include <array>
#include <string_view>

#include "exporter/ebpf/kprobe.h"
#include "exporter/ebpf/record.h"
#include "exporter/probes/frame/bpf_probe.h"
#include "exporter/probes/frame/driver_functions.h"
#include "exporter/probes/nvlink/aggregator.h"
#include "exporter/probes/nvlink/settings.h"
#include "exporter/probes/nvlink/trace.h"
#include "nvlink.skel.h"

namespace gpusnoop::probes {

namespace {

// By enum nvlink_op.
constexpr std::array<std::string_view, NVLINK_OP_COUNT> helpers = {"nvlink_strcpy", "nvlink_memcpy",
                                                                   "nvlink_memset"};

// Up while the driver has one of the helpers.
class NvlinkProbe final : public BpfProbe<nvlink_bpf, NvlinkAggregator> {
public:
    // `on_call`: for a trace.
    explicit NvlinkProbe(const config::Config &config, OnHelper on_call = nullptr)
        : BpfProbe("nvlink", config),
          ring_bytes_(config.of<NvlinkConfig>().ring_bytes),
          on_call_(std::move(on_call)) {}

private:
    Result<> configure(nvlink_bpf &skeleton) override {
        skeleton.rodata->kernel_stack_bytes = ebpf::kernel_stack_bytes();
        return ebpf::check_kprobes();
    }

    std::vector<ProbeRing> rings(nvlink_bpf &skeleton) override {
        return {{skeleton.maps.nvlink_events, ring_bytes_, [this](auto bytes) {
                     if (const auto first = ebpf::decode<nvlink_first_record>(bytes)) {
                         return count(first->call, &first->details);
                     }
                     const auto record = ebpf::decode<nvlink_record>(bytes);
                     return record && count(*record, nullptr);
                 }}};
    }

    bool count(const nvlink_record &record, const process_details *details) {
        if (record.op >= NVLINK_OP_COUNT) {
            return false;
        }
        aggregator().on_record(record, details, on_call_);
        return true;
    }

    Result<> attach(nvlink_bpf &skeleton) override {
        functions_.start(skeleton.progs.nvlink_begin, skeleton.progs.nvlink_end);
        return {};
    }

    std::uint32_t ring_bytes_;
    OnHelper on_call_;
    DriverFunctions functions_{helpers,
                               "no module has nvlink_strcpy, nvlink_memcpy or nvlink_memset: no "
                               "NVIDIA driver with NVLink is loaded",
                               rescan_interval(), state()};
};

std::unique_ptr<Probe> make_nvlink(const config::Config &config,
                                   const ebpf::Features & /*features*/,
                                   const TargetProcessesPtr & /*targets*/) {
    return config.of<NvlinkConfig>().enabled ? std::make_unique<NvlinkProbe>(config) : nullptr;
}

}  // namespace

constinit const ProbeKind nvlink_kind = {
    .name = "nvlink",
    .title = "NVLink helpers of the driver",
    .make = make_nvlink,
    .read = read_nvlink,
    .declare = declare_families<make_nvlink_families>,
    .trace = &trace::nvlink_trace,
};

std::string_view nvlink_function(std::uint32_t op) {
    return helpers.at(op);
}

std::unique_ptr<Probe> make_nvlink_tracer(const config::Config &config, OnHelper on_call) {
    return std::make_unique<NvlinkProbe>(config, std::move(on_call));
}

}  // namespace gpusnoop::probes
