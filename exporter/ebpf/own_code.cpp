#include "exporter/ebpf/own_code.h"

#include <link.h>

#include <cstddef>

namespace gpusnoop::ebpf {

std::uint64_t file_offset(std::uintptr_t address) {
    struct Search {
        std::uintptr_t address;
        std::uint64_t offset;
    } search{address, 0};
    ::dl_iterate_phdr(
        [](dl_phdr_info *object, std::size_t, void *data) {
            auto &wanted = *static_cast<Search *>(data);
            for (ElfW(Half) i = 0; i < object->dlpi_phnum; i++) {
                const ElfW(Phdr) &part = object->dlpi_phdr[i];
                const std::uintptr_t start = object->dlpi_addr + part.p_vaddr;
                if (part.p_type == PT_LOAD && wanted.address >= start &&
                    wanted.address - start < part.p_filesz) {
                    wanted.offset = wanted.address - start + part.p_offset;
                    return 1;
                }
            }
            return 0;
        },
        &search);
    return search.offset;
}

}  // namespace gpusnoop::ebpf
