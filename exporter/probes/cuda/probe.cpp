#include "exporter/probes/cuda/probe.h"

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "bpf/cuda/functions.h"
#include "cuda_in_flight.skel.h"
#include "exporter/base/log.h"
#include "exporter/discovery/gpus/gpu_lookup.h"
#include "exporter/ebpf/maps/counters.h"
#include "exporter/probes/cuda/aggregator.h"
#include "exporter/probes/cuda/attach/attacher.h"
#include "exporter/probes/cuda/attach/functions.h"
#include "exporter/probes/cuda/attach/pins.h"
#include "exporter/probes/cuda/attach/programs.h"
#include "exporter/probes/cuda/consumer.h"
#include "exporter/probes/cuda/families.h"
#include "exporter/probes/cuda/governor/governor.h"
#include "exporter/probes/cuda/out_of_memory/report.h"
#include "exporter/probes/cuda/settings.h"
#include "exporter/probes/cuda/trace/trace.h"
#include "exporter/probes/frame/allocations/allocations_api.h"
#include "exporter/probes/frame/budget.h"
#include "exporter/probes/frame/calls/open_call_reader.h"
#include "exporter/probes/frame/calls/open_calls.h"
#include "exporter/probes/frame/libraries/library_probe.h"
#include "exporter/probes/frame/overview.h"
#include "exporter/probes/frame/reports/report_facts.h"
#include "exporter/probes/frame/torch_refusals.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

// For finding a process's GPUs: all other work waits meanwhile.
constexpr std::chrono::milliseconds patience_with_gpus{50};
// The child that reads of them ends after that time.
constexpr std::chrono::seconds unused_reader{10};

