// Examines the libraries of CUDA processes that no group of functions names.
#pragma once

#include <vector>

#include "exporter/cli/doctor/finding.h"
#include "exporter/config/config.h"
#include "exporter/ebpf/mappings/mapping_list.h"

namespace gpusnoop::doctor {

// One for each file that exports functions of a group and has another name than the group's
// libraries: the exporter does not attach to it. Of the processes that map a library of CUDA.
[[nodiscard]] std::vector<Finding> examine_unnamed(const std::vector<ebpf::Mapping> &mappings,
                                                   ebpf::MappingList &list,
                                                   const config::Config &config);

}  // namespace gpusnoop::doctor
