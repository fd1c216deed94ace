// Asks a child process about other processes, and never waits long for one of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/system/foreign_reader.h"

namespace gpusnoop::processes {

// What the kernel says of a process, it often says under a lock of that process: the one of its
// mappings, or the one of its exec. A process can hold these for as long as it likes: it unmaps a
// changed page of a file on a file system that does not answer. So a child process reads, and is
// killed if it waits. The process is then left alone, for longer each time. What processes make the
// child wait is added up for their user, also where they answer in time; over the limit, all
// processes of the user are left alone for a while. Used by one thread.
class ProcessReader {
public:
    using Clock = std::chrono::steady_clock;
    struct Limits {
        Clock::duration patience = std::chrono::milliseconds(100);  // with a process
        Clock::duration of_user = std::chrono::milliseconds(300);   // in `window`
        Clock::duration window = std::chrono::seconds(10);
        Clock::duration first_pause = std::chrono::milliseconds(200);  // doubles each time
        Clock::duration longest_pause = std::chrono::seconds(30);
        // What the caller spends itself on a process, if it is more: it makes hundreds of system
        // calls in that time.
        Clock::duration least_spent = std::chrono::milliseconds(1);
        // A child that has no CPU on a busy machine says nothing of the process that it reads.
        Clock::duration patience_with_cpu = std::chrono::seconds(2);
    };

    ProcessReader() : ProcessReader(Limits()) {}
    explicit ProcessReader(Limits limits) : limits_(limits) {}

    // Runs work() and returns its result, a Result<>: questions about one process. ETIMEDOUT: it
    // does not answer, or it is left alone; try again later.
    template <typename Work>
    auto about(std::uint32_t tgid, const Work &work) -> decltype(work()) {
        if (auto allowed = begin(tgid); !allowed) {
            return tl::unexpected(allowed.error());
        }
        auto result = work();
        end(tgid, !result && result.error().code == ETIMEDOUT);
        return result;
    }

    // For work of about() that asks no child: the caller has spent so much time on the process. It
    // is added up for the user, too. False: the patience with the process is at its end.
    [[nodiscard]] bool spend(Clock::duration time) {
        spent_ += time;
        return spent_ < limits_.patience;
    }

    // The answer has no error. ETIMEDOUT: none came in the time that is left for the process; a
    // question about no process in particular has all of the patience.
    using Question = std::function<Result<>(ForeignReader &)>;
    [[nodiscard]] Result<ForeignReader::Answer> ask(const Question &question);
    // After an answer.
    [[nodiscard]] std::span<const std::byte> buffer() const { return reader_->buffer(); }

    // These ask, for work of about().
    [[nodiscard]] Result<std::string> read_link(std::string_view path);
    // Gives a file of /proc to `use` in pieces, to its end or until that returns false.
    [[nodiscard]] Result<> read_pieces(const std::string &path,
                                       const std::function<bool(std::string_view)> &use);
    // Its first `most` bytes.
    [[nodiscard]] Result<std::string> read_text(const std::string &path, std::size_t most);
    // Whether there is something at the path below a root; ENOENT if not.
    [[nodiscard]] Result<> find(std::string_view root, std::string_view path);

    // The processes that did not answer when they were read last.
    [[nodiscard]] std::size_t left_alone() const { return left_alone_.size(); }
    [[nodiscard]] bool is_left_alone(std::uint32_t tgid) const {
        return left_alone_.contains(tgid);
    }
    void forget_all_but(const std::vector<std::uint32_t> &running);
    // Ends the child if it was idle for so long: it uses memory.
    void rest(Clock::duration unused);

private:
    using User = std::optional<std::uint32_t>;  // none: it is not known, and all such share limits
    struct About {
        User user;
    };
    struct Pause {
        Clock::time_point until;
        Clock::duration length;
    };
    struct Waited {
        Clock::time_point since;
        Clock::duration time{};
    };
    struct Stuck {
        std::unique_ptr<ForeignReader> reader;  // killed, but not gone yet
        User user;
    };

    [[nodiscard]] Result<> begin(std::uint32_t tgid);
    void end(std::uint32_t tgid, bool is_left_alone);
    [[nodiscard]] bool is_over_limit(const User &user);
    [[nodiscard]] Result<> start();
    void kill();

    Limits limits_;
    std::unique_ptr<ForeignReader> reader_;
    std::vector<Stuck> stuck_;
    Clock::time_point used_{};
    Clock::time_point no_start_before_{};
    std::optional<About> about_;                 // the process that questions are about
    Clock::duration waited_{};                   // for it
    Clock::duration spent_{};                    // on it, without waiting
    Clock::duration ran_{};                      // the child, for it
    bool was_asked_ = false;                     // about it
    std::map<std::uint32_t, Pause> left_alone_;  // by process
    std::map<User, Waited> users_;
};

}  // namespace gpusnoop::processes
