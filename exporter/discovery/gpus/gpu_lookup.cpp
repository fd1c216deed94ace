#include "exporter/discovery/gpus/gpu_lookup.h"

#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "exporter/base/log.h"

namespace gpusnoop::discovery {

namespace {

// The most threads that may be blocked forever.
constexpr unsigned most_given_up = 8;

}  // namespace

// State that a thread shares with its owner: either may end first.
struct GpuLookup::Worker {
    std::vector<Gpu> gpus;
    std::mutex mutex;
    std::condition_variable changed;
    bool abandoned = false;
    std::optional<std::uint32_t> question;
    std::promise<VisibleGpus> answer;

    explicit Worker(std::vector<Gpu> of) : gpus(std::move(of)) {}

    static void run(const std::shared_ptr<Worker> &worker) {
        std::unique_lock lock(worker->mutex);
        while (true) {
            worker->changed.wait(lock,
                                 [&] { return worker->abandoned || worker->question.has_value(); });
            if (worker->abandoned) {
                return;
            }
            const std::uint32_t tgid = *worker->question;
            worker->question.reset();
            auto answer = std::move(worker->answer);
            lock.unlock();
            answer.set_value(visible_gpus_of(tgid, worker->gpus));
            lock.lock();
        }
    }
};

GpuLookup::GpuLookup(std::vector<Gpu> gpus) : gpus_(std::move(gpus)) {}

GpuLookup::~GpuLookup() {
    if (worker_ != nullptr) {
        const std::lock_guard lock(worker_->mutex);
        worker_->abandoned = true;
        worker_->changed.notify_one();
    }
}

VisibleGpus GpuLookup::of(std::uint32_t tgid, std::chrono::milliseconds patience) {
    if (gpus_.size() <= 1) {
        return VisibleGpus::of_unknown(gpus_);
    }
    if (worker_ == nullptr) {
        if (given_up_ >= most_given_up) {
            return VisibleGpus::of_unknown(gpus_);
        }
        worker_ = std::make_shared<Worker>(gpus_);
        std::thread([worker = worker_] { Worker::run(worker); }).detach();
    }
    std::future<VisibleGpus> answer;
    {
        const std::lock_guard lock(worker_->mutex);
        worker_->answer = {};
        worker_->question = tgid;
        answer = worker_->answer.get_future();
        worker_->changed.notify_one();
    }
    if (answer.wait_for(patience) == std::future_status::ready) {
        return answer.get();
    }
    log::warn("cannot determine which GPUs a process can use", {{"pid", std::to_string(tgid)}});
    {
        const std::lock_guard lock(worker_->mutex);
        worker_->abandoned = true;
    }
    worker_.reset();
    given_up_++;
    return VisibleGpus::of_unknown(gpus_);
}

}  // namespace gpusnoop::discovery
