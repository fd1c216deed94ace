// The program: builds the stages in the order of the data and takes them down in reverse.
//
// Its threads, and what each owns:
//
//   main: start, signals, end, and a reload on SIGHUP.
//   discovery: reads mapping events, attaches, changes attachments. Owns the attachments and the
//     configured functions.
//   grace period (ebpf/attach/detacher.h): attaches a uprobe that does nothing, so that the
//     kernel waits ahead. Owns a file that is never executed.
//   start of the probe `functions` (start_probes() in probes/frame/registry.h), beside the others:
//     loads and attaches its programs, then ends.
//   calibration (ebpf/calibration.h), at startup and when the machine is less busy: attaches to
//     functions of the exporter, calls them, detaches.
//   detachers (ebpf/attach/detacher.h): up to 16 for `cuda` and `functions` each, one in the mode
//     perf. They close links, which detaches.
//   one per probe at the stop (end_probes() in probes/frame/registry.h): detaches it.
//   governor (probes/cuda/governor/), with cuda.max_overhead: reads what probes cost each process,
//     attaches and detaches its launches. Owns the links of launches, with discovery.
//   governor of named functions (probes/functions/limit/), with cuda.max_overhead: detaches those
//     that cost a process too much, and attaches them again. Owns their links, with discovery.
//   pipeline (probes/frame/pipeline.h): drains the rings and aggregates, with priority
//     (system/priority.h). Owns all counters and live allocations.
//   resolvers (symbols/stacks/background_resolver.h): open executables, name kernels and stacks.
//   hanging calls (probes/in_flight/watch.h): reads where their threads are, for the log.
//   sinks (sinks/sinks.h), one thread each: write events to a file or socket.
//   server, one thread: waits for clients. Owns all connections that wait.
//   workers (http/workers.h), 10: answer requests, compress pages, do TLS handshakes, and reload on
//     POST, one at a time. Each owns the connection that it serves.
//   profiles (probes/profile/service.h): one while somebody asks for a profile, and one for the
//     continuous profile. Each owns its programs, links and tables, the second also past profiles.
//
// Besides these there are up to a dozen child processes that open files of other processes and read
// their memory; each ends after 10 s without work. One more has those files open that the exporter
// has open, and closes them last (system/file_keeper.h).
//
// The threads share fifteen things, each with a lock: the attachments; each probe's queue of links
// to detach; the numbers of named functions; each resolver's questions and answers; each sink's
// queue; the pipeline's queue of snapshots; discovery's queue of changes; the request for an early
// grace period; whether a profile runs; past profiles; the measured costs of probes; the links of
// launches; the links of named functions; the governors' data of each process; the tables of what
// probes cost processes; the stacks of hanging calls. Of the locks, only that of reloads and those
// of links are held while the kernel attaches, and the first also while it detaches.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/base/single_flight.h"
#include "exporter/config/config.h"
#include "exporter/discovery/discovery.h"
#include "exporter/ebpf/calibration.h"
#include "exporter/ebpf/features.h"
#include "exporter/http/route.h"
#include "exporter/http/server.h"
#include "exporter/metrics/self.h"
#include "exporter/metrics/text.h"
#include "exporter/probes/frame/api/list_page.h"
#include "exporter/probes/frame/pipeline.h"
#include "exporter/probes/frame/probe.h"
#include "exporter/probes/frame/processes/traced_processes.h"
#include "exporter/probes/profile/service.h"
#include "exporter/sinks/sinks.h"
#include "exporter/status/status_page.h"
#include "exporter/system/notify.h"

namespace gpusnoop {

// Reads the configuration again, for SIGHUP and for POST /-/reload.

// For any thread.
class Reloads {
public:
    // All are called on the thread that reads, one after the other.
    struct Use {
        std::function<void()> begin;
        std::function<Result<config::Config>()> read;
        std::function<void(const config::Config &)> apply;  // not for an invalid configuration
        std::function<void(const Result<> &)> end;
    };
    // The start counts as a successful load.
    explicit Reloads(Use use) : use_(std::move(use)), runs_([this] { return read_and_apply(); }) {
        note({});
    }

