#include "exporter/ebpf/detacher.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

namespace gpusnoop::ebpf {

namespace {

constexpr std::size_t max_threads = 16;
// In this pause, a thread that waits for the kernel's lock can attach to all functions of a
// library.
constexpr std::chrono::milliseconds pause_between_perf_events{30};

}  // namespace

Detacher::~Detacher() {
    for (std::jthread &thread : threads_) {
        thread.request_stop();
    }
}

void Detacher::detach(Job job) {
    if (job.probes.is_empty()) {
        if (job.done) {
            job.done();
        }
        return;
    }
    std::unique_lock lock(mutex_);
    entries_.push_back({.job = std::move(job)});
    if (!has_thread()) {
        Entry entry = std::move(entries_.back());
        entries_.pop_back();
        lock.unlock();
        entry.job.probes = {};
        if (entry.job.done) {
            entry.job.done();
        }
    }
    changed_.notify_all();
}

// Starts one more thread if that helps. False: there is no thread, because the machine allows no
// more.
bool Detacher::has_thread() {
    const std::size_t most = mode_ == AttachMode::perf ? 1 : max_threads;
    if (idle_ < entries_.size() && threads_.size() < most) {
        try {
            threads_.emplace_back([this](const std::stop_token &stop) { work(stop); });
        } catch (const std::system_error &) {
            return !threads_.empty();
        }
    }
    return true;
}

// An entry that has a link to close.
Detacher::Entries::iterator Detacher::next() {
    return std::ranges::find_if(entries_,
                                [](const Entry &entry) { return !entry.job.probes.is_empty(); });
}

// The last round, too, runs until no link is left.
void Detacher::work(const std::stop_token &stop) {
    std::unique_lock lock(mutex_);
    const auto has_work = [this] { return next() != entries_.end(); };
    while (true) {
        idle_++;
        changed_.wait(lock, stop, has_work);
        idle_--;
        const auto entry = next();
        if (entry == entries_.end()) {
            return;  // only when asked to stop
        }
        Fd link = entry->job.probes.take_link();
        entry->has_begun = true;
        entry->closing++;
        lock.unlock();
        link.reset();
        lock.lock();
        if (entry->closing == 1 && entry->job.probes.is_empty()) {
            if (const auto done = entry->job.done) {
                lock.unlock();
                done();  // before the file may be attached to again
                lock.lock();
            }
        }
        entry->closing--;
        if (entry->closing == 0 && entry->job.probes.is_empty()) {
            entries_.erase(entry);
        }
        if (mode_ == AttachMode::perf) {
            changed_.wait_for(lock, stop, pause_between_perf_events, [] { return false; });
        }
    }
}

// A link of a session or of multi probes holds all functions of the file: once its detaching has
// begun, little or nothing of it is left.
bool Detacher::can_be_taken_back(const Entry &entry) const {
    return !entry.job.is_changed && !entry.job.done &&
           (!entry.has_begun || mode_ == AttachMode::perf);
}

std::optional<UprobeSet> Detacher::take_back(const FileId &file) {
    const std::lock_guard lock(mutex_);
    const auto entry = std::ranges::find_if(
        entries_, [&](const Entry &one) { return one.job.file == file && can_be_taken_back(one); });
    if (entry == entries_.end()) {
        return std::nullopt;
    }
    UprobeSet kept = std::move(entry->job.probes);
    entry->job.probes = {};
    if (entry->closing == 0) {
        entries_.erase(entry);
    }
    return kept;
}

bool Detacher::must_wait_for(const FileId &file) {
    const std::lock_guard lock(mutex_);
    bool must_wait = false;
    for (auto entry = entries_.begin(); entry != entries_.end();) {
        const auto one = entry++;
        // Named groups attach under a new number each time, so they can attach to a function twice.
        const bool is_harmless = one->job.done && !one->job.is_changed;
        if (one->job.file == file && !is_harmless && !can_be_taken_back(*one)) {
            entries_.splice(entries_.begin(), entries_, one);
            must_wait = true;
        }
    }
    return must_wait;
}

}  // namespace gpusnoop::ebpf
