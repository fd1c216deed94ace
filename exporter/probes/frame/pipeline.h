// The one thread that aggregates: it drains the probes and answers for their state.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <memory>
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

// Owns the aggregation of all probes. Everybody else sees snapshots.
class Pipeline {
public:
    // The probes must outlive the pipeline. `after_round` is called by its thread each time it has
    // drained the probes and answered: one that stops being called is a pipeline that is stuck.
    Pipeline(std::vector<Probe *> probes, std::chrono::milliseconds drain_interval,
             std::function<void()> after_round = {});

    // The state now: what was in the rings when this was called is in it. For any thread. Waits for
    // the copying of the numbers only; fails when the pipeline does not answer in time.
    Result<Snapshot> snapshot(std::chrono::milliseconds patience = std::chrono::seconds(5));

    // The documents of that name, as of now in the same way. Those who ask at the same time may get
    // what others asked for as well.
    Result<std::vector<ApiResource>> documents(
        std::string_view name, std::chrono::milliseconds patience = std::chrono::seconds(5));

    // What is looked for first, as of now in the same way.
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
    using Names = std::set<std::string, std::less<>>;
    [[nodiscard]] std::vector<ApiResource> take_documents(const Names &names) const;

    std::vector<Probe *> probes_;
    std::chrono::milliseconds drain_interval_;
    std::function<void()> after_round_;
    std::mutex mutex_;
    std::condition_variable_any wake_;
    Waiting<Snapshot> waiting_for_snapshot_;
    Waiting<std::vector<ApiResource>> waiting_for_documents_;
    Waiting<Overview> waiting_for_overview_;
    Names document_names_;  // that they wait for
    std::jthread thread_;
};

}  // namespace gpusnoop::probes
