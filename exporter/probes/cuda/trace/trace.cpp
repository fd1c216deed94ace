#include "exporter/probes/cuda/trace/trace.h"

#include <bpf/bpf.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "exporter/base/glob.h"
#include "exporter/base/log.h"
#include "exporter/base/text/text.h"
#include "exporter/discovery/discovery.h"
#include "exporter/discovery/library.h"
#include "exporter/ebpf/attach/detacher.h"
#include "exporter/ebpf/attach/uprobe.h"
#include "exporter/ebpf/maps/counters.h"
#include "exporter/ebpf/maps/ring.h"
#include "exporter/probes/cuda/attach/functions.h"
#include "exporter/probes/cuda/attach/programs.h"
#include "exporter/probes/cuda/trace/decode.h"
#include "exporter/probes/cuda/trace/names.h"
#include "exporter/probes/frame/libraries/start_discovery.h"

namespace gpusnoop::trace {

namespace {

// Attaches the tracing programs to the libraries that discovery finds.
// For the discovery thread. The programs must outlive it.
class Attacher final : public discovery::Attacher {
public:
    // `libraries`: globs for the names of files.
    Attacher(const probes::CudaPrograms &programs, std::vector<std::string> libraries)
        : programs_(programs), libraries_(std::move(libraries)), detacher_(programs.mode()) {}
    ~Attacher() override;
    Attacher(const Attacher &) = delete;
    Attacher &operator=(const Attacher &) = delete;

    [[nodiscard]] bool wants(std::string_view name) const override;
    [[nodiscard]] bool is_inner(std::string_view name) const override {
        return probes::is_cuda_driver(name);
    }
    Result<> attach(const discovery::Library &library) override;
    void detach(const FileId &id, bool is_changed) override;
    [[nodiscard]] bool must_wait_for(const FileId &id) override {
        return detacher_.must_wait_for(id);
    }
    void failed(std::string_view /*reason*/) override {}  // discovery logs it

private:
    const probes::CudaPrograms &programs_;
    std::vector<std::string> libraries_;
    std::map<FileId, ebpf::UprobeSet> attached_;
    ebpf::Detacher detacher_;
};

bool Attacher::wants(std::string_view name) const {
    return matches_any(libraries_, name);
}

Attacher::~Attacher() {
    for (auto &[id, probes] : attached_) {
        detacher_.detach({.file = id, .probes = std::move(probes)});
    }
}

void Attacher::detach(const FileId &id, bool is_changed) {
    if (auto gone = attached_.extract(id)) {
        detacher_.detach(
            {.file = id, .probes = std::move(gone.mapped()), .is_changed = is_changed});
    }
}

Result<> Attacher::attach(const discovery::Library &library) {
    const auto places = programs_.find(library);
    if (!places) {
        return tl::unexpected(places.error().error);
    }
    if (places->points.empty()) {
        return {};  // a program without its own runtime
    }
    auto kept = detacher_.take_back(library.id);
    auto probes = programs_.attach(library, *places, std::move(kept).value_or(ebpf::UprobeSet{}));
    if (!probes) {
        return tl::unexpected(probes.error().error);
    }
    log::info("attached", {{"library", library.name},
                           {"functions", probes->functions()},
                           {"inode", library.id.inode},
                           {"mode", to_string(programs_.mode())}});
    attached_.insert_or_assign(library.id, std::move(*probes));
    return {};
}

// The number of stacks that are looked up together.
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
    for (std::size_t number = 0; number < functions.size(); number++) {
        const bool wanted = globs.empty() || std::ranges::any_of(globs, [&](const auto &glob) {
                                return matches_glob(glob, functions[number].symbol) ||
                                       matches_glob(glob, functions[number].name);
                            });
        if (wanted) {
            selected.push_back(static_cast<std::uint16_t>(number));
        }
    }
    return selected;
}

constexpr Option function_option = {.name = "--function",
                                    .takes = Option::Takes::texts,
                                    .help = "Only functions that match this glob. Repeatable."};
constexpr Option own_options[] = {stack_option, function_option};

class CudaTracer final : public Tracer {
public:
    explicit CudaTracer(const Setup &setup) : setup_(setup) {}

    Result<> start() override;
    [[nodiscard]] std::chrono::milliseconds interval() const override {
        return setup_.config.of<probes::CudaConfig>().drain_interval;
    }
    void drain(std::chrono::nanoseconds to_realtime) override;
    [[nodiscard]] std::uint64_t lost() const override;

private:
    void on_trace(std::span<const std::byte> bytes);
    void write_pending();

