#include "exporter/probes/torch/consumer.h"

#include <utility>

#include "exporter/probes/frame/allocations/call_sites.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

Result<std::unique_ptr<TorchConsumer>> TorchConsumer::start(const TorchPrograms &programs,
                                                            TorchAggregator &aggregator,
                                                            nanoseconds rescan_interval) {
    auto names = symbols::StackResolver::start();
    if (!names) {
        return tl::unexpected(names.error());
    }
    std::unique_ptr<TorchConsumer> consumer(
        new TorchConsumer(programs, aggregator, rescan_interval, std::move(*names)));
    auto ring = ebpf::Ring::open(programs.events_ring(), [one = consumer.get()](auto bytes) {
        one->undecodable_ += one->aggregator_.on_record(bytes) ? 0 : 1;
    });
    if (!ring) {
        return tl::unexpected(ring.error());
    }
    consumer->ring_ = std::move(*ring);
    return consumer;
}

void TorchConsumer::drain() {
    const nanoseconds now = now_on(CLOCK_MONOTONIC);
    const bool has_all = ring_->drain_to(ring_->produced());
    for (symbols::StackReply &answer : names_->answers()) {
        aggregator_.on_site_name(std::move(answer));
    }
    // Else, a process that had ended by `now` could have records that are not read yet.
    if (has_all && now - tidied_ > std::chrono::seconds(1)) {
        tidied_ = now;
        aggregator_.tidy(now);
    }
    if (now - rescanned_ >= rescan_interval_) {
        rescanned_ = now;
        aggregator_.processes().scan(now);
    }
}

void TorchConsumer::ask_for_site(std::uint64_t ticket, const TorchProcess &process,
                                 const Site &site) {
    names_->ask(
        {ticket, process.key.tgid, addresses_of(programs_.stacks_map(), TORCH_STACK_FRAMES, site)});
}

void TorchConsumer::forget_stack(std::int32_t stack) const {
    probes::forget_stack(programs_.stacks_map(), stack);
}

}  // namespace gpusnoop::probes
