// Arguments, signals and the exit code; the rest is in App.
#include <malloc.h>
#include <signal.h>
#include <sys/signalfd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "bpf/lib/process.h"
#include "exporter/app.h"
#include "exporter/base/fd.h"
#include "exporter/base/listen_address.h"
#include "exporter/base/log.h"
#include "exporter/base/version.h"
#include "exporter/config/config.h"
#include "exporter/config/function_names.h"
#include "exporter/config/syscall_choice.h"
#include "exporter/config/units.h"
#include "exporter/doctor/doctor.h"
#include "exporter/http/access.h"
#include "exporter/kernel/libbpf.h"
#include "exporter/kernel/pins.h"
#include "exporter/metrics/reference.h"
#include "exporter/probes/budgets.h"
#include "exporter/top/top.h"
#include "exporter/trace/trace.h"

namespace {

using gpusnoop::App;
namespace config = gpusnoop::config;
namespace log = gpusnoop::log;

// What the command line says; an empty option leaves the configuration's value.
struct Options {
    std::string config_file;
    std::vector<std::string> listen_addresses;
    bool systemd_socket = false;
    std::string web_config_file;
    std::string telemetry_path;
    std::string log_level;
    std::string log_format;
};

int complain(const gpusnoop::Error &error) {
    std::fprintf(stderr, "%s\n", error.message.c_str());
    return 1;
}

gpusnoop::Result<config::Config> configure(const Options &options) {
    config::Config settings;
    if (!options.config_file.empty()) {
        auto loaded = config::load(options.config_file, gpusnoop::probes::budgeted_families());
        if (!loaded) {
            return loaded;
        }
        settings = std::move(*loaded);
        settings.file = options.config_file;
    }
    if (!options.listen_addresses.empty()) {
        settings.web.listen_addresses = options.listen_addresses;
    }
    settings.web.systemd_socket = options.systemd_socket;
    settings.web.config_file = options.web_config_file;
    if (!options.telemetry_path.empty()) {
        settings.web.telemetry_path = options.telemetry_path;
    }
    if (!options.log_level.empty()) {
        settings.log.level = *log::parse_level(options.log_level);
    }
    if (!options.log_format.empty()) {
        settings.log.format = *log::parse_format(options.log_format);
    }
    return settings;
}

int check_config(const Options &options) {
    const auto settings = configure(options);
    if (!settings) {
        return complain(settings.error());
    }
    const std::string &web = settings->web.config_file;
    if (const auto rules = web.empty() ? gpusnoop::Result<gpusnoop::http::AccessRules>()
                                       : gpusnoop::http::load_access_rules(web);
        !rules) {
        return complain(rules.error());
    }
    std::printf("%s: ok\n", options.config_file.empty() ? "defaults" : options.config_file.c_str());
    if (!web.empty()) {
        std::printf("%s: ok\n", web.c_str());
    }
    return 0;
}

int unpin(const Options &options) {
    const auto settings = configure(options);
    if (!settings) {
        return complain(settings.error());
    }
    const std::string &path = settings->cuda.pin_path;
    const auto removed = gpusnoop::kernel::remove_pins(path);
    if (!removed) {
        return complain(removed.error());
    }
    std::printf("%s: removed %u pinned objects\n", path.c_str(), *removed);
    return 0;
}

// Before any thread starts, so that all of them leave the signals to whoever waits for them.
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

int serve(const Options &options) {
    const auto settings = configure(options);
    if (!settings) {
        return complain(settings.error());
    }
    log::setup(settings->log.level, settings->log.format);
    gpusnoop::kernel::route_libbpf_messages();
    // Else each thread of the server, on a machine with many cores, keeps memory of its own.
    ::mallopt(M_ARENA_MAX, 8);
    const sigset_t signals = block_signals({SIGINT, SIGTERM, SIGHUP});

    const auto app = App::start(*settings, [options] { return configure(options); });
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
        // What comes of it is in the log and in the metrics.
        (void)(*app)->reload();
    }
    (*app)->announce_end();
    log::info("stopping", {{"signal", received}});
    return 0;
}

