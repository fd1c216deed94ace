#include "exporter/probes/pipeline.h"

#include <utility>

namespace gpusnoop::probes {

Pipeline::Pipeline(std::vector<Probe *> probes, std::chrono::milliseconds drain_interval)
    : probes_(std::move(probes)),
      drain_interval_(drain_interval),
      thread_([this](const std::stop_token &stop) { run(stop); }) {}

Result<Snapshot> Pipeline::snapshot(std::chrono::milliseconds patience) {
    std::future<Snapshot> answer;
    {
        const std::lock_guard lock(mutex_);
        answer = waiting_.emplace_back().get_future();
    }
    wake_.notify_one();
    if (answer.wait_for(patience) != std::future_status::ready) {
        return fail("the aggregation did not answer in time");
    }
    try {
        return answer.get();
    } catch (const std::future_error &) {
        return fail("the exporter is stopping");
    }
}

Snapshot Pipeline::take() {
    Snapshot snapshot;
    for (Probe *probe : probes_) {
        auto families = probe->report();
        snapshot.families.insert(snapshot.families.end(), std::make_move_iterator(families.begin()),
                                 std::make_move_iterator(families.end()));
        snapshot.folded.merge(probe->folded());
    }
    return snapshot;
}

void Pipeline::run(const std::stop_token &stop) {
    while (!stop.stop_requested()) {
        std::vector<std::promise<Snapshot>> waiting;
        {
            std::unique_lock lock(mutex_);
            wake_.wait_for(lock, stop, drain_interval_, [&] { return !waiting_.empty(); });
            waiting.swap(waiting_);
        }
        for (Probe *probe : probes_) {
            probe->drain();
        }
        if (!waiting.empty()) {
            const Snapshot snapshot = take();
            for (auto &one : waiting) {
                one.set_value(snapshot);
            }
        }
    }
}

}  // namespace gpusnoop::probes
