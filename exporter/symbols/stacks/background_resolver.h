// A thread that answers questions about processes, off the path of the events. Users and processes
// take turns.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "exporter/base/fair_queue.h"
#include "exporter/base/work_limit.h"
#include "exporter/processes/user_shares.h"

namespace gpusnoop::symbols {

template <typename Question, typename Answer>
class BackgroundResolver {
public:
    using Deadline = std::optional<std::chrono::steady_clock::time_point>;
    struct Settings {
        std::size_t max_waiting;  // questions
        std::size_t max_batch;
        std::chrono::steady_clock::duration longest_turn;
    };
    // Both run in the thread. `answer` gets questions of one process. It answers as many as the
    // limit allows, at least one, calls the given function for each answer, and returns how many
    // questions it has answered.
    using AnswerBatch =
        std::function<std::size_t(const std::vector<Question> &batch, const WorkLimit &limit,
                                  const std::function<void(Answer)> &)>;
    // Does periodic work; returns the time of its next run if no question comes before.
    using Tidy = std::function<Deadline()>;

    BackgroundResolver(Settings settings, AnswerBatch answer, Tidy tidy)
        : settings_(settings),
          questions_(settings.max_waiting),
          answer_(std::move(answer)),
          tidy_(std::move(tidy)),
          thread_([this](const std::stop_token &stop) { run(stop); }) {}

    // If too many questions wait, returns one that will not be answered: this one, or one of a user
    // or a process with more of them. Neither call waits for an answer.
    [[nodiscard]] std::optional<Question> ask(std::uint32_t tgid, Question question) {
        const std::lock_guard lock(mutex_);
        if (questions_.empty() || users_.size() >= settings_.max_waiting) {
            users_.clear();
        }
        const auto [user, is_new] = users_.try_emplace(tgid, nobody);
        if (is_new) {
            user->second = processes::sharing_user_of(tgid).value_or(nobody);
        }
        auto refused = questions_.push({user->second, tgid}, std::move(question));
        work_.notify_one();
        return refused;
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
            typename FairQueue<Question>::Turn turn;
            {
                std::unique_lock lock(mutex_);
                const auto asked = [this] { return !questions_.empty(); };
                if (tidy_at) {
                    work_.wait_until(lock, stop, *tidy_at, asked);
                } else {
                    work_.wait(lock, stop, asked);
                }
                turn = questions_.take(settings_.max_batch);
            }
            if (!turn.items.empty()) {
                answer(stop, turn, post_one);
            }
            tidy_at = tidy_();
        }
    }

    void answer(const std::stop_token &stop, typename FairQueue<Question>::Turn &turn,
                const std::function<void(Answer)> &post_one) {
        const auto began = std::chrono::steady_clock::now();
        const std::size_t answered =
            answer_(turn.items, {stop, began + settings_.longest_turn}, post_one);
        turn.items.erase(turn.items.begin(),
                         turn.items.begin() + static_cast<std::ptrdiff_t>(answered));
        const auto spent = std::chrono::steady_clock::now() - began;
        const std::lock_guard lock(mutex_);
        questions_.end_turn(turn.owner, spent, std::move(turn.items));
    }

    // A process that has ended.
    static constexpr std::uint32_t nobody = ~std::uint32_t{0};

    Settings settings_;
    FairQueue<Question> questions_;
    std::unordered_map<std::uint32_t, std::uint32_t> users_;  // of processes that ask
    AnswerBatch answer_;
    Tidy tidy_;
    std::mutex mutex_;
    std::condition_variable_any work_;
    std::vector<Answer> answers_;
    std::jthread thread_;  // the last member: it ends before the members that it uses
};

}  // namespace gpusnoop::symbols
