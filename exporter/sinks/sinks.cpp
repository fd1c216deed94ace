#include "exporter/sinks/sinks.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "exporter/base/log.h"

namespace gpusnoop::sinks {

bool LineQueue::push(std::string_view line) {
    bool was_empty = false;
    {
        const std::lock_guard lock(mutex_);
        if (taken_ + waiting_.size() + line.size() + 1 > max_bytes_) {
            return false;
        }
        was_empty = waiting_.empty();
        waiting_ += line;
        waiting_ += '\n';
    }
    if (was_empty) {
        wake();
    }
    return true;
}

std::string LineQueue::take() {
    const std::lock_guard lock(mutex_);
    std::string taken = std::exchange(waiting_, {});
    taken_ += taken.size();
    return taken;
}

void LineQueue::done(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    taken_ -= bytes;
}

std::size_t LineQueue::bytes() const {
    const std::lock_guard lock(mutex_);
    return taken_ + waiting_.size();
}

// Failures are harmless: a write fails only if the eventfd is readable already, a read only if it
// was cleared.
void LineQueue::wake() const {
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof(one));
}

void LineQueue::clear() const {
    std::uint64_t count = 0;
    (void)!::read(wake_.get(), &count, sizeof(count));
}

namespace {

using namespace std::chrono_literals;

constexpr auto patience_at_end = 1s;
constexpr auto between_complaints = 60s;
// How often an idle file is checked.
constexpr auto longest_wait = 60s;

std::uint64_t count_lines(std::string_view bytes) {
    return static_cast<std::uint64_t>(std::count(bytes.begin(), bytes.end(), '\n'));
}

// Writing to a fifo without a reader must return an error, not end the program.
void block_sigpipe() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

}  // namespace

