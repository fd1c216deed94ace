// Runs the command, or the exporter itself, whose parts are in App.
#include <malloc.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>
#include <system_error>
#include <vector>

#include "exporter/app.h"
#include "exporter/base/log.h"
#include "exporter/base/text/text.h"
#include "exporter/base/version.h"
#include "exporter/cli/commands.h"
#include "exporter/cli/settings.h"
#include "exporter/cli/trace_command.h"
#include "exporter/config/config.h"
#include "exporter/ebpf/libbpf.h"
#include "exporter/ebpf/maps/pins.h"
#include "exporter/http/access.h"
#include "exporter/metrics/reference.h"
#include "exporter/probes/cuda/settings.h"
#include "exporter/system/cgroup_limits.h"

namespace {

using gpusnoop::App;
using gpusnoop::printable;
using gpusnoop::printable_lines;
using gpusnoop::cli::complain;
using gpusnoop::cli::configure;
using gpusnoop::cli::Settings;
namespace cli = gpusnoop::cli;
namespace log = gpusnoop::log;

int check_config(const Settings &settings) {
    const auto config = configure(settings);
    if (!config) {
        return complain(config.error());
    }
    const std::string &web = config->web.config_file;
    if (const auto rules = web.empty() ? gpusnoop::Result<gpusnoop::http::AccessRules>()
                                       : gpusnoop::http::load_access_rules(web);
        !rules) {
        return complain(rules.error());
    }
    const std::string &file = settings.config_file;
    std::printf("%s: ok\n", file.empty() ? "defaults" : printable(file).c_str());
    if (!web.empty()) {
        std::printf("%s: ok\n", printable(web).c_str());
    }
    return 0;
}

int unpin(const Settings &settings) {
    const auto config = configure(settings);
    if (!config) {
        return complain(config.error());
    }
    const std::string &path = config->of<gpusnoop::probes::CudaConfig>().pin_path;
    const auto removed = gpusnoop::ebpf::remove_pins(path);
    if (!removed) {
        return complain(removed.error());
    }
    std::printf("%s: removed %u pinned objects\n", printable(path).c_str(), *removed);
    return 0;
}

int serve(const Settings &settings) {
    const auto config = configure(settings);
    if (!config) {
        return complain(config.error());
    }
    log::setup(config->log.level, config->log.format);
    gpusnoop::ebpf::route_libbpf_messages();
    // Returns a page's memory to the kernel after it was sent. Without this, malloc raises the
    // threshold to the size of the first page freed, and returns no smaller block.
    ::mallopt(M_MMAP_THRESHOLD, 256 << 10);
    const sigset_t signals = cli::block_signals({SIGINT, SIGTERM, SIGHUP, SIGUSR1});

    gpusnoop::warn_of_low_limits();
    const auto app = App::start(*config, [settings] { return configure(settings); });
    if (!app) {
        log::error(app.error().message);
        return 1;
    }
    const gpusnoop::http::Server &server = (*app)->server();
    for (const gpusnoop::http::Listener &listener : server.listeners()) {
        std::vector<log::Field> fields = {{"address", listener.address()},
                                          {"tls", server.has_tls()},
                                          {"version", gpusnoop::version()}};
        if (listener.port() != 0) {
            fields.emplace_back("port", listener.port());
        }
        log::write(log::Level::info, "listening", fields);
    }
    int received = 0;
    while (sigwait(&signals, &received) == 0 && received == SIGHUP) {
        // The result is in the log and in the metrics.
        (void)(*app)->reload();
    }
    if (received == SIGUSR1) {  // the unit's signal for a restart
        (*app)->leave_to_successor();
    }
    (*app)->announce_end();
    log::info("stopping", {{"signal", received}});
    return 0;
}

// The commands, and what was given with them.
class Commands {
public:
    explicit Commands(CLI::App &command)
        : check_(command.add_subcommand("check-config",
                                        "Checks the file of --config.file and exits, with status "
                                        "1 if it is invalid.")),
          unpin_(command.add_subcommand(
              "unpin", "Removes the pinned probes of an exporter with cuda.pin, and exits.")),
          list_(command.add_subcommand(
              "list-metrics", "Prints the reference of all metrics, in Markdown, and exits.")),
          trace_(command),
          profile_(cli::add_profile(command, profile_options_)),
          top_(cli::add_top(command, top_options_)),
          why_(cli::add_why(command, why_options_)),
          doctor_(cli::add_doctor(command, doctor_format_)) {
        check_->fallthrough();
        unpin_->fallthrough();
        command.require_subcommand(0, 1);
    }
    // The parser has pointers to its members.
    Commands(const Commands &) = delete;
    Commands &operator=(const Commands &) = delete;

    // Runs the one that was parsed, or the exporter; returns the exit code.
    [[nodiscard]] int run(const Settings &settings) const {
        if (list_->parsed()) {
            std::fputs(gpusnoop::metrics::metrics_reference().c_str(), stdout);
            return 0;
        }
        if (unpin_->parsed()) {
            return unpin(settings);
        }
        if (trace_.parsed()) {
            return trace_.run(settings);
        }
        if (profile_->parsed()) {
            return cli::profile(settings, profile_options_);
        }
        if (doctor_->parsed()) {
            return cli::examine(settings, doctor_format_);
        }
        if (top_->parsed()) {
            return cli::show_top(top_options_);
        }
        if (why_->parsed()) {
            return cli::explain(why_options_);
        }
        return check_->parsed() ? check_config(settings) : serve(settings);
    }

private:
    gpusnoop::probes::ProfileOptions profile_options_;
    gpusnoop::top::Options top_options_;
    gpusnoop::why::Options why_options_;
    cli::DoctorFormat doctor_format_ = cli::DoctorFormat::text;
    // In the order of --help.
    CLI::App *check_;
    CLI::App *unpin_;
    const CLI::App *list_;
    cli::TraceCommand trace_;
    const CLI::App *profile_;
    const CLI::App *top_;
    const CLI::App *why_;
    const CLI::App *doctor_;
};

}  // namespace

int main(int argc, char **argv) {
    CLI::App command("Prometheus exporter for CUDA programs on this node.", "gpusnoop_exporter");
    Settings settings;
    cli::add_settings(command, settings);
    command.set_version_flag("--version", gpusnoop::version_text(gpusnoop::ebpf::libbpf_version()));
    Commands commands(command);
    try {
        command.parse(argc, argv);
        return commands.run(settings);
    } catch (const CLI::Success &wish) {  // --help, --version
        return command.exit(wish);
    } catch (const CLI::ParseError &error) {
        std::fprintf(stderr, "gpusnoop_exporter: %s\n", printable_lines(error.what()).c_str());
        return 2;
    } catch (const std::system_error &error) {
        // std::thread throws this if it cannot start.
        const bool is_thread = error.code() == std::errc::resource_unavailable_try_again;
        std::fprintf(stderr, "gpusnoop_exporter: %s%s\n", printable_lines(error.what()).c_str(),
                     is_thread ? ": a thread cannot start, so raise the limit of tasks (TasksMax= "
                                 "of a unit, a container's limit of pids, ulimit -u)"
                               : "");
        return 1;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "gpusnoop_exporter: %s\n", printable_lines(error.what()).c_str());
        return 1;
    }
}
