// The one thread that aggregates: it drains the probes and answers requests for their state.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/probes/frame/overview.h"
#include "exporter/probes/frame/probe.h"
#include "exporter/series/family.h"

namespace gpusnoop::probes {

struct Snapshot {
    std::vector<series::FamilySnapshot> families;
    std::map<std::string, std::uint64_t> folded;  // by family
};

// Owns the aggregation of all probes. Other threads get snapshots.
class Pipeline {
public:
    // The probes must outlive the pipeline. Its thread calls `after_round` each time it has drained
    // the probes and answered. If these calls stop, the pipeline is stuck. While `is_at_rest` says
    // that no process can make many records, it drains the probes every 100 ms at most.
    Pipeline(
        std::vector<Probe *> probes, std::chrono::milliseconds drain_interval,
        std::function<void()> after_round = {},
        std::function<bool()> is_at_rest = [] { return false; });

    // The rest is over. For any thread.
    void hurry();

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
    [[nodiscard]] Snapshot take();
    [[nodiscard]] Overview take_overview() const;
    void give_back_memory();
    using Names = std::set<std::string, std::less<>>;
    [[nodiscard]] std::vector<ApiPage> take_api_pages(const Names &names);

    std::vector<Probe *> probes_;
    std::chrono::milliseconds drain_interval_;
    std::function<void()> after_round_;
    std::function<bool()> is_at_rest_;
    std::chrono::steady_clock::time_point gave_back_{};
    std::mutex mutex_;
    std::condition_variable_any wake_;
    Waiting<Snapshot> waiting_for_snapshot_;
    Waiting<std::vector<ApiPage>> waiting_for_api_pages_;
    Waiting<Overview> waiting_for_overview_;
    Names api_page_names_;  // of the waiting callers
    bool is_in_hurry_ = false;
    std::jthread thread_;
};

}  // namespace gpusnoop::probes
