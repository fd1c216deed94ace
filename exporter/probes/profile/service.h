// Profiles of a running exporter: one at a time, on a thread of its own, and one all the time.
//
// `gpusnoop_exporter profile` (run.h) finds its processes as traces do
// (probes/frame/trace/target_tracer.h), but its BPF program counts stacks in a table (tables.h)
// instead of sending records. Each second, probe.h has new stacks named (stacks.h) while their
// processes run; at the end it reads the table and makes the profile (assemble.h), which profile.h
// writes in several formats. The kernel names its own functions: the probe
// runs a BPF program by bpf_prog_test_run, which prints them, so no privilege to read the kernel's
// addresses is needed. symbols/stacks/flame_graph.h draws stacks, and symbols/stacks/perf_map.h
// names code that programs generate. Frames of Python are walked in the kernel too
// (bpf/profile/python.bpf.h), where python/processes.h stores the places at which the interpreter
// keeps them; probes/frame/python/stacks.h puts them among the native frames.
//
// /api/v1/profile does the same in the running exporter, on its own thread and with its own
// programs and tables, except for three of the probe `cuda`: its table of GPU processes with its
// filter, and the open calls of threads. Its route has no handler but a `begin` (http/route.h): a
// worker starts the profile and goes on, and the profile's thread sends the response through a
// worker (http/route.h). Meanwhile it watches the client's socket. The continuous profile has its
// own thread too, because it looks up functions. Every 10 seconds, the program in the
// kernel starts a new generation of the table, and the stacks of the last one move to the exporter
// (stacks.h).
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
#include "exporter/probes/frame/api/list_page.h"
#include "exporter/probes/frame/probe.h"
#include "exporter/probes/frame/processes/traced_processes.h"
#include "exporter/probes/profile/probe.h"
#include "exporter/probes/profile/profile.h"
#include "exporter/probes/profile/query.h"

namespace gpusnoop::probes {

// The profile of the CPU that a running exporter takes all the time, if the configuration says so.
// For any thread; has one of its own, which looks up functions.
class ProfileRecorder {
public:
    // `traced` is for this alone. If the kernel refuses, health() has the reason, as of a probe
    // that is down.
    static Result<std::unique_ptr<ProfileRecorder>> start(const config::Config &config,
                                                          const TracedProcessesPtr &traced);
    ~ProfileRecorder();
    ProfileRecorder(const ProfileRecorder &) = delete;
    ProfileRecorder &operator=(const ProfileRecorder &) = delete;

    // So much of the past and up to a slice more, if there is so much. The limit is for looking up
    // functions.
    [[nodiscard]] Result<Profile> past(std::chrono::nanoseconds duration,
                                       const ProfileFilter &filter, const WorkLimit &limit);
    [[nodiscard]] Health health() const;

    static constexpr std::chrono::seconds slice{10};
    // The most text of frames that it keeps.
    static constexpr std::size_t max_bytes = std::size_t{32} << 20U;

private:
    ProfileRecorder(const config::Config &config, ProfilerAndProbe made, Fd stopping);
    void run(const std::stop_token &stop);

    const std::chrono::milliseconds interval_;
    const std::chrono::nanoseconds keep_;
    const Fd stopping_;  // readable: stop
    std::mutex mutex_;   // guards the next two, but for health()
    const std::unique_ptr<Probe> probe_;
    Profiler *const profiler_;
    std::jthread thread_;
};

// For any thread.
class ProfileService {
public:
    struct Client {
        int socket = -1;  // the profile ends when the client has gone away; -1: never
        // Called once, by another thread; not at all if the client has gone away. The code of an
        // error: ESRCH if the process that was asked for is not followed.
        std::function<void(Result<ApiResponse>)> answer;
    };

    // `exporters` are the processes that the exporter's probes trace: its table of GPU processes
    // and its threads' CUDA calls are used. The probes must have been started, and must outlive
    // this.
    static Result<std::unique_ptr<ProfileService>> make(const config::Config &config,
                                                        TracedProcessesPtr exporters);
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
    ProfileService(const config::Config &config, TracedProcessesPtr exporters, Fd stopping)
        : config_(config), exporters_(std::move(exporters)), stopping_(std::move(stopping)) {}

    void run(const ProfileQuery &query, const Client &client, const std::stop_token &stop);
    void answer(const ProfileQuery &query, const Client &client, const std::stop_token &stop);
    [[nodiscard]] Result<Profile> take(const ProfileQuery &query, int client,
                                       const std::stop_token &stop);
    void end_by(std::chrono::steady_clock::time_point latest);
    [[nodiscard]] Result<TracedProcessesPtr> make_traced() const;

    const config::Config &config_;
    const TracedProcessesPtr exporters_;
    std::unique_ptr<ProfileRecorder> recorder_;  // null: the configuration has none
    const Fd stopping_;                          // readable: stop
    std::mutex mutex_;                           // guards the members below
    bool is_stopped_ = false;
    bool is_busy_ = false;
    std::chrono::steady_clock::time_point ends_;  // at the latest
    std::jthread thread_;
};

}  // namespace gpusnoop::probes
