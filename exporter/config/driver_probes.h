// The blocks of the probes on kernel functions: `pcie:` and `nvlink:`.
#pragma once

#include "exporter/config/config.h"
#include "exporter/config/reader.h"

namespace gpusnoop::config {

void read_pcie(Section pcie, Config::Pcie &value);
void read_nvlink(Section nvlink, Config::Nvlink &value);

}  // namespace gpusnoop::config
