// Opens a file that another process has mapped.
#pragma once

#include "exporter/base/result.h"
#include "exporter/ebpf/mapping_list.h"
#include "exporter/processes/file_opener.h"

namespace gpusnoop::processes {

// Opens exactly the mapped file, or fails: code ENOENT or ESRCH when the process or the mapping is
// gone. The process controls its own paths, so they are resolved below its root, without magic
// links, and what was opened is compared with what is mapped. For those who open few files; it
// takes a second at most where there is no answer.
Result<MappedFile> open_mapped(const ebpf::Mapping &mapping, ebpf::MappingList &mappings);

}  // namespace gpusnoop::processes
