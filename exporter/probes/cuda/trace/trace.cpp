#include "exporter/trace/trace.h"

#include <bpf/bpf.h>
#include <time.h>

#include <algorithm>
#include <optional>

#include "exporter/base/glob.h"
#include "exporter/base/log.h"
#include "exporter/base/text.h"
#include "exporter/discovery/discovery.h"
#include "exporter/ebpf/counters.h"
#include "exporter/ebpf/features.h"
#include "exporter/ebpf/handover.h"
#include "exporter/ebpf/record.h"
#include "exporter/ebpf/ring.h"
#include "exporter/probes/cuda/functions.h"
#include "exporter/probes/cuda/programs.h"
#include "exporter/probes/cuda/trace/attacher.h"
#include "exporter/probes/cuda/trace/decode.h"
#include "exporter/probes/cuda/trace/names.h"
#include "exporter/probes/frame/exclusion.h"
#include "exporter/system/machine.h"
#include "exporter/trace/filter.h"
#include "exporter/trace/lines.h"
#include "exporter/trace/writer.h"

namespace gpusnoop::trace {

namespace {

// Stacks that are looked up together.
constexpr std::size_t max_batch = 1024;

Result<std::vector<std::uint16_t>> select_functions(const std::vector<std::string> &globs) {
    const auto functions = probes::cuda_functions();
    std::vector<std::uint16_t> selected;
    for (const std::string &glob : globs) {
        const bool any = std::ranges::any_of(functions, [&](const auto &function) {
            return matches_glob(glob, function.symbol) || matches_glob(glob, function.name);
        });
        if (!any) {
            return fail("no function that is traced matches \"" + to_valid_utf8(glob, 128) + "\"");
        }
    }
    for (std::uint16_t number = 0; number < functions.size(); number++) {
        const bool wanted = globs.empty() || std::ranges::any_of(globs, [&](const auto &glob) {
                                return matches_glob(glob, functions[number].symbol) ||
                                       matches_glob(glob, functions[number].name);
                            });
        if (wanted) {
            selected.push_back(number);
        }
    }
    return selected;
}

class Tracer {
public:
    Tracer(const Options &options, int stop_fd) : options_(options), writer_(options, stop_fd) {}

    Result<> open(const config::Config &config);
    Result<> run(std::chrono::milliseconds interval);

private:
    void drain();
    void on_trace(std::span<const std::byte> bytes);
    void write_pending();
    [[nodiscard]] std::uint64_t lost() const;

    struct Pending {
        cuda_record head;
        Call call;
    };

