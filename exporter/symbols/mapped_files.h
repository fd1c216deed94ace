// The files that processes have mapped, as the resolvers ask for them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"
#include "exporter/kernel/mapping_list.h"

namespace gpusnoop::symbols {

// Used by one thread at a time. Tests have one of their own, which needs no rights.
class MappedFiles {
public:
    // From the kernel's tables. Needs BPF.
    [[nodiscard]] static Result<std::unique_ptr<MappedFiles>> open();

    MappedFiles() = default;
    virtual ~MappedFiles() = default;
    MappedFiles(const MappedFiles &) = delete;
    MappedFiles &operator=(const MappedFiles &) = delete;

    // The executable file mappings of a process. One that is gone has none.
    [[nodiscard]] virtual Result<std::vector<kernel::Mapping>> list(std::uint32_t tgid) = 0;
    // Opens exactly the mapped file, or fails.
    [[nodiscard]] virtual Result<Fd> open_file(const kernel::Mapping &mapping) = 0;
};

}  // namespace gpusnoop::symbols
