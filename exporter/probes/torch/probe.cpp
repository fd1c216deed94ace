#include "exporter/probes/torch/probe.h"

#include <memory>
#include <utility>

#include "exporter/probes/frame/allocations/allocations_api.h"
#include "exporter/probes/frame/budget.h"
#include "exporter/probes/frame/libraries/library_probe.h"
#include "exporter/probes/torch/aggregator.h"
#include "exporter/probes/torch/attacher.h"
#include "exporter/probes/torch/consumer.h"
#include "exporter/probes/torch/programs.h"
#include "exporter/probes/torch/settings.h"

namespace gpusnoop::probes {

namespace {

class TorchProbe final : public LibraryProbe<TorchPrograms, TorchConsumer, TorchAttacher> {
public:
    TorchProbe(const config::Config &config, ebpf::Features features, const Shared &shared)
        : LibraryProbe("torch", "no library of PyTorch in use yet"),
          config_(config.of<TorchConfig>()),
          costs_(shared.costs),
          rescan_interval_(config.discovery.rescan_interval),
          features_(std::move(features)),
          aggregator_(
              {.series = series_settings(config),
               .max_live_allocations = config_.max_live_allocations,
               .max_call_sites = config_.max_call_sites,
               .ask_for_site =
                   [this](std::uint64_t ticket, const TorchProcess &process, const Site &site) {
                       consumer_->ask_for_site(ticket, process, site);
                   },
               .forget_stack = [this](std::int32_t stack) { consumer_->forget_stack(stack); },
               .refused = [refusals = shared.torch_refusals](
                              const auto &refusal) { refusals->add(refusal); },
               .started =
                   [this](const TorchProcess &process) {
                       if (config_.sampling) {
                           consumer_->sites().look_for_python(process);
                       }
                   },
               .ended = [this](const TorchProcess &process) { attacher_->ended(process.key.tgid); },
               .given_up =
                   [this](const TorchProcess &process) { attacher_->give_up(process.key.tgid); },
               .is_sampling = config_.sampling,
               .tables = [this]() -> const TorchTables * {
                   return config_.sampling && consumer_ ? &consumer_->tables() : nullptr;
               },
               .cost_of =
                   [this](const ProcessKey &process) {
                       return cost_in<process_entry>(programs_->processes_map(), process);
                   },
               .overhead = shared.overhead}) {}

    ~TorchProbe() override { close(); }
    TorchProbe(const TorchProbe &) = delete;
    TorchProbe &operator=(const TorchProbe &) = delete;

    std::vector<series::FamilySnapshot> report() override { return aggregator_.report(); }
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const override {
        return aggregator_.folded();
    }
    [[nodiscard]] std::vector<ApiPage> api_pages(std::string_view name) override {
        return consumer_ && name == torch_allocations_page_name
                   ? std::vector{allocations_page(name, aggregator_.allocations())}
                   : std::vector<ApiPage>{};
    }

private:
    Result<> open() override;
    [[nodiscard]] Uncounted count_uncounted() const override {
        return {consumer_->undecodable(), aggregator_.forgotten()};
    }

    TorchConfig config_;
    CostTablesPtr costs_;
    std::chrono::nanoseconds rescan_interval_;
    ebpf::Features features_;
    TorchAggregator aggregator_;
};

Result<> TorchProbe::open() {
    auto programs = TorchPrograms::load(config_, features_);
    if (!programs) {
        return tl::unexpected(programs.error());
    }
    auto consumer = TorchConsumer::start(**programs, aggregator_, rescan_interval_);
    if (!consumer) {
        return tl::unexpected(consumer.error());
    }
    if (auto added = costs_->add((*programs)->processes_map()); !added) {
        return added;
    }
    programs_ = std::move(*programs);
    consumer_ = std::move(*consumer);
    attacher_.emplace(*programs_, attached_, config_.libraries);
    return {};
}

std::unique_ptr<Probe> make_torch(const config::Config &config, const ebpf::Features &features,
                                  const Shared &shared) {
    return config.of<TorchConfig>().enabled ? std::make_unique<TorchProbe>(config, features, shared)
                                            : nullptr;
}

std::vector<series::FamilySet> declare_torch_families() {
    auto sets = declare_families<make_torch_families>();
    (void)make_torch_gauges(sets.emplace_back(one_for_each, true));
    return sets;
}

constexpr std::string_view torch_pages[] = {torch_allocations_page_name};

}  // namespace

constinit const ProbeKind torch_kind = {
    .name = "torch",
    .title = "PyTorch's allocator",
    .make = make_torch,
    .read = read_torch,
    .attach = attach_of<TorchConfig>,
    .declare = declare_torch_families,
    .counts = {.entries = true,
               .forgotten = true,
               .lost = lost_for({LOST_ring_full, LOST_throttled, LOST_no_state, LOST_process_table,
                                 LOST_allocation_table, LOST_table_full}),
               .attach_failures = library_failures},
    .api_pages = torch_pages,
};

}  // namespace gpusnoop::probes
