// Opens a file that another process has mapped.
#pragma once

#include <string>

#include "exporter/base/result.h"
#include "exporter/ebpf/mappings/mapping_list.h"
#include "exporter/processes/file_opener.h"

namespace gpusnoop::processes {

// Opens exactly the mapped file, or fails: code ENOENT or ESRCH if the process or the mapping is
// gone. The process controls its own paths, so they are resolved below its root, without magic
// links, and the opened file is compared with the mapped one. For callers that open few files;
// takes a second at most if the file does not answer. `path` as MappingReader::path_of() returns
// it.
Result<MappedFile> open_mapped(const ebpf::Mapping &mapping, Result<std::string> path,
                               ebpf::MappingList &mappings);

}  // namespace gpusnoop::processes
