// Gives resolvers the files that processes have mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/file_id.h"
#include "exporter/base/result.h"
#include "exporter/base/work_limit.h"
#include "exporter/ebpf/mappings/mapping_list.h"
#include "exporter/processes/file_opener.h"

namespace gpusnoop::symbols {

// Used by one thread at a time. Tests have their own implementation, which needs no privileges. A
// file or process that does not answer is given up after a second.
class MappedFiles {
public:
    // From the kernel's tables. Needs BPF.
    [[nodiscard]] static Result<std::unique_ptr<MappedFiles>> open();

    MappedFiles() = default;
    virtual ~MappedFiles() = default;
    MappedFiles(const MappedFiles &) = delete;
    MappedFiles &operator=(const MappedFiles &) = delete;

    // Nothing below waits beyond this limit: ETIMEDOUT. At first, there is none.
    virtual void set_limit(const WorkLimit & /*limit*/) {}

    // The executable file mappings of a process. A process that has ended has none.
    [[nodiscard]] virtual Result<std::vector<ebpf::Mapping>> list(std::uint32_t tgid) = 0;
    // Opens exactly the mapped file, or fails.
    [[nodiscard]] virtual Result<processes::MappedFile> open_file(const ebpf::Mapping &mapping) = 0;
    // Its path, as MappingReader::path_of() returns it.
    [[nodiscard]] virtual Result<std::string> path_of(const ebpf::Mapping & /*mapping*/) {
        return fail("not possible here");
    }

    // The executable of a process, if it is this one, and has this size.
    [[nodiscard]] virtual Result<processes::MappedFile> open_program(std::uint32_t tgid,
                                                                     const FileId &id,
                                                                     std::uint64_t bytes);
    // Whether the process still runs it, as far as stat() shows.
    [[nodiscard]] virtual bool runs_program(std::uint32_t tgid, const FileId &id,
                                            std::uint64_t bytes) {
        return open_program(tgid, id, bytes).has_value();
    }
    // Memory of a process, from `address` on: `size` bytes, or fewer.
    [[nodiscard]] virtual Result<std::string> read_memory(std::uint32_t tgid, std::uint64_t address,
                                                          std::size_t size);
    // A copy of a text that the process has written, at this path below its root.
    [[nodiscard]] virtual Result<Fd> copy_text(std::uint32_t /*tgid*/,
                                               const std::string & /*path*/) {
        return fail("not possible here");
    }
    // No request follows for a while: ends helpers that keep memory.
    virtual void rest() {}
};

}  // namespace gpusnoop::symbols