// `trace_calls` takes the configuration and a file that is readable when the trace is to end.
template <typename Trace>
int trace(const Options &options, const Trace &trace_calls) {
    const auto settings = configure(options);
    if (!settings) {
        return complain(settings.error());
    }
    log::setup(settings->log.level, settings->log.format);
    gpusnoop::kernel::route_libbpf_messages();
    const sigset_t stop_signals = block_signals({SIGINT, SIGTERM});
    const gpusnoop::Fd stop(::signalfd(-1, &stop_signals, SFD_CLOEXEC));
    const auto traced = trace_calls(*settings, stop.get());
    if (!traced) {
        log::error(traced.error().message);
        return 1;
    }
    return 0;
}

void add_duration(CLI::App &command, const std::string &name, const std::string &what,
                  const std::function<void(std::chrono::milliseconds)> &set) {
    command
        .add_option_function<std::string>(
            name, [set](const std::string &text) { set(*gpusnoop::config::parse_duration(text)); },
            what)
        ->check([](const std::string &text) {
            return gpusnoop::config::parse_duration(text) ? "" : "must be like 500ms, 10s or 5m";
        });
}

// What all traces have.
void add_trace_options(CLI::App &trace, gpusnoop::trace::Options &options) {
    using gpusnoop::trace::Format;
    trace.fallthrough();
    trace.add_option("--format", options.format, "text, or json: an object for each line.")
        ->transform(CLI::CheckedTransformer(
            std::map<std::string, Format>{{"text", Format::text}, {"json", Format::json}}));
    trace.add_option("--pid", options.pids, "Only this process; may be given several times.")
        ->take_all()
        ->expected(1, TRACED_PIDS);
    trace.add_option("--comm", options.comm, "Only processes whose name matches this glob.");
    trace.add_option("--count", options.count, "Stop after so many calls.");
    add_duration(trace, "--duration", "Stop after so long: 500ms, 10s, 5m.",
                 [&options](auto duration) { options.duration = duration; });
}

void add_stack_option(CLI::App &trace, gpusnoop::trace::Options &options) {
    trace.add_flag("--stack", options.stack, "With the functions that led to the call.");
}

CLI::App *add_trace_cuda(CLI::App &trace, gpusnoop::trace::Options &options) {
    CLI::App *cuda = trace.add_subcommand("cuda", "CUDA calls, as docs/trace.md describes.");
    add_trace_options(*cuda, options);
    add_stack_option(*cuda, options);
    cuda->add_option("--function", options.functions,
                     "Only functions that match this glob; may be given several times.")
        ->take_all();
    return cuda;
}

CLI::App *add_trace_func(CLI::App &trace, gpusnoop::trace::FuncOptions &options) {
    CLI::App *func = trace.add_subcommand(
        "func", "Calls of the configuration's functions, or of any, as docs/trace.md describes.");
    add_trace_options(*func, options);
    add_stack_option(*func, options);
    func->add_option("--function", options.functions,
                     "Only functions with this symbol or name, or that match this glob; may be "
                     "given several times. With --library, functions that are not configured, too.")
        ->take_all()
        ->check([](const std::string &text) { return config::symbol_problem(text, false); });
    func->add_option("--library", options.libraries,
                     "Only functions of files with this name or path, or that match this glob; may "
                     "be given several times.")
        ->take_all()
        ->check([](const std::string &text) { return config::library_problem(text); });
    func->add_flag("--slow", options.only_slow,
                   "Only calls that take as long as the slow_threshold of their function.");
    add_duration(*func, "--min-duration", "Only calls that take as long: 100ms, 1s.",
                 [&options](auto duration) { options.min_duration = duration; });
    return func;
}

void add_kernel_traces(CLI::App &trace, gpusnoop::trace::KernelOptions &options) {
    using gpusnoop::trace::KernelEvents;
    constexpr std::tuple<KernelEvents, const char *, const char *> all[] = {
        {KernelEvents::pcie, "pcie", "Accesses to the configuration space of GPUs."},
        {KernelEvents::nvlink, "nvlink", "Calls of the NVIDIA driver's nvlink_* helpers."},
        {KernelEvents::fence, "fence", "What happens to DMA fences, and waits for them."},
        {KernelEvents::syscall, "syscall", "System calls, with their arguments and results."},
    };
    for (const auto &[events, name, what] : all) {
        CLI::App *command = trace.add_subcommand(name, what);
        add_trace_options(*command, options);
        command->parse_complete_callback([&options, which = events] { options.events = which; });
        if (events == KernelEvents::syscall) {
            command
                ->add_option("--syscall", options.syscalls,
                             "Only this system call, or group of them; may be given several times.")
                ->take_all()
                ->check([](const std::string &text) { return config::syscall_problem(text); });
        }
    }
}

