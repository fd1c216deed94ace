// Opens a file that another process has mapped.
#pragma once

#include "exporter/base/result.h"
#include "exporter/ebpf/mapping_list.h"
#include "exporter/processes/file_opener.h"

namespace gpusnoop::processes {

// Opens exactly the mapped file, or fails: code ENOENT or ESRCH if the process or the mapping is
// gone. The process controls its own paths, so they are resolved below its root, without magic
// links, and the opened file is compared with the mapped one. For callers that open few files;
// takes a second at most if the file does not answer.
Result<MappedFile> open_mapped(const ebpf::Mapping &mapping, ebpf::MappingList &mappings);

}  // namespace gpusnoop::processes
