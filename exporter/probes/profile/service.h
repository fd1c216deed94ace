// Profiles of a running exporter: one at a time, on a thread of its own, and one all the time.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"
#include "exporter/config/config.h"
#include "exporter/probes/frame/api_resource.h"
#include "exporter/probes/frame/target_processes.h"
#include "exporter/probes/profile/query.h"
#include "exporter/probes/profile/recorder.h"

namespace gpusnoop::probes {

// For any thread.
class ProfileService {
public:
    struct Client {
        int socket = -1;  // the profile ends when the client has gone away; -1: never
        // Called once, by another thread; not at all if the client has gone away. The code of an
        // error: ESRCH if the process that was asked for is not followed.
        std::function<void(Result<ApiResponse>)> answer;
    };

    // `exporters` are the targets of the exporter's probes: its table of GPU processes and its
    // threads' CUDA calls are used. The probes must have been started, and must outlive this.
    static Result<std::unique_ptr<ProfileService>> make(const config::Config &config,
                                                        TargetProcessesPtr exporters);
    ~ProfileService() { stop(); }
    ProfileService(const ProfileService &) = delete;
    ProfileService &operator=(const ProfileService &) = delete;

    // Begins a profile and returns. Code EBUSY: another one is being taken; the message says how
    // long it takes.
    Result<> begin(ProfileQuery query, Client client);

    // Of the profile that is taken all the time; nothing if the configuration has none.
    [[nodiscard]] std::optional<Health> recorder_health() const {
        return recorder_ ? std::optional(recorder_->health()) : std::nullopt;
    }

    // Ends a profile without an answer. No other begins.
    void stop();

    // The most text of frames in an answer: of the heaviest stacks.
    static constexpr std::size_t max_bytes = std::size_t{32} << 20U;

private:
    ProfileService(const config::Config &config, TargetProcessesPtr exporters, Fd stopping)
        : config_(config), exporters_(std::move(exporters)), stopping_(std::move(stopping)) {}

    void run(const ProfileQuery &query, const Client &client, const std::stop_token &stop);
    void answer(const ProfileQuery &query, const Client &client, const std::stop_token &stop);
    [[nodiscard]] Result<Profile> take(const ProfileQuery &query, int client,
                                       const std::stop_token &stop);
    void end_by(std::chrono::steady_clock::time_point latest);
    [[nodiscard]] Result<TargetProcessesPtr> make_targets() const;

    const config::Config &config_;
    const TargetProcessesPtr exporters_;
    std::unique_ptr<ProfileRecorder> recorder_;  // null: the configuration has none
    const Fd stopping_;                          // readable: stop
    std::mutex mutex_;                           // guards the members below
    bool is_stopped_ = false;
    bool is_busy_ = false;
    std::chrono::steady_clock::time_point ends_;  // at the latest
    std::jthread thread_;
};

}  // namespace gpusnoop::probes
