// Applies a policy: which requests run, which wait, which share a response, and which are refused.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "exporter/http/access.h"
#include "exporter/http/connection.h"
#include "exporter/http/route.h"

namespace gpusnoop::http {

// A request until its response is sent.
struct Exchange {
    std::unique_ptr<Connection> connection{};
    Request request{};
    std::string authorization{};  // that header, empty if there is none
    std::shared_ptr<const AccessRules> rules{};
};

// For any thread. A waiting request has no thread: the thread that finishes one asks for the next.
class Admission {
public:
    // Exchanges that share one response.
    struct Job {
        std::shared_ptr<Exchange> first;  // the one that is run
        std::string key;
        std::vector<std::shared_ptr<Exchange>> exchanges;  // including the first
        bool is_closed = false;
    };
    struct Decision {
        std::shared_ptr<Job> to_run;  // by the caller; null: it waits, shares, or is refused
        bool is_refused = false;
    };

    explicit Admission(Policy policy) : policy_(std::move(policy)) {}

    [[nodiscard]] Decision admit(const std::shared_ptr<Exchange> &exchange);

    // All exchanges that share the job's response, which is ready. No other can join it from now
    // on.
    [[nodiscard]] std::vector<std::shared_ptr<Exchange>> close(Job &job);

    // Ends the job. Returns the job that has waited longest, to be run next; null: no job waits.
    [[nodiscard]] std::shared_ptr<Job> next(const std::shared_ptr<Job> &done);

private:
    [[nodiscard]] std::shared_ptr<Job> find(const std::string &key) const;

    const Policy policy_;
    std::mutex mutex_;
    std::vector<std::shared_ptr<Job>> running_;
    std::deque<std::shared_ptr<Job>> waiting_;
};

}  // namespace gpusnoop::http