class CudaProbe final : public LibraryProbe<CudaPrograms, CudaConsumer, CudaAttacher>,
                        public CallFollower {
public:
    CudaProbe(const config::Config &config, ebpf::Features features, const Shared &shared)
        : LibraryProbe("cuda", "no CUDA library in use yet"),
          config_(config_for_probes(config, shared.traced->follows_gpu_processes())),
          shows_scripts_(config.labels.script),
          shared_(shared),
          out_of_memory_(shared.sinks),
          rescan_interval_(config.discovery.rescan_interval),
          features_(std::move(features)),
          gpus_(discovery::read_gpus(config.discovery.nvidia_proc_path), patience_with_gpus),
          aggregator_(CudaSettings{.budget = budget_of(config),
                                   .pid_label = config.labels.pid,
                                   .script_label = config.labels.script,
                                   .stream_label = config.labels.stream,
                                   .retention = config.series.retention,
                                   .gpus = gpus_.gpus(),
                                   .sites = config_.max_call_sites,
                                   .started = now_on(CLOCK_MONOTONIC)},
                      callbacks()) {}

    ~CudaProbe() override;
    CudaProbe(const CudaProbe &) = delete;
    CudaProbe &operator=(const CudaProbe &) = delete;

    void leave_to_successor() override { has_successor_ = true; }
    std::vector<series::FamilySnapshot> report() override {
        if (consumer_) {
            consumer_->read_launches();
        }
        return aggregator_.report(now_on(CLOCK_MONOTONIC));
    }
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const override {
        return aggregator_.folded();
    }
    [[nodiscard]] std::vector<ApiPage> api_pages(std::string_view name) override {
        if (consumer_ && name == cuda_allocations_page_name) {
            return {allocations_page(name, aggregator_.allocations())};
        }
        if (consumer_ && name == out_of_memory_page_name) {
            return {out_of_memory_page(aggregator_.out_of_memory().list())};
        }
        return {};
    }
    void add_to(Overview &overview) const override {
        if (consumer_) {
            overview.memory = aggregator_.overview();
            overview.out_of_memory = aggregator_.out_of_memory().overview();
        }
    }
    std::vector<ProcessSample> samples(std::size_t most) const override {
        return aggregator_.samples(most);
    }
    Result<OpenCalls> open_calls(const OpenCallQuery &query) override {
        return open_calls_
                   ? (*open_calls_)
                         ->read(query, {.call_of =
                                            [this](const auto &record) {
                                                return std::optional(aggregator_.open_call(record));
                                            },
                                        .is_shown =
                                            [this](const auto &record) {
                                                return !may_have_ended(record);
                                            }})
                   : tl::unexpected(open_calls_.error());
    }
    void set_resting(bool is_resting) override {
        if (governor_) {
            governor_->set_resting(is_resting);
        }
    }
    std::vector<UnreturnedCall> take_unreturned() override { return aggregator_.take_unreturned(); }

private:
    CudaCallbacks callbacks();
    Result<> open() override;
    // With other probes.
    Result<> share(const CudaPrograms &programs);
    void before_drain() override;
    void after_drain() override {
        for (const TorchRefusal &refusal : shared_.torch_refusals->take()) {
            aggregator_.on_torch(refusal);  // after the failed calls before it
        }
    }
    [[nodiscard]] Uncounted count_uncounted() const override {
        return {aggregator_.undecodable(), aggregator_.forgotten()};
    }
    void govern();
    [[nodiscard]] bool has_all_calls(const Process &process) const {
        return !attacher_->missed_calls().by({.tgid = process.key.tgid,
                                              .started = process.started,
                                              .ppid = process.ppid,
                                              .calls_driver = process.calls_driver});
    }

    [[nodiscard]] std::uint64_t lost_records() const {
        const auto account = ebpf::read_account(programs_->account_map());
        return account ? ebpf::lost_calls(*account) : 0;
    }

    // Nothing for a launch that may be over.
    [[nodiscard]] bool may_have_ended(const open_call_record &record) const;

    void describe_new(Process &process);
    // For the next exporter, or from the one before.
    void keep_or_find_script(Process &process) const;
    // Nothing: they cannot be listed.
    [[nodiscard]] std::optional<OldestCalls> oldest_calls(nanoseconds min_age);

    CudaConfig config_;
    bool shows_scripts_;
    const Shared shared_;
    OutOfMemoryReporter out_of_memory_;
    nanoseconds rescan_interval_;
    ebpf::Features features_;
    discovery::GpuLookup gpus_;
    SandboxWarnings sandboxes_{"cuda"};
    CudaAggregator aggregator_;
    // While the probe is up.
    std::optional<LaunchProbes> launch_probes_;
    std::unique_ptr<LaunchGovernor> governor_;  // null without a limit
    Result<std::unique_ptr<OpenCallReader>> open_calls_ = fail("the probe is not up");
    std::uint64_t missed_calls_version_ = 0;  // as of the last drain()
    std::atomic<bool> has_successor_ = false;
};

// An exporter that is stopped leaves nothing behind, unless the configuration asks for it.
CudaProbe::~CudaProbe() {
    if (programs_ && programs_->pins() != nullptr && config_.pin == Pin::automatic &&
        !has_successor_) {
        programs_->pins()->pins().remove_all();
    }
    // Each uses those after it.
    governor_.reset();
    attacher_.reset();
    launch_probes_.reset();
    close();
}

void CudaProbe::keep_or_find_script(Process &process) const {
    const CudaPins *const pins = programs_->pins();
    if (pins == nullptr || !shows_scripts_) {
        return;
    }
    if (process.script.empty()) {
        process.script = pins->script_of(process.key);
    } else {
        pins->keep_script(process);
    }
}

void CudaProbe::describe_new(Process &process) {
    describe(process, gpus_);
    keep_or_find_script(process);
    if (config_.endings != ebpf::Endings::exits) {
        sandboxes_.look(process);
    }
    process.is_complete = has_all_calls(process);
    if (config_.python_stacks) {
        consumer_->names().sites().look_for_python(process);
    }
}

