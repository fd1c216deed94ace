// The program: builds the stages in the order of the data and takes them down in reverse.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/base/single_flight.h"
#include "exporter/config/config.h"
#include "exporter/discovery/discovery.h"
#include "exporter/ebpf/calibration.h"
#include "exporter/ebpf/features.h"
#include "exporter/http/pending.h"
#include "exporter/http/server.h"
#include "exporter/metrics/reload_record.h"
#include "exporter/metrics/text.h"
#include "exporter/probes/frame/api_resource.h"
#include "exporter/probes/frame/pipeline.h"
#include "exporter/probes/frame/probe.h"
#include "exporter/probes/profile/service.h"
#include "exporter/sinks/sinks.h"
#include "exporter/status/status_page.h"
#include "exporter/system/notify.h"

namespace gpusnoop {

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
    void announce_end() const { tell_manager("STOPPING=1\nSTATUS=stopping"); }

    // Before announce_end(): another exporter will take over at once, as in a restart.
    void leave_to_successor() const {
        for (const auto &probe : probes_) {
            probe->leave_to_successor();
        }
    }

    [[nodiscard]] const http::Server &server() const { return *server_; }

private:
    App(config::Config config, std::function<Result<config::Config>()> read_config);

    Result<> start_probes();
    Result<> start_server(std::unique_ptr<http::Access> access);
    [[nodiscard]] std::vector<http::Route> routes();
    [[nodiscard]] http::Response metrics_page(metrics::Format format);
    [[nodiscard]] Result<std::string> render(metrics::Format format);
    Result<> read_and_apply();
    Result<> read_config_and_apply();
    void apply(const config::Config &config);
    void look_for_libraries();
    void tell_manager(std::string_view lines) const;
    // Of all probes, and of the profile that is taken all the time.
    [[nodiscard]] std::vector<probes::Health> health() const;
    [[nodiscard]] std::string status_line() const;
    void after_round();
    [[nodiscard]] bool is_discovery_stuck();
    [[nodiscard]] http::Response ready_page() const;
    [[nodiscard]] http::Response reload_page();
    [[nodiscard]] http::Response release_page(const http::Request &request);
    [[nodiscard]] http::Response give_back_page(const http::Request &request);
    [[nodiscard]] http::Response status_page(const http::Request &request);
    [[nodiscard]] http::Response document_page(const http::Request &request);
    [[nodiscard]] bool may_profile(const http::Request &request) const;
    void begin_profile(const http::Request &request, const http::Pending &client);

    const config::Config config_;  // from the start
    std::function<Result<config::Config>()> read_config_;
    bool discovery_was_stuck_ = false;  // for the pipeline's thread
    const Notifier manager_ = Notifier::from_environment();
    Heartbeat heartbeat_{watchdog_timeout()};  // for the pipeline's thread
    ebpf::Features features_;
    std::shared_ptr<sinks::Sinks> sinks_;
    std::vector<std::unique_ptr<probes::Probe>> probes_;
    std::optional<ebpf::Calibration> calibration_;
    std::unique_ptr<discovery::Discovery> discovery_;
    std::mutex pipeline_mutex_;  // of the pointer, for discovery's thread, which outlives it
    std::unique_ptr<probes::Pipeline> pipeline_;
    std::unique_ptr<probes::ProfileService> profiles_;  // null: the configuration has none

    status::StatusPage status_page_;

    SingleFlight reloads_;
    metrics::ReloadRecord last_reload_;

    std::unique_ptr<http::Server> server_;
};

}  // namespace gpusnoop
