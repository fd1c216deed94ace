#include "exporter/cli/profile_command.h"

#include <sys/signalfd.h>

#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "bpf/lib/process.h"
#include "exporter/base/fd.h"
#include "exporter/base/log.h"
#include "exporter/cli/look_duration.h"
#include "exporter/ebpf/libbpf.h"

namespace gpusnoop::cli {

const CLI::App *add_profile(CLI::App &command, probes::ProfileOptions &options) {
    using probes::ProfileFormat;
    using probes::ProfileType;
    CLI::App *profile = command.add_subcommand(
        "profile", "Counts the stacks of GPU processes and of what they start.");
    profile->fallthrough();
    profile
        ->add_option(
            "--type", options.settings.type,
            "cpu (what runs), offcpu (what waits), or page_faults (what touches new memory).")
        ->transform(CLI::CheckedTransformer(
            std::map<std::string, ProfileType>{{"cpu", ProfileType::cpu},
                                               {"offcpu", ProfileType::offcpu},
                                               {"page_faults", ProfileType::page_faults}}));
    profile
        ->add_option("--pid", options.settings.pids,
                     "Only this process and what it starts; may be given several times.")
        ->take_all()
        ->expected(1, TRACED_PIDS);
    profile->add_option("--comm", options.settings.comm,
                        "Only processes whose name matches this glob, and what they start.");
    profile
        ->add_option("--frequency", options.settings.frequency,
                     "Of cpu: samples a second of each CPU, 1 to 999 (49).")
        ->check(CLI::Range(1U, 999U));
    add_look_duration(*profile, options.duration);
    profile
        ->add_option("--format", options.format,
                     "folded (for flamegraph.pl), json, or pprof (compressed).")
        ->transform(CLI::CheckedTransformer(
            std::map<std::string, ProfileFormat>{{"folded", ProfileFormat::folded},
                                                 {"json", ProfileFormat::json},
                                                 {"pprof", ProfileFormat::pprof}}));
    profile->add_option("--output", options.output, "A file instead of the standard output.");
    return profile;
}

int profile(const Settings &settings, const probes::ProfileOptions &options) {
    const auto config = configure(settings);
    if (!config) {
        return complain(config.error());
    }
    log::setup(config->log.level, config->log.format);
    ebpf::route_libbpf_messages();
    const sigset_t stop_signals = block_signals({SIGINT, SIGTERM});
    const Fd stop(::signalfd(-1, &stop_signals, SFD_CLOEXEC));
    const auto profiled = probes::run_profile(*config, options, stop.get());
    if (!profiled) {
        log::error(profiled.error().message);
        return 1;
    }
    return 0;
}

}  // namespace gpusnoop::cli
