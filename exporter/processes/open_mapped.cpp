#include "exporter/processes/open_mapped.h"

#include <utility>

namespace gpusnoop::processes {

Result<MappedFile> open_mapped(const ebpf::Mapping &mapping, Result<std::string> path,
                               ebpf::MappingList &mappings) {
    return FileOpener(mappings).open(mapping, std::move(path),
                                     ForeignReader::Part::symbols_and_code);
}

}  // namespace gpusnoop::processes
