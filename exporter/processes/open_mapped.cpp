#include "exporter/processes/open_mapped.h"

namespace gpusnoop::processes {

Result<MappedFile> open_mapped(const ebpf::Mapping &mapping, ebpf::MappingList &mappings) {
    return FileOpener(mappings).open(mapping, ForeignReader::Part::symbols_and_code);
}

}  // namespace gpusnoop::processes
