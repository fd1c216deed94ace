// Lists executable file mappings of processes, straight from the kernel's own tables.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exporter/base/file_id.h"
#include "exporter/base/file_state.h"
#include "exporter/base/result.h"

namespace gpusnoop::ebpf {

struct Mapping {
    std::uint32_t tgid;  // 0: no process has mapped the file
    std::uint32_t tid;   // of a running thread: /proc/TID works even if /proc/TGID is empty
    std::uint64_t start;
    std::uint64_t end;
    std::uint64_t file_offset;  // of `start`
    FileId file;                // the inode that a uprobe attaches to, also under overlayfs
    bool is_program;            // the process's own executable
    std::string name;           // last part of the path, as the process could name it: untrusted
    std::uint32_t file_system = 0;  // the magic number of the file's, see linux/magic.h
    FileState state = {};
    std::chrono::nanoseconds started{};  // the process, since boot
    std::uint64_t execs = 0;             // of the process: each maps its files newly

    [[nodiscard]] bool is_by_process() const { return tgid != 0; }
};

// One thread uses a list at a time.
class MappingList {
public:
    static Result<std::unique_ptr<MappingList>> open();
    ~MappingList();
    MappingList(const MappingList &) = delete;
    MappingList &operator=(const MappingList &) = delete;

    // Of one process, or of all processes except the exporter's own children. A process that has
    // ended has no mappings.
    Result<std::vector<Mapping>> read(std::optional<std::uint32_t> tgid);

    // The identity of an open file, as its mappings would show it. (fstat does not show it: it
    // returns the overlay's inode.)
    Result<FileId> identify(int fd);

    // Of the file that a process has mapped at the address.
    Result<FileId> identify(std::uint32_t tgid, std::uint64_t address);
    Result<Mapping> find(std::uint32_t tgid, std::uint64_t address);

private:
    struct Program;
    explicit MappingList(std::unique_ptr<Program> program);
    std::unique_ptr<Program> program_;
};

}  // namespace gpusnoop::ebpf
