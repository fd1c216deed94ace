#include "exporter/ebpf/attach/detacher.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "exporter/ebpf/attach/mapper_locks.h"
#include "exporter/ebpf/handover.h"
#include "exporter/ebpf/nothing.h"

namespace gpusnoop::ebpf {

namespace {

constexpr std::size_t max_threads = 16;
// In this pause, a thread that waits for the kernel's lock can attach to all functions of a
// library.
constexpr std::chrono::milliseconds pause_between_perf_events{30};
// Until a file is looked at again that a process keeps from being detached from.
constexpr std::chrono::milliseconds before_next_look{200};
constexpr std::chrono::milliseconds before_last_look{10};

}  // namespace

Detacher::~Detacher() {
    for (std::jthread &thread : threads_) {
        thread.request_stop();
    }
}

void Detacher::detach(Job job) {
    std::unique_lock lock(mutex_);
    for (Entry &entry : entries_) {  // of a file with other contents, they are waited for, too
        entry.job.is_changed |= job.is_changed && entry.job.file == job.file;
    }
    if (job.probes.is_empty()) {
        lock.unlock();
        if (job.done) {
            job.done();
        }
        return;
    }
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

// An entry that has a link to close, and whose file no thread looks at and no process locks.
Detacher::Entries::iterator Detacher::next() {
    const auto now = Clock::now();
    return std::ranges::find_if(entries_, [&](const Entry &entry) {
        return !entry.job.probes.is_empty() && !entry.is_looked_at && entry.not_before <= now;
    });
}

// An entry to close a link of, if it can be closed now. Unlocks meanwhile.
Detacher::Entries::iterator Detacher::take_next(std::unique_lock<std::mutex> &lock) {
    auto entry = next();
    if (entry == entries_.end()) {
        return entry;
    }
    entry->is_looked_at = true;
    const FileId file = entry->job.file;
    lock.unlock();
    const bool is_locked = !are_links_handed_over() && process_that_locks(file).has_value();
    lock.lock();
    // It may have been taken back.
    entry = std::ranges::find_if(entries_, [&](const Entry &one) {
        return one.is_looked_at && one.job.file == file && !one.job.probes.is_empty();
    });
    if (entry == entries_.end()) {
        return entry;
    }
    entry->is_looked_at = false;
    if (is_locked) {
        entry->not_before = Clock::now() + before_next_look;
        return entries_.end();
    }
    return entry;
}

bool Detacher::is_done() const {
    return std::ranges::all_of(entries_,
                               [](const Entry &entry) { return entry.job.probes.is_empty(); });
}

// The last round, too, runs until no link is left.
void Detacher::work(const std::stop_token &stop) {
    std::unique_lock lock(mutex_);
    const auto has_work = [this] { return next() != entries_.end(); };
    while (true) {
        idle_++;
        if (is_done()) {
            changed_.wait(lock, stop, has_work);
        } else if (stop.stop_requested()) {
            changed_.wait_for(lock, before_last_look, has_work);
        } else {
            // A process may unlock its mappings, which nothing here is told of.
            changed_.wait_for(lock, stop, before_next_look, has_work);
        }
        idle_--;
        if (is_done() && stop.stop_requested()) {
            return;
        }
        const auto entry = take_next(lock);
        if (entry == entries_.end()) {
            continue;
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

namespace {

constexpr const char *name = "gpusnoop_grace_period";

// A kernel may allow only files that cannot be executed (vm.memfd_noexec); Linux < 6.3 does not
// know the flag.
Fd make_file() {
    constexpr unsigned noexec_seal = 8;  // MFD_NOEXEC_SEAL, which old headers lack
    Fd file(::memfd_create(name, MFD_CLOEXEC | noexec_seal));
    if (!file) {
        file = Fd(::memfd_create(name, MFD_CLOEXEC));
    }
    if (file && ::ftruncate(file.get(), ::sysconf(_SC_PAGESIZE)) != 0) {
        file.reset();
    }
    return file;
}

}  // namespace

std::unique_ptr<GracePeriod> GracePeriod::open() {
    auto program = load_nothing(BPF_PROG_TYPE_KPROBE, uprobe_multi_type);
    Fd file = make_file();
    if (!program || !file) {
        return nullptr;
    }
    return std::unique_ptr<GracePeriod>(new GracePeriod(*std::move(program), std::move(file)));
}

GracePeriod::GracePeriod(Fd program, Fd file)
    : program_(std::move(program)),
      file_(std::move(file)),
      thread_([this](const std::stop_token &stop) { run(stop); }) {}

GracePeriod::~GracePeriod() = default;

void GracePeriod::begin() {
    const std::lock_guard lock(mutex_);
    is_wanted_ = true;
    wanted_changed_.notify_one();
}

// Nobody maps the file, so no breakpoint is set anywhere.
void GracePeriod::run(const std::stop_token &stop) {
    for (;;) {
        {
            std::unique_lock lock(mutex_);
            if (!wanted_changed_.wait(lock, stop, [this] { return is_wanted_; })) {
                return;
            }
            is_wanted_ = false;
        }
        if (!link_nothing(program_.get(), uprobe_multi_type, file_.get(), 0)) {
            return;  // not allowed, now or later
        }
    }
}

}  // namespace gpusnoop::ebpf
