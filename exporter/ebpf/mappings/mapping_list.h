// Lists executable file mappings of processes, straight from the kernel's own tables.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/file_id.h"
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
    // Of the process's own executable: what the process has executed, without an address. Under
    // overlayfs that is the overlay's inode.
    FileId program = {};
    bool is_mounted_by_user = false;  // the file system that it was opened on, in a user namespace

    [[nodiscard]] bool is_by_process() const { return tgid != 0; }
};

// The name of a mapped file by its path, or by the kernel's name for it: the last part, without
// what the kernel adds to the names of files in memory ("memfd:") and of deleted ones.
[[nodiscard]] std::string_view mapped_name(std::string_view path);

// One thread uses a list at a time.
class MappingList {
public:
    static Result<std::unique_ptr<MappingList>> open();
    ~MappingList();
    MappingList(const MappingList &) = delete;
    MappingList &operator=(const MappingList &) = delete;

    // Begins to list one process, or all processes except the exporter's own children. Reading from
    // the descriptor lists them; take() takes what was read. A read can wait for a lock that a
    // process holds: see processes::MappingReader. One list at a time. ESRCH: there is no such
    // process.
    Result<Fd> iterate(std::optional<std::uint32_t> tgid);
    // Appends the mappings at the front of `bytes`, and returns how many bytes they took.
    static std::size_t take(std::span<const std::byte> bytes, std::vector<Mapping> &mappings);
    // Since Linux 6.1 the kernel can walk one process only. Before, it walks all of them for one.
    [[nodiscard]] bool can_list_one() const { return can_list_one_; }

    // The identity of an open file, as its mappings would show it. (fstat does not show it: it
    // returns the overlay's inode.)
    Result<FileId> identify(int fd);

    // Of the file that a process has mapped at the address: the exporter, or a child of it.
    Result<FileId> identify(std::uint32_t tgid, std::uint64_t address);
    Result<Mapping> find(std::uint32_t tgid, std::uint64_t address);

    // How many threads of the process are in a call whose return a probe waits for, of any tool.
    Result<std::size_t> threads_in_probed_calls(std::uint32_t tgid);

private:
    struct Program;
    explicit MappingList(std::unique_ptr<Program> program);
    // Only of processes that hold no lock for long: the exporter and its children.
    Result<std::vector<Mapping>> read(std::uint32_t tgid);

    std::unique_ptr<Program> program_;
    bool can_list_one_ = false;
};

}  // namespace gpusnoop::ebpf
