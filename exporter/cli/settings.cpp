#include "exporter/cli/settings.h"

#include <sys/signalfd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <utility>

#include "exporter/base/fd.h"
#include "exporter/base/log.h"
#include "exporter/base/text/text.h"
#include "exporter/config/units.h"
#include "exporter/ebpf/libbpf.h"
#include "exporter/probes/frame/registry.h"
#include "exporter/system/listen_address.h"
#include "exporter/system/machine.h"

namespace gpusnoop::cli {

// Adds each setting with an environment variable; the command line takes precedence.
void add_settings(CLI::App &command, Settings &settings) {
    command
        .add_option("--config.file", settings.config_file,
                    "Configuration file. Default: built-in defaults.")
        ->envname("GPUSNOOP_CONFIG_FILE");
    command
        .add_option("--web.listen-address", settings.listen_addresses,
                    "Address to listen on, as HOST:PORT, :PORT or unix:/PATH. Repeatable, or a "
                    "comma-separated list.")
        ->envname("GPUSNOOP_WEB_LISTEN_ADDRESS")
        ->take_all()
        ->expected(1, 16)
        ->delimiter(',')
        ->check([](const std::string &address) {
            const auto parsed = parse_listen_address(address);
            return parsed ? "" : parsed.error().message;
        });
    command
        .add_flag("--web.systemd-socket", settings.systemd_socket,
                  "Use systemd socket activation listeners instead of addresses.")
        ->envname("GPUSNOOP_WEB_SYSTEMD_SOCKET");
    command
        .add_flag("--web.enable-lifecycle", settings.enable_lifecycle,
                  "Allow any client to POST to /-/reload, /-/release and /-/give-back.")
        ->envname("GPUSNOOP_WEB_ENABLE_LIFECYCLE");
    command
        .add_flag("--web.enable-api", settings.enable_api,
                  "Serve details of programs, at / and below /api/v1/, to any client; without "
                  "it, only to clients on this machine and with a login.")
        ->envname("GPUSNOOP_WEB_ENABLE_API");
    command
        .add_option("--web.config.file", settings.web_config_file,
                    "File with TLS, logins and headers: see docs/web.md.")
        ->envname("GPUSNOOP_WEB_CONFIG_FILE");
    command
        .add_option("--web.telemetry-path", settings.telemetry_path, "Path to serve metrics under.")
        ->envname("GPUSNOOP_WEB_TELEMETRY_PATH")
        ->check([](const std::string &path) {
            return path.starts_with('/') && path != "/" ? ""
                                                        : "must begin with '/' and name a page";
        });
    command
        .add_option("--log.level", settings.log_level,
                    "Only log messages of this severity or above: debug, info, warn or error.")
        ->envname("GPUSNOOP_LOG_LEVEL")
        ->check(CLI::IsMember({"debug", "info", "warn", "error"}));
    command
        .add_option("--log.format", settings.log_format,
                    "Output format of log messages: logfmt or json.")
        ->envname("GPUSNOOP_LOG_FORMAT")
        ->check(CLI::IsMember({"logfmt", "json"}));
}

Result<config::Config> configure(const Settings &settings) {
    if (const auto repeated = find_repeated_address(settings.listen_addresses)) {
        return fail("--web.listen-address: " + in_quotes(settings.listen_addresses[*repeated]) +
                    " is given twice");
    }
    config::Config chosen;
    if (!settings.config_file.empty()) {
        auto loaded = config::load(settings.config_file, probes::setting_blocks(),
                                   probes::budgeted_families());
        if (!loaded) {
            return loaded;
        }
        chosen = std::move(*loaded);
        chosen.file = settings.config_file;
    }
    if (!settings.listen_addresses.empty()) {
        chosen.web.listen_addresses = settings.listen_addresses;
        chosen.values.erase("web.listen_address");
    }
    chosen.web.systemd_socket = settings.systemd_socket;
    chosen.web.has_lifecycle = settings.enable_lifecycle;
    chosen.web.has_api = settings.enable_api;
    chosen.web.config_file = settings.web_config_file;
    if (!settings.telemetry_path.empty()) {
        chosen.web.telemetry_path = settings.telemetry_path;
        chosen.values.erase("web.telemetry_path");
    }
    if (!settings.log_level.empty()) {
        chosen.log.level = *log::parse_level(settings.log_level);
    }
    if (!settings.log_format.empty()) {
        chosen.log.format = *log::parse_format(settings.log_format);
        chosen.values.erase("log.format");
    }
    return chosen;
}

int complain(const Error &error) {
    std::fprintf(stderr, "%s\n", printable_lines(error.message).c_str());
    return 1;
}

sigset_t block_signals(std::initializer_list<int> numbers) {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int number : numbers) {
        sigaddset(&signals, number);
    }
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    signal(SIGPIPE, SIG_IGN);
    return signals;
}

int run_until_stopped(const Settings &settings,
                      const std::function<Result<>(const config::Config &, int stop_fd)> &command) {
    const auto config = configure(settings);
    if (!config) {
        return complain(config.error());
    }
    log::setup(config->log.level, config->log.format);
    ebpf::route_libbpf_messages();
    const sigset_t stop_signals = block_signals({SIGINT, SIGTERM});
    const Fd stop(::signalfd(-1, &stop_signals, SFD_CLOEXEC));
    const auto done = command(*config, stop.get());
    if (!done) {
        log::error(done.error().message + limit_hint(done.error().code));
        return 1;
    }
    return 0;
}

void add_look_duration(CLI::App &command, std::chrono::milliseconds &duration) {
    command
        .add_option_function<std::string>(
            "--duration",
            [&duration](const std::string &text) { duration = *config::parse_duration(text); },
            "Length of the measurement, 100ms to 1h (" + config::to_text(duration) + ").")
        ->check([](const std::string &text) {
            using namespace std::chrono_literals;
            const auto parsed = config::parse_duration(text);
            return parsed && *parsed >= 100ms && *parsed <= 1h ? "" : "must be from 100ms to 1h";
        });
}

}  // namespace gpusnoop::cli
