#include "exporter/probes/nvlink/probe.h"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "exporter/base/log.h"
#include "exporter/base/result.h"
#include "exporter/config/reader.h"
#include "exporter/ebpf/attach/kernel_hooks.h"
#include "exporter/ebpf/kernel_types.h"
#include "exporter/probes/frame/bpf/bpf_probe.h"
#include "exporter/probes/frame/trace/event_tracer.h"
#include "exporter/probes/nvlink/aggregator.h"
#include "nvlink.skel.h"

namespace gpusnoop::probes {

namespace {

// Kprobes on functions of the GPU's driver, whose modules come and go.
// Attaches to the functions that exist, and again whenever they change: a module that was loaded
// again has them at other addresses. Uses its own thread, as attaching takes a while.
class DriverFunctions {
public:
    // A function's attach cookie is its index in `functions`, which must stay valid. `absent` is
    // why the probe is unsupported while no function exists.
    DriverFunctions(std::span<const std::string_view> functions, std::string absent,
                    std::chrono::nanoseconds rescan_interval, AttachState &state)
        : functions_(functions),
          absent_(fail_unsupported(std::move(absent)).value()),
          rescan_interval_(rescan_interval),
          state_(state) {}

    // Looks for the functions immediately, and then each rescan interval. The programs must outlive
    // this.
    void start(const ebpf::KprobePrograms &programs);

private:
    Result<> attach();
    void look();
    void watch(const std::stop_token &stop);

    std::span<const std::string_view> functions_;
    Error absent_;
    std::chrono::nanoseconds rescan_interval_;
    AttachState &state_;
    ebpf::KprobePrograms programs_{};
    std::string modules_ = "not looked yet";
    std::map<std::string, std::uint64_t> found_;
    ebpf::KprobeSet probes_;
    std::mutex mutex_;
    std::condition_variable_any wake_;
    std::jthread watcher_;  // stops before the others go
};

void DriverFunctions::start(const ebpf::KprobePrograms &programs) {
    programs_ = programs;
    look();
    watcher_ = std::jthread([this](const std::stop_token &stop) { watch(stop); });
}

Result<> DriverFunctions::attach() {
    const auto modules = ebpf::loaded_modules();
    if (!modules) {
        return tl::unexpected(modules.error());
    }
    if (*modules == modules_) {
        return {};
    }
    auto found = ebpf::find_kernel_symbols(functions_);
    if (!found) {
        return tl::unexpected(found.error());
    }
    modules_ = *modules;
    if (*found == found_) {
        return {};
    }
    found_ = *std::move(found);
    probes_ = {};
    Result<> last;
    for (std::size_t place = 0; place < functions_.size(); place++) {
        const std::string name(functions_[place]);
        if (!found_.contains(name)) {
            continue;
        }
        if (const auto attached = probes_.attach(programs_, {name, place}); !attached) {
            last = attached;
        }
    }
    if (!last) {
        modules_ = "to look again";
        found_.clear();
    }
    return last;
}

void DriverFunctions::look() {
    const std::size_t before = state_.get().functions;
    if (const auto attached = attach(); !attached) {
        state_.down(attached.error());
        state_.failed(attached.error());
        return;
    }
    const std::size_t functions = probes_.functions();
    if (functions > 0) {
        state_.up(functions, "attached by kprobes");
    } else {
        state_.down(absent_);
    }
    if (functions != before) {
        log::info(functions > 0 ? "attached" : "detached: the driver was unloaded",
                  {{"probe", state_.probe()}, {"functions", functions}});
    }
}

void DriverFunctions::watch(const std::stop_token &stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
        wake_.wait_for(lock, stop, rescan_interval_, [] { return false; });
        if (!stop.stop_requested()) {
            look();
        }
    }
}

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
        ebpf::choose_kprobe_programs(programs_of(skeleton));
        return ebpf::check_kprobes();
    }

    std::vector<ProbeRing> rings(nvlink_bpf &skeleton) override {
        return {ring_of_calls<nvlink_first_record>(
            skeleton.maps.nvlink_events, ring_bytes_,
            [this](const nvlink_record &record, const process_details *details) {
                if (record.op >= NVLINK_OP_COUNT) {
                    return false;
                }
                aggregator().on_record(record, details, on_call_);
                return true;
            })};
    }

    Result<> attach(nvlink_bpf &skeleton) override {
        functions_.start(programs_of(skeleton));
        return {};
    }

    static ebpf::KprobePrograms programs_of(const nvlink_bpf &skeleton) {
        const auto &programs = skeleton.progs;
        return {programs.nvlink_begin, programs.nvlink_end, programs.nvlink_link_in,
                programs.nvlink_link_out};
    }

    std::uint32_t ring_bytes_;
    OnHelper on_call_;
    DriverFunctions functions_{nvlink_helpers,
                               "no module has nvlink_strcpy, nvlink_memcpy or nvlink_memset: no "
                               "NVIDIA driver with NVLink is loaded",
                               rescan_interval(), state()};
};

void read_nvlink(config::Section nvlink, config::Config &config) {
    NvlinkConfig value;
    nvlink.boolean("enabled", value.enabled);
    nvlink.ring_bytes("ring_bytes", value.ring_bytes);
    nvlink.finish();
    config.set(value);
}

constexpr trace::Kind nvlink_trace = {
    .help = "Calls of the NVIDIA driver's nvlink_* helpers.",
    .make = trace::make<trace::RecordTracer<NvlinkProbe, nvlink_record, event_of>>};

}  // namespace

trace::Event event_of(const nvlink_record &record, const ProcessIdentity &process,
                      std::int64_t clock_offset_ns) {
    trace::Event event;
    event.time_ns = trace::began_ns(record.ended_ns, record.duration_ns, clock_offset_ns);
    event.duration_ns = record.duration_ns;
    trace::set_caller(event, record.tgid, record.tid, process);
    event.kind = "function";
    event.name = nvlink_helpers.at(record.op);
    event.details = {{"bytes", std::uint64_t{record.bytes}}};
    return event;
}

constinit const ProbeKind nvlink_kind = {
    .name = "nvlink",
    .title = "NVLink helpers of the driver",
    .make = make_if_enabled<NvlinkProbe, NvlinkConfig>,
    .read = read_nvlink,
    .needs_kprobes = true,
    .declare = declare_families<make_nvlink_families>,
    .counts = {.entries = true,
               .in_flight = true,
               .stale = true,
               .unmatched = true,
               .lost = lost_for({LOST_ring_full, LOST_no_state}),
               .attach_failures = kernel_failures},
    .trace = &nvlink_trace,
};

}  // namespace gpusnoop::probes