    const Options &options_;
    Writer writer_;
    std::unique_ptr<probes::CudaPrograms> programs_;
    std::unique_ptr<Names> names_;
    std::unique_ptr<ebpf::Ring> lifecycle_;
    std::unique_ptr<ebpf::Ring> allocations_;
    std::unique_ptr<ebpf::Ring> traces_;
    std::unique_ptr<Attacher> attacher_;
    std::unique_ptr<discovery::Discovery> discovery_;  // its thread uses what is above
    std::vector<Pending> pending_;
    std::int64_t clock_offset_ns_ = 0;
};

Result<> Tracer::open(const config::Config &config) {
    allow_many_files();
    const auto features = ebpf::probe_features();
    if (const auto usable = ebpf::check_requirements(features); !usable) {
        return usable;
    }
    auto functions = select_functions(options_.functions);
    if (!functions) {
        return tl::unexpected(functions.error());
    }
    // Stacks come with the calls.
    config::Config::Cuda settings = config.cuda;
    settings.call_stacks = false;
    settings.pin = false;
    settings.max_calls_per_second = 0;
    const probes::CudaTracing tracing{options_.stack, options_.pids, std::move(*functions)};
    auto programs = probes::CudaPrograms::load(settings, features, &tracing);
    if (!programs) {
        return tl::unexpected(programs.error());
    }
    programs_ = std::move(*programs);
    auto names = Names::start(probes::CudaTables(programs_->tables()));
    if (!names) {
        return tl::unexpected(names.error());
    }
    names_ = std::move(*names);
    const auto name_by = [this](auto bytes) { names_->on_record(bytes); };
    auto lifecycle = ebpf::Ring::open(programs_->lifecycle_ring(), name_by);
    auto allocations = ebpf::Ring::open(programs_->allocations_ring(), name_by);
    auto traces =
        ebpf::Ring::open(programs_->traces_ring(), [this](auto bytes) { on_trace(bytes); });
    for (const auto *const ring : {&lifecycle, &allocations, &traces}) {
        if (!*ring) {
            return tl::unexpected(ring->error());
        }
    }
    lifecycle_ = std::move(*lifecycle);
    allocations_ = std::move(*allocations);
    traces_ = std::move(*traces);
    attacher_ = std::make_unique<Attacher>(*programs_, settings.libraries);
    auto discovery =
        discovery::Discovery::open({.rescan_interval = config.discovery.rescan_interval,
                                    .exclude = probes::exclusion(config.discovery.exclude)},
                                   {attacher_.get()});
    if (!discovery) {
        return tl::unexpected(discovery.error());
    }
    discovery_ = std::move(*discovery);
    discovery_->start();
    log::info("tracing", {{"mode", to_string(programs_->mode())}});
    return {};
}

Result<> Tracer::run(std::chrono::milliseconds interval) {
    return writer_.run({interval, text_header(), [this] { drain(); }, [this] { return lost(); }});
}

void Tracer::drain() {
    clock_offset_ns_ = now_on(CLOCK_REALTIME).count() - now_on(CLOCK_MONOTONIC).count();
    // In this order, what the names in a trace are made of is known before it.
    const std::uint64_t traces_end = traces_->produced();
    lifecycle_->drain_to(lifecycle_->produced());
    allocations_->drain_to(allocations_->produced());
    traces_->drain_to(traces_end);
    write_pending();
    names_->forget_ended();
}

void Tracer::on_trace(std::span<const std::byte> bytes) {
    const bool has_stack = bytes.size() == sizeof(cuda_trace_stack_record);
    const auto record =
        ebpf::decode<cuda_trace_record>(has_stack ? bytes.first(sizeof(cuda_trace_record)) : bytes);
    if (!record || writer_.done()) {
        return;
    }
    const cuda_record &head = record->memory.head;
    const Names::Process &process = names_->process(head);
    if (!wants_comm(options_, process.comm) || !wants_ppid(options_, process.ppid)) {
        return;
    }
    const KernelName kernel =
        (record->fields & TRACE_KERNEL) != 0 ? names_->kernel(head, record->kernel) : KernelName{};
    Call call = decode(*record, clock_offset_ns_, kernel.name, kernel.parameters);
    call.ppid = process.ppid;
    call.comm = process.comm;
    call.container = process.container;
    if (const auto whole = ebpf::decode<cuda_trace_stack_record>(bytes)) {
        for (int i = 0; i < std::min<int>(record->frame_count, CUDA_STACK_FRAMES); i++) {
            call.stack.push_back({whole->frames[i], {}});
        }
    }
    pending_.push_back({head, std::move(call)});
    if (pending_.size() >= max_batch) {
        write_pending();
    }
}

void Tracer::write_pending() {
    std::vector<Names::Stack> stacks;
    for (Pending &pending : pending_) {
        if (!pending.call.stack.empty()) {
            stacks.push_back({pending.head, &pending.call});
        }
    }
    names_->name_stacks(stacks);
    for (const Pending &pending : pending_) {
        writer_.write(options_.format == Format::json ? json_line(pending.call)
                                                      : text_line(pending.call));
    }
    pending_.clear();
}

std::uint64_t Tracer::lost() const {
    const std::uint32_t zero = 0;
    std::uint64_t lost = 0;
    (void)bpf_map_lookup_elem(programs_->traces_lost_map(), &zero, &lost);
    if (const auto account = ebpf::read_account(programs_->account_map())) {
        lost += account->lost[LOST_no_state] + account->lost[LOST_process_table];
    }
    return lost;
}

}  // namespace

Result<> trace_cuda(const config::Config &config, const Options &options, int stop_fd) {
    std::optional<ebpf::Handover> handover;
    Tracer tracer(options, stop_fd);
    auto traced = tracer.open(config);
    if (traced) {
        traced = tracer.run(config.cuda.drain_interval);
    }
    handover.emplace();
    return traced;
}

}  // namespace gpusnoop::trace
