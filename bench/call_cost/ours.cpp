#include <chrono>
#include <numeric>
#include <stop_token>
#include <thread>
#include <utility>

#include "bench/call_cost/programs.h"
#include "exporter/kernel/account.h"
#include "exporter/kernel/ring.h"
#include "exporter/probes/cuda_programs.h"

namespace gpusnoop::bench {

using kernel::AttachMode;

namespace {

constexpr std::chrono::milliseconds drain_interval{10};  // the exporter's

struct Ours final : Tracing {
    std::unique_ptr<probes::CudaPrograms> programs;
    std::unique_ptr<kernel::Ring> allocations;
    std::unique_ptr<kernel::Ring> calls;
    std::jthread drain;
    kernel::UprobeSet probes;

    [[nodiscard]] Result<std::uint64_t> lost() const override {
        const auto account = kernel::read_account(programs->account_map());
        if (!account) {
            return tl::unexpected(account.error());
        }
        if (account->events == 0) {
            return fail("our programs saw no call");
        }
        return std::accumulate(std::begin(account->lost), std::end(account->lost),
                               std::uint64_t{0});
    }
};

config::Config::Cuda configure(AttachMode mode, bool call_stacks) {
    using Attach = config::Config::Cuda::Attach;
    config::Config::Cuda config;
    config.attach = mode == AttachMode::session ? Attach::session
                    : mode == AttachMode::multi ? Attach::multi
                                                : Attach::perf;
    config.call_stacks = call_stacks;
    // More than anybody can call: the budget costs what it costs, but throttles nothing.
    config.max_calls_per_second = 1'000'000'000;
    return config;
}

}  // namespace

TracingResult trace_with_ours(AttachMode mode, bool call_stacks, const Library &library) {
    auto ours = std::make_unique<Ours>();
    auto programs = probes::CudaPrograms::load(configure(mode, call_stacks), {});
    if (!programs) {
        return tl::unexpected(programs.error());
    }
    ours->programs = std::move(*programs);
    auto allocations = kernel::Ring::open(ours->programs->allocations_ring(), [](auto) {});
    auto calls = kernel::Ring::open(ours->programs->calls_ring(), [](auto) {});
    if (!allocations || !calls) {
        return tl::unexpected(allocations ? calls.error() : allocations.error());
    }
    ours->allocations = std::move(*allocations);
    ours->calls = std::move(*calls);
    ours->drain = std::jthread([self = ours.get()](const std::stop_token &stop) {
        while (!stop.stop_requested()) {
            self->allocations->drain_to(self->allocations->produced());
            self->calls->drain_to(self->calls->produced());
            std::this_thread::sleep_for(drain_interval);
        }
    });
    auto attached = ours->programs->attach(library.found());
    if (!attached) {
        return tl::unexpected(attached.error().error);
    }
    ours->probes = std::move(*attached);
    return ours;
}

}  // namespace gpusnoop::bench
