#include "exporter/probes/cuda/attach/entry_cost.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "exporter/probes/cuda/attach/functions.h"
#include "exporter/symbols/elf/elf_file.h"
#include "exporter/symbols/exits/entry_probe.h"

namespace gpusnoop::probes {

std::optional<EntryCost> entry_cost(int fd) {
    const auto elf = symbols::ElfFile::open(fd);
    if (!elf) {
        return std::nullopt;
    }
    std::vector<std::string_view> names;
    for (const CudaFunction &function : cuda_functions()) {
        names.push_back(function.symbol);
    }
    auto found = elf->find_functions(names);
    if (!found) {
        return std::nullopt;
    }
    std::ranges::sort(*found, {}, &symbols::FoundFunction::file_offset);
    const auto aliases = std::ranges::unique(*found, {}, &symbols::FoundFunction::file_offset);
    found->erase(aliases.begin(), aliases.end());
    const auto probes = symbols::find_entry_probes(*elf, fd, *found);
    return EntryCost{probes.size(), static_cast<std::size_t>(std::ranges::count_if(
                                        probes, &symbols::EntryProbe::is_expensive))};
}

}  // namespace gpusnoop::probes
