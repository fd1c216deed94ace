#include "exporter/http/admission.h"

#include <algorithm>

namespace gpusnoop::http {

Admission::Decision Admission::admit(const std::shared_ptr<Exchange> &exchange) {
    auto job = std::make_shared<Job>();
    job->key = policy_.share ? policy_.share(exchange->request) : "";
    job->first = exchange;
    job->exchanges.push_back(exchange);
    const std::lock_guard lock(mutex_);
    if (const auto shared = policy_.share ? find(job->key) : nullptr) {
        if (shared->exchanges.size() >= policy_.max_sharing) {
            return {.to_run = nullptr, .is_refused = true};
        }
        shared->exchanges.push_back(exchange);
        return {};
    }
    if (running_.size() < policy_.max_running) {
        running_.push_back(job);
        return {.to_run = std::move(job)};
    }
    if (waiting_.size() >= policy_.max_waiting) {
        return {.to_run = nullptr, .is_refused = true};
    }
    waiting_.push_back(std::move(job));
    return {};
}

// A job whose response requests with this key share. Null: there is no such job yet.
std::shared_ptr<Admission::Job> Admission::find(const std::string &key) const {
    const auto find_in = [&](const auto &jobs) {
        const auto found = std::ranges::find_if(
            jobs, [&](const auto &job) { return !job->is_closed && job->key == key; });
        return found == jobs.end() ? nullptr : *found;
    };
    auto job = find_in(running_);
    return job != nullptr ? job : find_in(waiting_);
}

std::vector<std::shared_ptr<Exchange>> Admission::close(Job &job) {
    const std::lock_guard lock(mutex_);
    job.is_closed = true;
    return std::exchange(job.exchanges, {});
}

std::shared_ptr<Admission::Job> Admission::next(const std::shared_ptr<Job> &done) {
    const std::lock_guard lock(mutex_);
    const auto place = std::ranges::find(running_, done);
    if (waiting_.empty()) {
        running_.erase(place);
        return nullptr;
    }
    *place = std::move(waiting_.front());
    waiting_.pop_front();
    return *place;
}

}  // namespace gpusnoop::http
