#include "exporter/cli/doctor_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "exporter/cli/choice.h"
#include "exporter/cli/doctor/doctor.h"
#include "exporter/ebpf/libbpf.h"

namespace gpusnoop::cli {

const CLI::App *add_doctor(CLI::App &command, DoctorFormat &format) {
    CLI::App *doctor = command.add_subcommand(
        "doctor",
        "Checks which features work on this node, and the effect of each missing one. Exit "
        "status: 0 if everything works, 1 if the exporter runs but something is missing, 2 if it "
        "cannot work.");
    doctor->fallthrough();
    add_choice<DoctorFormat>(
        doctor->add_option("--format", format, "Output format: text, or json (one object)."),
        {{"text", DoctorFormat::text}, {"json", DoctorFormat::json}});
    return doctor;
}

int examine(const Settings &settings, DoctorFormat format) {
    ebpf::route_libbpf_messages();
    const auto findings = doctor::examine(configure(settings), settings.config_file.empty()
                                                                   ? "the built-in configuration"
                                                                   : settings.config_file);
    const std::string text =
        format == DoctorFormat::json ? doctor::to_json(findings) : doctor::to_text(findings);
    std::fputs(text.c_str(), stdout);
    return doctor::exit_code(doctor::overall(findings));
}

}  // namespace gpusnoop::cli