enum class DoctorFormat { text, json };

int examine(const Options &options, DoctorFormat format) {
    namespace doctor = gpusnoop::doctor;
    gpusnoop::kernel::route_libbpf_messages();
    const auto findings = doctor::examine(configure(options), options.config_file.empty()
                                                                  ? "the built-in configuration"
                                                                  : options.config_file);
    const std::string text =
        format == DoctorFormat::json ? doctor::to_json(findings) : doctor::to_text(findings);
    std::fputs(text.c_str(), stdout);
    return doctor::exit_code(doctor::overall(findings));
}

CLI::App *add_doctor(CLI::App &command, DoctorFormat &format) {
    CLI::App *doctor = command.add_subcommand(
        "doctor",
        "Says what this node can do and what each missing thing costs; exits with 0 if everything "
        "works, 1 if the exporter runs but something is missing, 2 if it cannot work.");
    doctor->fallthrough();
    doctor->add_option("--format", format, "text, or json: one object.")
        ->transform(CLI::CheckedTransformer(std::map<std::string, DoctorFormat>{
            {"text", DoctorFormat::text}, {"json", DoctorFormat::json}}));
    return doctor;
}

int show_top(const gpusnoop::top::Options &options) {
    block_signals({SIGINT, SIGTERM});
    const auto shown = gpusnoop::top::run(options);
    return shown ? 0 : complain(shown.error());
}

