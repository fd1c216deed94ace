// Commands of the exporter besides `trace`.
#pragma once

#include "exporter/cli/settings.h"
#include "exporter/cli/top/top.h"
#include "exporter/cli/why/why.h"
#include "exporter/probes/profile/run.h"

namespace CLI {
class App;
}

namespace gpusnoop::cli {

enum class DoctorFormat { text, json };

// `format` must outlive the parsing.
const CLI::App *add_doctor(CLI::App &command, DoctorFormat &format);

// Prints the findings; returns the exit code.
int examine(const Settings &settings, DoctorFormat format);

// `options` must outlive the parsing.
const CLI::App *add_profile(CLI::App &command, probes::ProfileOptions &options);

// Returns the exit code.
int profile(const Settings &settings, const probes::ProfileOptions &options);

// `options` must outlive the parsing.
const CLI::App *add_top(CLI::App &command, top::Options &options);

// The options that say which exporter is asked, and how it is reached.
void add_exporter(CLI::App &command, top::Address &address, top::Access &access);

// Runs until the user quits; returns the exit code.
int show_top(const top::Options &options);

// `options` must outlive the parsing.
const CLI::App *add_why(CLI::App &command, why::Options &options);

// Prints the report; returns the exit code.
int explain(const why::Options &options);

}  // namespace gpusnoop::cli
