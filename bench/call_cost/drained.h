// Tracing with programs that send records: a thread empties their rings as often as the exporter
// does.
#pragma once

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "bench/call_cost/tracing.h"
#include "exporter/ebpf/attach/uprobe.h"
#include "exporter/ebpf/features.h"
#include "exporter/ebpf/maps/counters.h"
#include "exporter/ebpf/maps/ring.h"

namespace gpusnoop::bench {

inline constexpr std::chrono::milliseconds drain_interval{10};  // the exporter's

// More than any program can call: the budget has its normal cost, but throttles nothing.
inline constexpr std::uint32_t no_throttling = 1'000'000'000;

inline ebpf::Attach attach_as(ebpf::AttachMode mode) {
    using Attach = ebpf::Attach;
    return mode == ebpf::AttachMode::session ? Attach::session
           : mode == ebpf::AttachMode::multi ? Attach::multi
                                             : Attach::perf;
}

// Empties rings until it is destroyed. Stays where it is once started.
class Drain {
public:
    Result<> start(std::initializer_list<int> maps) {
        for (const int map : maps) {
            auto ring = ebpf::Ring::open(map, [](auto) {});
            if (!ring) {
                return tl::unexpected(ring.error());
            }
            rings_.push_back(std::move(*ring));
        }
        thread_ = std::jthread([this](const std::stop_token &stop) {
            while (!stop.stop_requested()) {
                for (const auto &ring : rings_) {
                    ring->drain_to(ring->produced());
                }
                std::this_thread::sleep_for(drain_interval);
            }
        });
        return {};
    }

    [[nodiscard]] bool has_records() const {
        return std::ranges::any_of(rings_, [](const auto &ring) { return ring->produced() > 0; });
    }

private:
    std::vector<std::unique_ptr<ebpf::Ring>> rings_;
    std::jthread thread_;
};

// With a probe of the exporter: its programs and its probes.
template <typename Programs>
class Drained final : public Tracing {
public:
    static Result<std::unique_ptr<Drained>> start(std::unique_ptr<Programs> programs,
                                                  std::initializer_list<int> rings) {
        auto drained = std::make_unique<Drained>();
        drained->programs_ = std::move(programs);
        if (auto started = drained->drain_.start(rings); !started) {
            return tl::unexpected(started.error());
        }
        return drained;
    }

    [[nodiscard]] Programs &programs() { return *programs_; }
    void keep(ebpf::UprobeSet probes) { probes_ = std::move(probes); }

    [[nodiscard]] Result<std::uint64_t> lost() const override {
        const auto account = ebpf::read_account(programs_->account_map());
        if (!account) {
            return tl::unexpected(account.error());
        }
        if (account->events == 0) {
            return fail("our programs saw no call");
        }
        return std::accumulate(std::begin(account->lost), std::end(account->lost),
                               std::uint64_t{0});
    }

private:
    std::unique_ptr<Programs> programs_;
    Drain drain_;
    ebpf::UprobeSet probes_;
};

}  // namespace gpusnoop::bench
