// A YAML file that a person wrote: read whole, checked, and every problem with its place.
#pragma once

#include <yaml-cpp/node/node.h>

#include <functional>
#include <string>
#include <string_view>

#include "exporter/base/read_text.h"
#include "exporter/base/result.h"
#include "exporter/config/problems.h"

namespace gpusnoop::config {

// Hands the one document in `text` to `read`, which reports mistakes to the Problems. An error's
// message holds every problem, one per line and in the file's order: "file:line:column: key.path:
// sentence", line and column from 1 (the column counts bytes). `name` is the file's name in them.
[[nodiscard]] Result<> read_document(
    std::string_view text, const std::string &name,
    const std::function<void(const YAML::Node &, Problems &)> &read);

// The whole file, which may have 1 MiB at most.
[[nodiscard]] Result<std::string> read_config_file(const std::string &path,
                                                   ReadingDeadline until = reading_deadline());

}  // namespace gpusnoop::config
