#include "exporter/cli/profile_command.h"

#include <CLI/CLI.hpp>

#include "bpf/lib/processes/process.h"
#include "exporter/cli/choice.h"
#include "exporter/cli/look_duration.h"
#include "exporter/cli/run_command.h"
#include "exporter/config/units.h"

namespace gpusnoop::cli {

const CLI::App *add_profile(CLI::App &command, probes::ProfileOptions &options) {
    CLI::App *profile = command.add_subcommand(
        "profile", "Profiles the stacks of GPU processes and the processes they start.");
    profile->fallthrough();
    add_choice(
        profile->add_option(
            "--type", options.settings.type,
            "cpu (what runs), offcpu (what waits), page_faults (what touches new memory), or heap "
            "(host memory, not the GPU's: what one process allocates by malloc and does not "
            "free)."),
        probes::profile_types());
    profile
        ->add_option("--pid", options.settings.filter.pids,
                     "Only this process and the processes it starts. Repeatable.")
        ->take_all()
        ->expected(1, TRACED_PIDS);
    profile->add_option("--comm", options.settings.filter.comm,
                        "Only processes whose name matches this glob, and the processes they "
                        "start.");
    profile
        ->add_option("--frequency", options.settings.frequency,
                     "For cpu: samples per second on each CPU, 1 to 999 (49).")
        ->check(CLI::Range(1U, 999U).description(""));
    profile
        ->add_option_function<std::string>(
            "--min-bytes",
            [&options](const std::string &text) {
                options.settings.min_bytes = config::parse_size(text).value_or(0);
            },
            "For heap: ignore smaller allocations (64KiB).")
        ->check([](const std::string &text) {
            return config::parse_size(text) ? "" : "must be like 1, 64KiB or 1MiB";
        });
    add_look_duration(*profile, options.duration);
    add_choice(profile->add_option("--format", options.format,
                                   "folded (for flamegraph.pl), json, pprof (compressed), or svg "
                                   "(a flame graph)."),
               probes::profile_formats());
    profile->add_option("--output", options.output,
                        "Write to this file instead of standard output.");
    profile->final_callback([profile, &options] {
        const bool is_heap = options.settings.type == probes::ProfileType::heap;
        if (is_heap && options.settings.filter.pids.size() != 1) {
            throw CLI::ValidationError(
                "--type=heap", "needs exactly one --pid: it attaches to that process's malloc");
        }
        if (!is_heap && profile->count("--min-bytes") > 0) {
            throw CLI::ValidationError("--min-bytes", "is for --type=heap alone");
        }
    });
    return profile;
}

int profile(const Settings &settings, const probes::ProfileOptions &options) {
    return run_until_stopped(settings, [&](const config::Config &config, int stop_fd) {
        return probes::run_profile(config, options, stop_fd);
    });
}

}  // namespace gpusnoop::cli