std::optional<OldestCalls> CudaProbe::oldest_calls(nanoseconds min_age) {
    if (auto oldest = open_calls_.and_then([&](const auto &reader) {
            return reader->read_oldest(
                min_age, [this](const auto &record) { return !may_have_ended(record); });
        })) {
        return *std::move(oldest);
    }
    return std::nullopt;
}

CudaCallbacks CudaProbe::callbacks() {
    return {
        .catch_up = [this] { consumer_->rings().drain_lifecycle(); },
        .launched_by =
            [this](const ProcessKey &key, std::uint64_t handle) {
                return consumer_->tables().launched_by(key, handle);
            },
        .remember_executable =
            [this](const symbols::Executable &executable) {
                consumer_->names().remember(executable);
            },
        .ask_for_kernel =
            [this](symbols::CudaKernelRequest request) {
                consumer_->names().ask_for_kernel(std::move(request), consumer_->tables());
            },
        .ask_for_site =
            [this](std::uint64_t ticket, const Process &process, const Site &site) {
                consumer_->names().ask_for_site(ticket, process.key, process.executable.code_start,
                                                site, consumer_->tables());
            },
        .forget_stack = [this](std::int32_t stack) { consumer_->tables().forget_stack(stack); },
        .describe = [this](Process &process) { describe_new(process); },
        .has_all_calls = [this](const Process &process) { return has_all_calls(process); },
        .has_profiler =
            [this](const ProcessKey &key) { return consumer_->tables().has_profiler(key); },
        .cost_of =
            [this](const ProcessKey &key) {
                return cost_in<cuda_live_process>(consumer_->tables().processes(), key);
            },
        .overhead = shared_.overhead,
        .unseen_of =
            [this](const ProcessKey &key) { return governor_ ? governor_->unseen(key) : Unseen{}; },
        .open_calls = [this](nanoseconds min_age) { return oldest_calls(min_age); },
        .note_unknown_kernels =
            [this](const ProcessKey &key, std::size_t kernels) {
                if (governor_) {
                    governor_->note_unknown_kernels(key, kernels);
                }
            },
        .slurm_gpus = [this] { return gpus_.of_slurm_jobs(); },
        .forget_live = [this](auto keys) { return consumer_->tables().forget_live(keys); },
        .end_mappings = [this](auto mappings) { consumer_->tables().end_mappings(mappings); },
        .out_of_memory = [this](const auto &event) { out_of_memory_.report(event); },
        .left_unfreed = [this](const auto &end) { shared_.traced->cuda().on_gpu_process_end(end); },
        .process_done =
            [this](GpuProcessTotals totals) { shared_.report_facts->add(std::move(totals)); },
        .lost_records = [this] { return lost_records(); }};
}

Result<> CudaProbe::open() {
    auto programs = CudaPrograms::load(config_, features_);
    if (!programs) {
        return tl::unexpected(programs.error());
    }
    auto consumer = CudaConsumer::start(**programs, aggregator_, rescan_interval_);
    if (!consumer) {
        return tl::unexpected(consumer.error());
    }
    if (auto shared = share(**programs); !shared) {
        return shared;
    }
    programs_ = std::move(*programs);
    if (config_.unreturned_after > std::chrono::milliseconds(0)) {  // else nobody asks for calls
        open_calls_ = OpenCallReader::open<cuda_in_flight_bpf>(programs_->threads_map());
    }
    consumer_ = std::move(*consumer);
    if (config_.max_overhead > 0) {
        govern();
    }
    attacher_.emplace(*programs_, attached_, config_.libraries,
                      launch_probes_ ? &*launch_probes_ : nullptr);
    if (programs_->pins() == nullptr && ebpf::has_pins(config_.pin_path)) {
        log::warn(
            "probes that an earlier exporter pinned are still attached: remove them with "
            "gpusnoop_exporter unpin",
            {{"pins", config_.pin_path}});
    }
    return {};
}