Result<std::unique_ptr<Sink>> Sink::start(Settings settings) {
    Fd wake(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    Fd stop(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!wake || !stop) {
        return fail_errno("make an eventfd");
    }
    return std::unique_ptr<Sink>(new Sink(std::move(settings), std::move(wake), std::move(stop)));
}

Sink::Sink(Settings settings, Fd wake, Fd to_stop)
    : settings_(std::move(settings)),
      stop_(std::move(to_stop)),
      queue_(settings_.queue_bytes, std::move(wake)),
      thread_([this](const std::stop_token &stop) { run(stop); }) {}

Sink::~Sink() {
    thread_.request_stop();
    (void)::eventfd_write(stop_.get(), 1);
    queue_.wake();
    thread_.join();
    if (counts_.stopped > 0) {
        log::warn("events not sent before the exporter stopped",
                  {{"sink", settings_.name}, {"events", counts_.stopped.load()}});
    }
}

void Sink::offer(std::string_view line) {
    if (!queue_.push(line)) {
        counts_.full++;
    }
}

Status Sink::status() const {
    return {settings_.name,
            counts_.sent,
            {{"queue_full", counts_.full.load()}, {"stopped", counts_.stopped.load()}}};
}

void Sink::run(const std::stop_token &stop) {
    block_sigpipe();
    while (true) {
        if (stop.stop_requested() && !end_) {
            end_ = Clock::now() + patience_at_end;
            backoff_.until = {};  // one more attempt
        }
        const bool is_idle = batch_.sent == batch_.text.size();
        if (is_idle) {
            queue_.done(batch_.text.size());
            batch_.text = queue_.take();
            batch_.sent = batch_.counted = 0;
        }
        if (end_ && (batch_.text.empty() || Clock::now() >= *end_)) {
            break;
        }
        const auto now = Clock::now();
        if (now < backoff_.until) {
            wait(backoff_.until, false);
        } else if (connection_ && !connection_->is_current(settings_.target)) {
            disconnect({"the receiver disconnected"});
        } else if (connection_ || connect()) {
            if (batch_.text.empty()) {
                wait(now + longest_wait, true);
            } else {
                send();
            }
        }
    }
    counts_.stopped += count_lines(std::string_view(batch_.text).substr(batch_.counted)) +
                       count_lines(queue_.take());
}

bool Sink::connect() {
    auto opened = Connection::open(settings_.target, stop_.get());
    if (!opened) {
        pause(opened.error());
        return false;
    }
    connection_.emplace(std::move(*opened));
    // Where a line was cut short, it goes on in the same file, and begins again elsewhere.
    if (connection_->inode() == 0 || connection_->inode() != file_.inode ||
        connection_->device() != file_.device) {
        rewind();
    }
    file_.inode = connection_->inode();
    file_.device = connection_->device();
    return true;
}

void Sink::send() {
    const auto written = connection_->write(std::string_view(batch_.text).substr(batch_.sent));
    if (!written) {
        const int code = written.error().code;
        if (code == ENOSPC || code == EDQUOT) {
            pause(written.error());
        } else {
            disconnect(written.error());
        }
        return;
    }
    if (*written == 0) {
        wait(Clock::now() + longest_wait, true);
        return;
    }
    batch_.sent += *written;
    const std::size_t whole = batch_.text.rfind('\n', batch_.sent - 1) + 1;  // npos + 1 is 0
    if (whole > batch_.counted) {
        counts_.sent += count_lines(
            std::string_view(batch_.text).substr(batch_.counted, whole - batch_.counted));
        batch_.counted = whole;
    }
    backoff_.pause = 0ms;
    if (backoff_.logged) {
        backoff_.logged.reset();
        constexpr std::string_view line = "sink available again";
        if (const auto more = lines_.due(line)) {
            log::info(line, {{"sink", settings_.name}, {"more_since_last_line", *more}});
        }
    }
}

void Sink::disconnect(const Error &why) {
    connection_.reset();
    if (settings_.target.type == TargetType::file && why.code == 0) {
        return;  // moved or deleted: another file has its name or will be created
    }
    pause(why);
}

// Retries failures later, and logs the first and then only some of them.
void Sink::pause(const Error &why) {
    const auto now = Clock::now();
    backoff_.pause = std::clamp(backoff_.pause * 2, settings_.first_pause, settings_.longest_pause);
    backoff_.until = now + backoff_.pause;
    if (!backoff_.logged || now - *backoff_.logged >= between_complaints) {
        backoff_.logged = now;
        constexpr std::string_view line =
            "sink unavailable: buffering events until its queue is full";
        if (const auto more = lines_.due(line)) {
            log::warn(line, {{"sink", settings_.name},
                             {"reason", why.message},
                             {"more_since_last_line", *more}});
        }
    }
}

void Sink::rewind() {
    batch_.sent = batch_.counted;
}

// Waits until there is work, at most until `until`. With `for_receiver`, the receiver that takes
// more or is gone ends the wait, too.
void Sink::wait(Clock::time_point until, bool for_receiver) const {
    until = end_ ? std::min(until, *end_) : until;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    const short of_receiver =
        static_cast<short>((batch_.text.empty() ? 0 : POLLOUT) |
                           (connection_ && connection_->is_socket() ? POLLIN | POLLRDHUP : 0));
    const bool is_watched = for_receiver && connection_;
    std::array<pollfd, 2> events = {
        {{queue_.wake_fd(), POLLIN, 0}, {is_watched ? connection_->fd() : -1, of_receiver, 0}}};
    ::poll(events.data(), events.size(), static_cast<int>(std::clamp<long>(left, 0, 60'000)));
    if (events[0].revents != 0) {
        queue_.clear();
    }
}

Result<> Sinks::start() {
    for (const SinkConfig &config : configs_) {
        auto sink = Sink::start(
            {.name = config.name, .target = config.target, .queue_bytes = config.queue_bytes});
        if (!sink) {
            return fail_in("start the sink " + config.name, sink.error());
        }
        sinks_.push_back(std::move(*sink));
    }
    return {};
}

bool Sinks::want(Events events) const {
    return sinks::want(configs_, events);
}

bool Sinks::want_entries() const {
    return std::ranges::any_of(configs_, &SinkConfig::entries);
}

void Sinks::send(Events events, std::string_view line) const {
    for (std::size_t i = 0; i < sinks_.size(); i++) {
        if (configs_[i].events.contains(events)) {
            sinks_[i]->offer(line);
        }
    }
}

void Sinks::send_entry(std::string_view line) const {
    for (std::size_t i = 0; i < sinks_.size(); i++) {
        if (configs_[i].entries) {
            sinks_[i]->offer(line);
        }
    }
}

std::vector<Status> Sinks::status(std::uint64_t entries_lost) const {
    std::vector<Status> all;
    for (std::size_t i = 0; i < sinks_.size(); i++) {
        all.push_back(sinks_[i]->status());
        if (configs_[i].entries) {
            all.back().lost["ring_full"] = entries_lost;
        }
    }
    return all;
}

}  // namespace gpusnoop::sinks
