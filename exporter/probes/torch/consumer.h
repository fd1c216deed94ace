// Brings the records of the probe `torch`, and the names of call sites, to the aggregator. On the
// aggregating thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/ebpf/maps/ring.h"
#include "exporter/probes/frame/python/sites.h"
#include "exporter/probes/torch/aggregator.h"
#include "exporter/probes/torch/programs.h"
#include "exporter/probes/torch/tables.h"

namespace gpusnoop::probes {

class TorchConsumer {
public:
    // Both must outlive it.
    static Result<std::unique_ptr<TorchConsumer>> start(const TorchPrograms &programs,
                                                        TorchAggregator &aggregator,
                                                        std::chrono::nanoseconds rescan_interval);

    void drain();
    [[nodiscard]] std::vector<int> ring_fds() const { return {ring_->fd()}; }
    [[nodiscard]] std::uint64_t undecodable() const { return undecodable_; }

    // For the aggregator's callbacks.
    void ask_for_site(std::uint64_t ticket, const TorchProcess &process, const Site &site);
    void forget_stack(std::int32_t stack) const;
    [[nodiscard]] PythonSites &sites() { return sites_; }
    [[nodiscard]] const TorchTables &tables() const { return tables_; }

private:
    TorchConsumer(const TorchPrograms &programs, TorchAggregator &aggregator,
                  std::chrono::nanoseconds rescan_interval, PythonSites sites)
        : programs_(programs),
          aggregator_(aggregator),
          rescan_interval_(rescan_interval),
          sites_(std::move(sites)),
          tables_(programs.tables()) {}

    void tidy(std::chrono::nanoseconds now);
    void rescan(std::chrono::nanoseconds now);

    const TorchPrograms &programs_;
    TorchAggregator &aggregator_;
    std::chrono::nanoseconds rescan_interval_;
    PythonSites sites_;
    TorchKernelTables tables_;
    std::unique_ptr<ebpf::Ring> ring_;
    std::uint64_t undecodable_ = 0;  // records
    // That were lost, or not followed, when the live blocks were compared last.
    std::uint64_t lost_ = 0;
    // When each was done last.
    std::chrono::nanoseconds tidied_{};
    std::chrono::nanoseconds rescanned_{};
};

}  // namespace gpusnoop::probes