Result<> CudaProbe::share(const CudaPrograms &programs) {
    CudaShared &shared = shared_.traced->cuda();
    if (auto copied = programs.share_maps(config_, shared); !copied) {
        return copied;
    }
    if (config_.follow) {
        shared.function_name = symbol_of;
    }
    if (config_.keep_times) {
        shared.gpu_name = [this](std::uint32_t tgid, std::int32_t device) {
            return aggregator_.gpu_name(tgid, device);
        };
        shared.unseen_launches = [this](std::uint32_t tgid) {
            return governor_ ? governor_->unseen_per_launch(tgid) : 0;
        };
    }
    return {};
}

// A launch, unseen by its probes since.
bool CudaProbe::may_have_ended(const open_call_record &record) const {
    return launch_probes_ && launches_kernel(record.call.cookie) &&
           launch_probes_->may_have_ended(record.tgid, (record.call.cookie & CUDA_OF_DRIVER) != 0,
                                          nanoseconds(record.call.started_ns));
}

void CudaProbe::govern() {
    const bool can_pause = features_.attaches_to_one(programs_->mode());
    if (!can_pause) {
        log::info(
            "cuda.max_overhead may be exceeded: launches are counted but never paused, because "
            "this kernel cannot attach to a single process in this mode (Linux 6.10 can)",
            {{"probe", "cuda"}, {"mode", to_string(programs_->mode())}});
    }
    launch_probes_.emplace(*programs_);
    governor_ = std::make_unique<LaunchGovernor>(
        config_.max_overhead,
        LaunchGovernor::Maps{programs_->tables().processes, programs_->sights_map()}, shared_.costs,
        *programs_, *launch_probes_, can_pause);
}

void CudaProbe::before_drain() {
    gpus_.rest(unused_reader);
    gpus_.look_for_jobs(now_on(CLOCK_MONOTONIC));
    if (const auto version = attacher_->missed_calls().version();
        std::exchange(missed_calls_version_, version) != version) {
        aggregator_.look_for_missed_calls();
        if (CudaPins *const pins = programs_->pins()) {
            pins->keep_incomplete(attacher_->missed_calls().incomplete());
        }
    }
}

std::unique_ptr<Probe> make_cuda(const config::Config &config, const ebpf::Features &features,
                                 const Shared &shared) {
    if (!config.of<CudaConfig>().enabled) {
        return nullptr;
    }
    auto probe = std::make_unique<CudaProbe>(config, features, shared);
    shared.call_followers->emplace_back("cuda", probe.get());
    return probe;
}

std::unique_ptr<Probe> make_gpu_processes(const config::Config &config,
                                          const ebpf::Features &features, const Shared &shared) {
    return make_cuda(config_for_gpu_processes(config, shared.report_facts->is_wanted()), features,
                     shared);
}

std::vector<series::FamilySet> declare_cuda_families() {
    auto sets = declare_families<make_cuda_families>();
    make_cuda_gauges(sets.emplace_back(one_for_each, true));
    return sets;
}

constexpr std::string_view cuda_pages[] = {cuda_allocations_page_name, out_of_memory_page_name};

}  // namespace

constinit const ProbeKind cuda_kind = {
    .name = "cuda",
    .title = "CUDA",
    .make = make_cuda,
    .make_gpu_processes = make_gpu_processes,
    .read = read_cuda,
    .attach = attach_of<CudaConfig>,
    .drain_interval = drain_interval_of<CudaConfig>,
    .declare = declare_cuda_families,
    .counts = {.entries = true,
               .in_flight = true,
               .stale = true,
               .nested = true,
               .unmatched = true,
               .forgotten = true,
               .deaths = true,
               .lost = lost_for({LOST_ring_full, LOST_throttled, LOST_no_state, LOST_process_table,
                                 LOST_allocation_table, LOST_fault, LOST_table_full}),
               .attach_failures = cuda_failures},
    .api_pages = cuda_pages,
    .trace = &trace::cuda_trace,
};

}  // namespace gpusnoop::probes
