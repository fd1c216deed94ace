#include "exporter/probes/cuda/attach/forwarding.h"

#include <algorithm>
#include <cstddef>

#include "exporter/probes/cuda/attach/functions.h"
#include "exporter/symbols/exits/function_exits.h"

namespace gpusnoop::probes {

std::set<std::uint64_t> forwarding_functions(const symbols::ElfFile &elf,
                                             const discovery::Library &library,
                                             std::span<const symbols::FoundFunction> found) {
    const auto name_of = [](const symbols::FoundFunction &function) {
        return cuda_functions()[function.name].name;
    };
    const auto targets = symbols::find_forwarders(elf, library.readable(), found);
    std::set<std::uint64_t> forwarding;
    for (std::size_t i = 0; i < found.size(); ++i) {
        const bool has_other =
            targets[i] && std::ranges::any_of(found, [&](const symbols::FoundFunction &other) {
                return other.file_offset == *targets[i] && other.probeable &&
                       name_of(other) == name_of(found[i]);
            });
        if (has_other) {
            forwarding.insert(found[i].file_offset);
        }
    }
    return forwarding;
}

}  // namespace gpusnoop::probes
