// Finds functions of groups in files that no group names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/probes/functions/setting_groups.h"

namespace gpusnoop::probes {

// A group that would count functions of the file if it named it.
struct UnnamedExports {
    std::string group;
    std::string function;  // the first that it names exactly, and that the file exports
    bool operator==(const UnnamedExports &) const = default;
};

// Reads the file, with limits for a file of which little is expected. Empty for a file that a group
// names, and for the inner libraries of one (libcudnn_ops.so of libcudnn.so), whose calls would
// count twice.
[[nodiscard]] Result<std::vector<UnnamedExports>> unnamed_exports(int fd, std::string_view name,
                                                                  std::string_view path,
                                                                  const FunctionGroups &groups);

}  // namespace gpusnoop::probes
