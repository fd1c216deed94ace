#include "exporter/probes/host_block/trace.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string_view>

#include "exporter/probes/frame/processes/followed_processes.h"
#include "exporter/probes/frame/trace/host_tracer.h"
#include "exporter/probes/host_block/aggregator.h"
#include "exporter/probes/host_block/probe.h"
#include "exporter/symbols/names/syscall_names.h"
#include "exporter/trace/lines.h"

namespace gpusnoop::trace {

namespace {

using namespace std::chrono_literals;

constexpr Option block_min_duration_option = {.name = "--min-duration",
                                              .takes = Option::Takes::duration,
                                              .help =
                                                  "Only requests that take at least this long: "
                                                  "10ms, 1s."};
constexpr Option block_options[] = {block_min_duration_option};

class BlockTracer final : public HostTracer {
public:
    explicit BlockTracer(const Setup &setup) : HostTracer(setup) {}

private:
    std::unique_ptr<probes::Probe> make_probe_of(
        const probes::TracedProcessesPtr &traced) override {
        return probes::make_block_tracer(
            setup().config, traced,
            {.min_duration = setup().options.duration_of(block_min_duration_option).value_or(0ms),
             .on_request = [this](const auto &record, const auto &device, const auto &process) {
                 write(event_of(record, device, process, clock_offset_ns()));
             }});
    }
};

// By blk_status_t (include/linux/blk_types.h).
constexpr std::array<std::string_view, 11> status_names = {
    "",       "not supported",        "timeout", "no space",   "transport",
    "target", "reservation conflict", "medium",  "protection", "resource",
    "I/O"};

std::string error_text(std::int32_t error) {
    if (error < 0) {
        return std::string(errno_name(-static_cast<std::uint32_t>(error)));
    }
    const auto status = static_cast<std::size_t>(error);
    return status < status_names.size() ? std::string(status_names.at(status))
                                        : "status " + std::to_string(status);
}

}  // namespace

Event event_of(const block_record &record, const std::string &device,
               const probes::ProcessIdentity &process, std::int64_t clock_offset_ns) {
    const std::uint64_t waited_ns = record.took_ns + record.queued_ns;
    Event event;
    event.time_ns = began_ns(record.head.at_ns, waited_ns, clock_offset_ns);
    event.duration_ns = record.took_ns;
    event.pid = record.head.tgid;
    event.tid = record.tid;
    set_process(event, process);
    event.kind = "op";
    event.name = std::string(probes::block_operation_name(record.operation));
    event.details = {{"role", std::string(probes::followed_role_names.at(record.role))},
                     {"device", device},
                     {"bytes", std::uint64_t{record.bytes}},
                     {"queued_ns", std::uint64_t{record.queued_ns}},
                     {"error", text_or_null(error_text(record.error))}};
    return event;
}

constinit const Kind block_trace = {
    .name = "block",
    .help = "Requests to block devices by GPU processes and the processes they start.",
    .column = "OP",
    .options = block_options,
    .make = make<BlockTracer>};

}  // namespace gpusnoop::trace
