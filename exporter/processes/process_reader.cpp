#include "exporter/processes/process_reader.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "exporter/processes/proc.h"
#include "exporter/processes/user_shares.h"

namespace gpusnoop::processes {

namespace {

using std::chrono::nanoseconds;

// Children that were killed and do not end: they wait for a page of a file, in a way that no signal
// ends. Some are in reserve for other users.
constexpr std::ptrdiff_t most_stuck_of_user = 2;
constexpr std::size_t most_stuck = 16;

// A shorter time may be one that the child has run: the kernel adds that up at its ticks.
constexpr std::chrono::milliseconds least_charged{10};

// Before another child is started, if the last one was not ready in time.
constexpr std::chrono::seconds pause_after_start{2};

// For an answer, before the child's state is looked at again.
constexpr std::chrono::milliseconds shortest_wait{5};

// More are kept while their pauses last.
constexpr std::size_t many_left_alone = 256;

std::string_view text_of(std::span<const std::byte> buffer, const ForeignReader::Answer &answer) {
    return {reinterpret_cast<const char *>(buffer.data()), answer.number};
}

}  // namespace

Result<> ProcessReader::begin(std::uint32_t tgid) {
    waited_ = {};
    spent_ = {};
    ran_ = {};
    was_asked_ = false;
    const auto now = Clock::now();
    const auto left = left_alone_.find(tgid);
    if (left != left_alone_.end() && now < left->second.until) {
        return fail("it does not answer, and is left alone for now", ETIMEDOUT);
    }
    std::erase_if(stuck_, [](const Stuck &stuck) { return stuck.reader->end(); });
    // Before the question: the process may end while a child waits for it.
    const User user = sharing_user_of(tgid);
    if (is_over_limit(user)) {
        return fail("processes of its user do not answer, and are left alone for now", ETIMEDOUT);
    }
    about_ = About{user};
    return {};
}

void ProcessReader::end(std::uint32_t tgid, bool is_left_alone) {
    const User user = std::exchange(about_, std::nullopt).value_or(About()).user;
    const auto now = Clock::now();
    const Clock::duration charged =
        (waited_ >= least_charged ? waited_ : Clock::duration::zero()) +
        (ran_ >= least_charged ? ran_ : Clock::duration::zero()) +
        (spent_ >= limits_.least_spent ? spent_ : Clock::duration::zero());
    if (charged > Clock::duration::zero()) {
        users_.try_emplace(user, Waited{.since = now}).first->second.time += charged;
    }
    if (!was_asked_) {
        return;  // there was no child to ask
    }
    if (!is_left_alone) {
        left_alone_.erase(tgid);
        return;
    }
    if (left_alone_.size() >= many_left_alone) {
        std::erase_if(left_alone_, [now](const auto &left) { return now >= left.second.until; });
    }
    const auto [left, is_new] = left_alone_.try_emplace(tgid);
    left->second.length =
        is_new ? limits_.first_pause : std::min(2 * left->second.length, limits_.longest_pause);
    left->second.until = now + left->second.length;
}

bool ProcessReader::is_over_limit(const User &user) {
    if (std::ranges::count(stuck_, user, &Stuck::user) >= most_stuck_of_user) {
        return true;
    }
    const auto now = Clock::now();
    std::erase_if(users_,
                  [&](const auto &known) { return now - known.second.since >= limits_.window; });
    const auto waited = users_.find(user);
    return waited != users_.end() && waited->second.time >= limits_.of_user;
}

Result<> ProcessReader::start() {
    std::erase_if(stuck_, [](const Stuck &stuck) { return stuck.reader->end(); });
    if (reader_) {
        return {};
    }
    if (stuck_.size() >= most_stuck) {
        return fail("too many processes that read do not end", ETIMEDOUT);
    }
    const auto now = Clock::now();
    if (now < no_start_before_) {
        return fail("the process that reads could not be started just now", ETIMEDOUT);
    }
    // On a machine without CPU time for it, each try would wait.
    auto reader = ForeignReader::start(
        std::chrono::ceil<std::chrono::milliseconds>(limits_.patience_with_cpu));
    if (!reader) {
        no_start_before_ = now + pause_after_start;
        return tl::unexpected(reader.error());
    }
    reader_ = *std::move(reader);
    return {};
}

void ProcessReader::kill() {
    if (!reader_->end()) {
        stuck_.push_back({std::move(reader_), about_.value_or(About()).user});
    }
    reader_.reset();
}

Result<ForeignReader::Answer> ProcessReader::ask(const Question &question) {
    using std::chrono::milliseconds;
    if (auto started = start(); !started) {
        return tl::unexpected(started.error());
    }
    if (!about_) {
        waited_ = {};
        ran_ = {};
    }
    if (ran_ >= limits_.patience) {
        return fail("it takes too long to read", ETIMEDOUT);
    }
    const auto child = static_cast<std::uint32_t>(reader_->pid());
    const nanoseconds unblocked = time_unblocked_of(child);
    used_ = Clock::now();
    if (auto asked = question(*reader_); !asked) {
        reader_.reset();
        return tl::unexpected(asked.error());
    }
    const auto blocked_of = [&](nanoseconds passed) {
        return std::max(passed - (time_unblocked_of(child) - unblocked), nanoseconds(0));
    };
    nanoseconds blocked{};
    std::optional<ForeignReader::Answer> answer;
    do {
        answer = reader_->wait(std::max(
            std::chrono::ceil<milliseconds>(limits_.patience - waited_ - blocked), shortest_wait));
        const auto passed = Clock::now() - used_;
        // The kernel adds a wait for a CPU up when it is over.
        if (answer || !is_runnable(child)) {
            blocked = blocked_of(answer ? answer->took : passed);
        }
        if (passed >= limits_.patience_with_cpu) {
            break;
        }
    } while (!answer && waited_ + blocked < limits_.patience);
    waited_ += blocked;
    ran_ += answer ? answer->ran : nanoseconds(0);
    was_asked_ = true;
    if (!answer) {
        kill();
        return fail("a process does not answer", ETIMEDOUT);
    }
    if (answer->error == EPIPE) {
        reader_.reset();
    }
    return answer->error == 0 ? Result<ForeignReader::Answer>(*std::move(answer))
                              : fail_errno("read of a process", answer->error);
}

Result<> ProcessReader::read_pieces(const std::string &path,
                                    const std::function<bool(std::string_view)> &use) {
    auto answer = ask([&](ForeignReader &reader) { return reader.open_proc(path); });
    while (answer) {
        answer = ask([](ForeignReader &reader) { return reader.read_on(); });
        if (!answer || answer->number == 0 || !use(text_of(buffer(), *answer))) {
            break;
        }
    }
    if (reader_) {
        (void)ask([](ForeignReader &reader) { return reader.close(); });
    }
    return answer ? Result<>() : tl::unexpected(answer.error());
}

Result<std::string> ProcessReader::read_text(const std::string &path, std::size_t most) {
    std::string text;
    auto read = read_pieces(path, [&](std::string_view piece) {
        text += piece.substr(0, most - text.size());
        return text.size() < most;
    });
    return read ? Result<std::string>(std::move(text)) : tl::unexpected(read.error());
}

Result<> ProcessReader::find(std::string_view root, std::string_view path) {
    const auto answer = ask([&](ForeignReader &reader) { return reader.find(root, path); });
    return answer ? Result<>() : tl::unexpected(answer.error());
}

Result<std::string> ProcessReader::read_link(std::string_view path) {
    const auto answer = ask([&](ForeignReader &reader) { return reader.read_link(path); });
    return answer ? Result<std::string>(text_of(buffer(), *answer))
                  : tl::unexpected(answer.error());
}

void ProcessReader::forget_all_but(const std::vector<std::uint32_t> &running) {
    std::erase_if(left_alone_, [&](const auto &left) {
        return std::ranges::find(running, left.first) == running.end();
    });
}

void ProcessReader::rest(Clock::duration unused) {
    std::erase_if(stuck_, [](const Stuck &stuck) { return stuck.reader->end(); });
    if (reader_ && Clock::now() - used_ >= unused) {
        reader_.reset();
    }
}

}  // namespace gpusnoop::processes
