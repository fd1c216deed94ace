#include "exporter/probes/frame/libraries/entry_points.h"

#include <cstdint>
#include <unordered_map>

#include "exporter/symbols/exits/entry_probe.h"

namespace gpusnoop::probes {

void use_cheapest_entries(const symbols::ElfFile &elf, int fd,
                          std::span<const symbols::FoundFunction> functions,
                          std::vector<ebpf::AttachPoint> &points) {
    const auto places = symbols::find_entry_probes(elf, fd, functions);
    std::unordered_map<std::uint64_t, symbols::EntryProbe> by_entry;
    for (std::size_t i = 0; i < places.size(); i++) {
        by_entry.emplace(functions[i].file_offset, places[i]);
    }
    for (ebpf::AttachPoint &point : points) {
        if (const auto place = by_entry.find(point.file_offset); place != by_entry.end()) {
            point.file_offset = place->second.file_offset;
            point.is_expensive = place->second.is_expensive;
        }
    }
}

}  // namespace gpusnoop::probes