    // Reads and applies once for all who ask at the same time. Logs the result.
    Result<> run() { return runs_.run(); }

    [[nodiscard]] metrics::LastReload last() const {
        const std::lock_guard lock(mutex_);
        return last_;
    }

private:
    Result<> read_and_apply();
    void note(const Result<> &read);

    const Use use_;
    mutable std::mutex mutex_;
    metrics::LastReload last_;
    SingleFlight runs_;
};

class App {
public:
    // When this returns, everything is attached and served. A probe that cannot run does not fail
    // it; a machine without BPF or a busy port does.
    // `read_config` reads the configuration again, for reload().
    static Result<std::unique_ptr<App>> start(config::Config config,
                                              std::function<Result<config::Config>()> read_config);
    ~App();
    App(const App &) = delete;
    App &operator=(const App &) = delete;

    // Reads the configuration again, and applies the settings that can change at run time. An
    // invalid configuration changes nothing. Logs the result. For any thread.
    Result<> reload() { return reloads_.run(); }

    // Notifies the service manager that the program will end, which it does when the App is
    // destroyed.
    void announce_end() const { manager_.tell("STOPPING=1\nSTATUS=stopping"); }

    // Before announce_end(): another exporter will take over at once, as in a restart.
    void leave_to_successor() const {
        for (const auto &probe : probes_) {
            probe->leave_to_successor();
        }
    }

    [[nodiscard]] const http::Server &server() const { return *server_; }

private:
    App(config::Config config, std::function<Result<config::Config>()> read_config);

    // What probes need, such as privileges: features_ are known then.
    Result<> prepare();
    Result<> start_sinks();
    Result<> start_probes();
    [[nodiscard]] Result<> open_discovery();
    [[nodiscard]] Result<> open_profiles(const probes::TracedProcessesPtr &traced);
    void start_pipeline();
    Result<> start_server(std::unique_ptr<http::Access> access);
    [[nodiscard]] std::vector<http::Route> routes();
    [[nodiscard]] http::Response metrics_page(metrics::Format format);
    [[nodiscard]] Result<std::string> render(metrics::Format format);
    void begin_reload() const;
    void apply(const config::Config &config);
    void look_for_libraries();
    // Of all probes, and of the profile that is taken all the time.
    [[nodiscard]] std::vector<probes::Health> health() const;
    // Of processes, for their past. For the pipeline's thread.
    [[nodiscard]] std::vector<probes::ProcessSample> samples() const;
    [[nodiscard]] std::string status_line() const;
    void after_round();
    [[nodiscard]] bool is_discovery_stuck();
    [[nodiscard]] http::Response ready_page() const;
    // The answer where --web.enable-lifecycle is missing; otherwise nothing.
    [[nodiscard]] std::optional<http::Response> refusal_of_action(std::string_view action) const;
    [[nodiscard]] http::Response reload_page();
    [[nodiscard]] http::Response release_page(const http::Request &request);
    [[nodiscard]] http::Response give_back_page(const http::Request &request);
    [[nodiscard]] http::Response status_page(const http::Request &request);
    [[nodiscard]] http::Response api_page(const http::Request &request);
    [[nodiscard]] bool may_profile(const http::Request &request) const;
    void begin_profile(const http::Request &request, const http::Pending &client);

    const config::Config config_;       // from the start
    bool discovery_was_stuck_ = false;  // for the pipeline's thread
    ServiceManager manager_;            // its watchdog is for the pipeline's thread
    ebpf::Features features_;
    std::shared_ptr<sinks::Sinks> sinks_;
    std::vector<std::unique_ptr<probes::Probe>> probes_;
    std::optional<ebpf::Calibration> calibration_;
    std::unique_ptr<discovery::Discovery> discovery_;
    std::mutex pipeline_mutex_;  // of the pointer, for discovery's thread, which outlives it
    std::unique_ptr<probes::Pipeline> pipeline_;
    std::unique_ptr<probes::ProfileService> profiles_;  // null: the configuration has none

    status::StatusPage status_page_;

    Reloads reloads_;

    std::unique_ptr<http::Server> server_;
};

}  // namespace gpusnoop
