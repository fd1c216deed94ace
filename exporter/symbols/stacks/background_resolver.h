// A thread that answers questions in batches, off the path of the events.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <iterator>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

namespace gpusnoop::symbols {

template <typename Question, typename Answer>
class BackgroundResolver {
public:
    using Deadline = std::optional<std::chrono::steady_clock::time_point>;
    struct Settings {
        std::size_t max_waiting;  // questions
        std::size_t max_batch;
    };
    // Both run in the thread. `answer` calls the given function for each answer.
    using AnswerBatch =
        std::function<void(std::vector<Question> batch, const std::function<void(Answer)> &)>;
    // Does periodic work; returns the time of its next run if no question comes before.
    using Tidy = std::function<Deadline()>;

    BackgroundResolver(Settings settings, AnswerBatch answer, Tidy tidy)
        : settings_(settings),
          answer_(std::move(answer)),
          tidy_(std::move(tidy)),
          thread_([this](const std::stop_token &stop) { run(stop); }) {}

    // False if too many questions wait. Neither call waits for an answer.
    [[nodiscard]] bool ask(Question question) {
        const std::lock_guard lock(mutex_);
        if (questions_.size() >= settings_.max_waiting) {
            return false;
        }
        questions_.push_back(std::move(question));
        work_.notify_one();
        return true;
    }
    // For the thread, or for a caller that has an answer itself.
    void post(Answer answer) {
        const std::lock_guard lock(mutex_);
        answers_.push_back(std::move(answer));
    }
    // The answers that are ready.
    [[nodiscard]] std::vector<Answer> answers() {
        const std::lock_guard lock(mutex_);
        return std::exchange(answers_, {});
    }

private:
    void run(const std::stop_token &stop) {
        const std::function<void(Answer)> post_one = [this](Answer answer) {
            post(std::move(answer));
        };
        Deadline tidy_at;
        while (!stop.stop_requested()) {
            std::vector<Question> batch;
            {
                std::unique_lock lock(mutex_);
                const auto asked = [this] { return !questions_.empty(); };
                if (tidy_at) {
                    work_.wait_until(lock, stop, *tidy_at, asked);
                } else {
                    work_.wait(lock, stop, asked);
                }
                const auto size = std::min(questions_.size(), settings_.max_batch);
                const auto end = questions_.begin() + static_cast<std::ptrdiff_t>(size);
                batch.assign(std::make_move_iterator(questions_.begin()),
                             std::make_move_iterator(end));
                questions_.erase(questions_.begin(), end);
            }
            if (!batch.empty()) {
                answer_(std::move(batch), post_one);
            }
            tidy_at = tidy_();
        }
    }

    Settings settings_;
    AnswerBatch answer_;
    Tidy tidy_;
    std::mutex mutex_;
    std::condition_variable_any work_;
    std::deque<Question> questions_;
    std::vector<Answer> answers_;
    std::jthread thread_;  // the last member: it ends before the members that it uses
};

}  // namespace gpusnoop::symbols
