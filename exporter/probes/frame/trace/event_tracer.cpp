#include "exporter/probes/frame/trace/event_tracer.h"

#include <utility>

#include "exporter/base/log.h"
#include "exporter/ebpf/kernel_types.h"
#include "exporter/ebpf/maps/counters.h"
#include "exporter/probes/frame/registry.h"
#include "exporter/trace/lines.h"
#include "exporter/trace/trace.h"

namespace gpusnoop::trace {

void set_process(Event &event, const probes::ProcessIdentity &process) {
    event.ppid = process.ppid;
    static_cast<processes::ProcessNames &>(event) = printable(process);
}

void set_caller(Event &event, std::uint32_t tgid, std::uint32_t tid,
                const probes::ProcessIdentity &process) {
    event.pid = tgid;
    event.tid = tid;
    if (tgid == 0) {
        event.comm = "interrupt";
        return;
    }
    set_process(event, process);
}

Result<> EventTracer::start() {
    const ebpf::SharedKernelTypes types;
    auto probe = make_probe();
    if (!probe) {
        return tl::unexpected(probe.error());
    }
    probe_ = std::move(*probe);
    if (auto started = probe_->start(); !started) {
        return started;
    }
    const probes::Health health = probe_->health();
    log::info("tracing", {{"events", health.name}});
    if (!health.is_up()) {
        log::info("nothing to attach to yet: waiting for it", {{"reason", health.detail}});
    }
    return {};
}

std::chrono::milliseconds EventTracer::interval() const {
    return probes::drain_interval(setup().config);
}

void EventTracer::drain(std::chrono::nanoseconds to_realtime) {
    clock_offset_ns_ = to_realtime.count();
    probe_->drain();
}

std::uint64_t EventTracer::lost() const {
    const probes::Health health = probe_->health();
    return ebpf::lost_calls(health.account) + health.runs.skipped;
}

void EventTracer::write(const Event &event) {
    const Options &options = setup_.options;
    if (wants_pid(options, event.pid) && wants_ppid(options, event.ppid) &&
        wants_comm(options, event.comm)) {
        setup_.writer.write(event);
    }
}

}  // namespace gpusnoop::trace
