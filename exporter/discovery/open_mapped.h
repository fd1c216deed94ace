// Opens a file that another process has mapped.
#pragma once

#include "exporter/base/fd.h"
#include "exporter/base/result.h"
#include "exporter/kernel/mapping_list.h"

namespace gpusnoop::discovery {

// Opens exactly the mapped file, or fails: code ENOENT or ESRCH when the process or the mapping is
// gone. The process controls its own paths, so they are resolved below its root, without magic
// links, and what was opened is compared with what is mapped.
Result<Fd> open_mapped(const kernel::Mapping &mapping, kernel::MappingList &mappings);

}  // namespace gpusnoop::discovery