CLI::App *add_top(CLI::App &command, gpusnoop::top::Options &options) {
    using gpusnoop::top::Sort;
    CLI::App *top = command.add_subcommand(
        "top", "What the traced functions do now, from a running exporter; q quits.");
    top->add_option_function<std::string>(
           "--address",
           [&options](const std::string &text) {
               options.address = *gpusnoop::top::parse_address(text);
           },
           "The exporter, as http://HOST:PORT (http://127.0.0.1:19435).")
        ->check([](const std::string &text) {
            const auto parsed = gpusnoop::top::parse_address(text);
            return parsed ? "" : parsed.error().message;
        });
    top->add_option_function<std::string>(
           "--interval",
           [&options](const std::string &text) {
               options.interval = *gpusnoop::config::parse_duration(text);
           },
           "How often it is asked, 100ms to 1h (2s).")
        ->check([](const std::string &text) {
            using namespace std::chrono_literals;
            const auto parsed = gpusnoop::config::parse_duration(text);
            return parsed && *parsed >= 100ms && *parsed <= 1h ? "" : "must be from 100ms to 1h";
        });
    top->add_option("--sort", options.sort,
                    "calls, seconds (inside them), slow, errors, all per second, or max.")
        ->transform(CLI::CheckedTransformer(std::map<std::string, Sort>{{"calls", Sort::calls},
                                                                        {"seconds", Sort::seconds},
                                                                        {"slow", Sort::slow},
                                                                        {"errors", Sort::errors},
                                                                        {"max", Sort::max}}));
    top->add_option("--rows", options.rows, "The most functions to show (all that fit; else 20).")
        ->check(CLI::Range(1, 100'000));
    top->add_flag("--once", options.once, "One plain table, of one interval.");
    top->add_flag("--batch", options.batch, "Plain tables, one below the other.");
    return top;
}

// Each by an environment variable, too, under which what the command line says goes first.
void add_settings(CLI::App &command, Options &options) {
    command
        .add_option("--config.file", options.config_file,
                    "Configuration; without it, the defaults.")
        ->envname("GPUSNOOP_CONFIG_FILE");
    command
        .add_option("--web.listen-address", options.listen_addresses,
                    "Address to serve on, as HOST:PORT, :PORT or unix:/PATH; may be given several "
                    "times, or several with commas between them.")
        ->envname("GPUSNOOP_WEB_LISTEN_ADDRESS")
        ->take_all()
        ->expected(1, 16)
        ->delimiter(',')
        ->check([](const std::string &address) {
            const auto parsed = gpusnoop::parse_listen_address(address);
            return parsed ? "" : parsed.error().message;
        });
    command
        .add_flag("--web.systemd-socket", options.systemd_socket,
                  "Serve on the sockets that systemd passes, and on no address.")
        ->envname("GPUSNOOP_WEB_SYSTEMD_SOCKET");
    command
        .add_option("--web.config.file", options.web_config_file,
                    "TLS, logins and headers, as docs/web.md describes.")
        ->envname("GPUSNOOP_WEB_CONFIG_FILE");
    command.add_option("--web.telemetry-path", options.telemetry_path, "Path of the metrics.")
        ->envname("GPUSNOOP_WEB_TELEMETRY_PATH")
        ->check([](const std::string &path) {
            return path.starts_with('/') && path != "/" ? ""
                                                        : "must begin with '/' and name a page";
        });
    command.add_option("--log.level", options.log_level, "debug, info, warn or error.")
        ->envname("GPUSNOOP_LOG_LEVEL")
        ->check(CLI::IsMember({"debug", "info", "warn", "error"}));
    command.add_option("--log.format", options.log_format, "logfmt or json.")
        ->envname("GPUSNOOP_LOG_FORMAT")
        ->check(CLI::IsMember({"logfmt", "json"}));
}

}  // namespace

int main(int argc, char **argv) {
    CLI::App command("Shows what CUDA programs do on this node, as Prometheus metrics.",
                     "gpusnoop_exporter");
    Options options;
    add_settings(command, options);
    command.set_version_flag("--version",
                             gpusnoop::version_text(gpusnoop::kernel::libbpf_version()));
    CLI::App *check = command.add_subcommand(
        "check-config", "Checks the file of --config.file and exits, with 1 if it is wrong.");
    check->fallthrough();
    CLI::App *unpinning = command.add_subcommand(
        "unpin", "Detaches what an exporter with cuda.pin left in the kernel, and exits.");
    unpinning->fallthrough();
    CLI::App *list = command.add_subcommand(
        "list-metrics", "Prints the reference of all metrics (markdown) and exits.");
    gpusnoop::trace::Options trace_options;
    gpusnoop::trace::FuncOptions func_options;
    CLI::App *traces = command.add_subcommand("trace", "Writes every call or event as a line.");
    traces->require_subcommand(1);
    traces->fallthrough();
    const CLI::App *cuda = add_trace_cuda(*traces, trace_options);
    const CLI::App *func = add_trace_func(*traces, func_options);
    gpusnoop::trace::KernelOptions kernel_options;
    add_kernel_traces(*traces, kernel_options);
    gpusnoop::top::Options top_options;
    const CLI::App *top = add_top(command, top_options);
    DoctorFormat doctor_format = DoctorFormat::text;
    const CLI::App *doctor = add_doctor(command, doctor_format);
    command.require_subcommand(0, 1);
    try {
        command.parse(argc, argv);
        if (list->parsed()) {
            std::fputs(gpusnoop::metrics::metrics_reference().c_str(), stdout);
            return 0;
        }
        if (unpinning->parsed()) {
            return unpin(options);
        }
        if (cuda->parsed()) {
            return trace(options, [&](const auto &settings, int stop) {
                return gpusnoop::trace::trace_cuda(settings, trace_options, stop);
            });
        }
        if (func->parsed()) {
            return trace(options, [&](const auto &settings, int stop) {
                return gpusnoop::trace::trace_func(settings, func_options, stop);
            });
        }
        if (traces->parsed()) {
            return trace(options, [&](const auto &settings, int stop) {
                return gpusnoop::trace::trace_kernel(settings, kernel_options, stop);
            });
        }
        if (doctor->parsed()) {
            return examine(options, doctor_format);
        }
        if (top->parsed()) {
            return show_top(top_options);
        }
        return check->parsed() ? check_config(options) : serve(options);
    } catch (const CLI::Success &wish) {  // --help, --version
        return command.exit(wish);
    } catch (const CLI::ParseError &error) {
        std::fprintf(stderr, "gpusnoop_exporter: %s\n", error.what());
        return 2;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "gpusnoop_exporter: %s\n", error.what());
        return 1;
    }
}
