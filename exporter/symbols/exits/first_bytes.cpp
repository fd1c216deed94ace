#include "exporter/symbols/exits/first_bytes.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>

#include "exporter/symbols/exits/function_exits.h"

namespace gpusnoop::symbols {

std::vector<std::vector<std::byte>> first_bytes(int fd, std::span<const FoundFunction> functions) {
    std::vector<std::vector<std::byte>> all(functions.size());
    struct stat status{};
    if (::fstat(fd, &status) != 0) {
        return all;
    }
    ElfReader reader(fd, static_cast<std::uint64_t>(status.st_size),
                     {.max_bytes_read = max_swept_bytes});
    for (std::size_t i = 0; i < functions.size(); ++i) {
        all[i].resize(std::min<std::size_t>(functions[i].size, max_prologue_bytes));
        if (!reader.read(functions[i].file_offset, all[i])) {
            all[i].clear();
        }
    }
    return all;
}

}  // namespace gpusnoop::symbols
