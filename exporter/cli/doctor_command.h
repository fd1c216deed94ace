// `gpusnoop_exporter doctor`.
#pragma once

#include "exporter/cli/settings.h"

namespace CLI {
class App;
}

namespace gpusnoop::cli {

enum class DoctorFormat { text, json };

// `format` must outlive the parsing.
const CLI::App *add_doctor(CLI::App &command, DoctorFormat &format);

// Prints the findings; returns the exit code.
int examine(const Settings &settings, DoctorFormat format);

}  // namespace gpusnoop::cli