    struct Pending {
        cuda_record head;
        Event call;
    };

    const Setup setup_;
    std::unique_ptr<probes::CudaPrograms> programs_;
    std::unique_ptr<Names> names_;
    std::unique_ptr<ebpf::Ring> lifecycle_;
    std::unique_ptr<ebpf::Ring> allocations_;
    std::unique_ptr<ebpf::Ring> traces_;
    std::unique_ptr<Attacher> attacher_;
    std::unique_ptr<discovery::Discovery> discovery_;  // its thread uses the members above
    std::vector<Pending> pending_;
    std::int64_t clock_offset_ns_ = 0;
};

Result<> CudaTracer::start() {
    const config::Config &config = setup_.config;
    auto functions = select_functions(setup_.options.texts(function_option));
    if (!functions) {
        return tl::unexpected(functions.error());
    }
    // Stacks come with the calls.
    probes::CudaConfig settings = config.of<probes::CudaConfig>();
    settings.call_stacks = false;
    settings.python_stacks = false;
    settings.pin = probes::Pin::never;
    settings.max_calls_per_second = 0;
    settings.max_overhead = 0;
    const probes::CudaTracing tracing{setup_.options.has(stack_option), setup_.options.pids,
                                      std::move(*functions)};
    auto programs = probes::CudaPrograms::load(settings, setup_.features, &tracing);
    if (!programs) {
        return tl::unexpected(programs.error());
    }
    programs_ = std::move(*programs);
    auto names = Names::start(probes::CudaTables(programs_->tables()), config.labels.script);
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
    auto discovery = probes::start_discovery(config, *attacher_);
    if (!discovery) {
        return tl::unexpected(discovery.error());
    }
    discovery_ = std::move(*discovery);
    log::info("tracing", {{"mode", to_string(programs_->mode())}});
    return {};
}

void CudaTracer::drain(std::chrono::nanoseconds to_realtime) {
    clock_offset_ns_ = to_realtime.count();
    // In this order, the records that a trace's names need are read before it.
    const std::uint64_t traces_end = traces_->produced();
    lifecycle_->drain_to(lifecycle_->produced());
    allocations_->drain_to(allocations_->produced());
    traces_->drain_to(traces_end);
    write_pending();
    names_->forget_ended();
}

void CudaTracer::on_trace(std::span<const std::byte> bytes) {
    const bool has_stack = bytes.size() == sizeof(cuda_trace_stack_record);
    const auto record =
        ebpf::decode<cuda_trace_record>(has_stack ? bytes.first(sizeof(cuda_trace_record)) : bytes);
    if (!record || setup_.writer.done()) {
        return;
    }
    const cuda_record &head = record->memory.head;
    const Names::Process &process = names_->process(head);
    if (!wants_comm(setup_.options, process.comm) || !wants_ppid(setup_.options, process.ppid)) {
        return;
    }
    const KernelName kernel =
        (record->fields & TRACE_KERNEL) != 0 ? names_->kernel(head, record->kernel) : KernelName{};
    Event call = decode(*record, clock_offset_ns_, kernel.name, kernel.parameters);
    call.ppid = process.ppid;
    static_cast<processes::ProcessNames &>(call) = process;
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

void CudaTracer::write_pending() {
    std::vector<Names::Stack> stacks;
    for (Pending &pending : pending_) {
        if (!pending.call.stack.empty()) {
            stacks.push_back({pending.head, &pending.call});
        }
    }
    names_->name_stacks(stacks);
    for (const Pending &pending : pending_) {
        setup_.writer.write(pending.call);
    }
    pending_.clear();
}

std::uint64_t CudaTracer::lost() const {
    const std::uint32_t zero = 0;
    std::uint64_t lost = 0;
    (void)bpf_map_lookup_elem(programs_->traces_lost_map(), &zero, &lost);
    if (const auto account = ebpf::read_account(programs_->account_map())) {
        lost += account->lost[LOST_no_state] + account->lost[LOST_process_table];
    }
    return lost;
}

}  // namespace

constinit const Kind cuda_trace = {.help = "CUDA calls, as docs/trace.md describes.",
                                   .options = own_options,
                                   .make = make<CudaTracer>};

}  // namespace gpusnoop::trace
