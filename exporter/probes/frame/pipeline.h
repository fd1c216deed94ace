// The one thread that aggregates: it drains the probes and answers requests for their state.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/ebpf/maps/wakeups.h"
#include "exporter/probes/frame/overview.h"
#include "exporter/probes/frame/probe.h"
#include "exporter/series/family.h"
#include "exporter/system/sleeper.h"

namespace gpusnoop::probes {

struct Snapshot {
    std::vector<series::FamilySnapshot> families;
    std::map<std::string, std::uint64_t> folded;  // by family
};

// Owns the aggregation of all probes. Other threads get snapshots.
class Pipeline {
public:
    // While `is_now` says that no process uses a traced library, the kernel wakes the pipeline when
    // there is something to drain, ten times a second at most. Else it drains the probes each
    // `longest`, for what they do by time.
    struct Rest {
        std::function<bool()> is_now = [] { return false; };
        std::chrono::milliseconds longest{1000};
    };

    // The probes must have started and outlive the pipeline. Its thread calls `after_round` each
    // time it has drained the probes and answered. If these calls stop, the pipeline is stuck.
    Pipeline(std::vector<Probe *> probes, std::chrono::milliseconds drain_interval,
             std::function<void()> after_round, Rest rest);
    Pipeline(std::vector<Probe *> probes, std::chrono::milliseconds drain_interval,
             std::function<void()> after_round = {})
        : Pipeline(std::move(probes), drain_interval, std::move(after_round), Rest()) {}

    // The rest is over. For any thread.
    void hurry() { sleeper_.wake(); }

    // The state now, with all records that were in the rings before the call. For any thread. Waits
    // only until the numbers are copied; fails when the pipeline does not answer in time.
    Result<Snapshot> snapshot(std::chrono::milliseconds patience = std::chrono::seconds(5));

    // The pages of the API of that name, with the same guarantee. Concurrent callers may also get
    // pages that another caller asked for.
    Result<std::vector<ApiPage>> api_pages(
        std::string_view name, std::chrono::milliseconds patience = std::chrono::seconds(5));

    // The overview, with the same guarantee.
    Result<Overview> overview(std::chrono::milliseconds patience = std::chrono::seconds(5));

private:
    template <typename Answer>
    using Waiting = std::vector<std::promise<Answer>>;

    template <typename Answer>
    Result<Answer> ask(Waiting<Answer> &waiting, std::chrono::milliseconds patience,
                       std::string_view name = {});
    void run(const std::stop_token &stop);
    void set_resting(bool is_resting);
    void sleep();
    [[nodiscard]] Snapshot take();
    [[nodiscard]] Overview take_overview() const;
    void give_back_memory();
    using Names = std::set<std::string, std::less<>>;
    [[nodiscard]] std::vector<ApiPage> take_api_pages(const Names &names);

    std::vector<Probe *> probes_;
    std::chrono::milliseconds drain_interval_;
    std::function<void()> after_round_;
    const Rest rest_;
    std::vector<ebpf::Wakeups> wakeups_;  // of the probes
    bool is_resting_ = false;
    Sleeper sleeper_;
    std::chrono::steady_clock::time_point gave_back_{};
    std::mutex mutex_;  // of the next four
    Waiting<Snapshot> waiting_for_snapshot_;
    Waiting<std::vector<ApiPage>> waiting_for_api_pages_;
    Waiting<Overview> waiting_for_overview_;
    Names api_page_names_;  // of the waiting callers
    std::jthread thread_;
};

}  // namespace gpusnoop::probes
