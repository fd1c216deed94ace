#include <string_view>
#include <utility>

#include "bench/call_cost/programs.h"
#include "exporter/symbols/elf/elf_file.h"

namespace gpusnoop::bench {

Result<ebpf::UprobeSet> attach_to(const Library &library, const std::vector<std::string> &functions,
                                  const ebpf::CallPrograms &programs) {
    const auto elf = symbols::ElfFile::open(library.found().file.get());
    if (!elf) {
        return tl::unexpected(elf.error());
    }
    const std::vector<std::string_view> names(functions.begin(), functions.end());
    const auto places = elf->find_functions(names);
    if (!places) {
        return tl::unexpected(places.error());
    }
    std::vector<ebpf::AttachPoint> points;
    const bool entry_only = programs.mode != ebpf::AttachMode::session && programs.leave == nullptr;
    for (const auto &place : *places) {
        points.push_back({place.file_offset, 0, entry_only});
    }
    return ebpf::UprobeSet::attach(programs, {library.found().file.get()}, points);
}

}  // namespace gpusnoop::bench
