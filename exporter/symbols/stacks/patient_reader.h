// Reads executables and memory of processes, and returns within a second whatever they do.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/base/work_limit.h"
#include "exporter/processes/file_opener.h"
#include "exporter/system/foreign_reader.h"

namespace gpusnoop::symbols {

// Small reads from the memory of another process. The process may end, or change its memory, at any
// time.

// Up to `size` bytes from `address`. Waits for the process if it handles its own page faults.
using ReadMemory =
    std::function<Result<std::string>(std::uint32_t tgid, std::uint64_t address, std::size_t size)>;
[[nodiscard]] Result<std::string> read_memory_at_once(std::uint32_t tgid, std::uint64_t address,
                                                      std::size_t size);

// 8 bytes at `address`; empty if they cannot be read.
[[nodiscard]] std::optional<std::uint64_t> read_word(std::uint32_t tgid, std::uint64_t address,
                                                     const ReadMemory &read = read_memory_at_once);

// The bytes at `address` up to the next NUL, or `max_bytes` of them if it is not among these; empty
// if they cannot be read. Reads page by page: the page after the NUL may not be mapped.
[[nodiscard]] std::optional<std::string> read_string(std::uint32_t tgid, std::uint64_t address,
                                                     std::size_t max_bytes,
                                                     const ReadMemory &read = read_memory_at_once);

// Where the code of a process's executable begins (mm->start_code); empty if the process has ended
// or may not be read.
[[nodiscard]] std::optional<std::uint64_t> code_start_of(std::uint32_t tgid);

// A process whose memory or executable does not answer costs a second once. It is not read again
// for a while, and not before the child that waits for it has ended. Used by one thread.
class PatientReader {
public:
    using Clock = std::chrono::steady_clock;

    explicit PatientReader(Clock::duration leave_alone = std::chrono::minutes(1))
        : leave_alone_(leave_alone) {}

    // Whether reads of the file that a child has opened and mapped at this address never wait for
    // others; an error if it is another file than the one that was asked for.
    using Identify =
        std::function<Result<bool>(std::uint32_t child, const ForeignReader::Answer &opened)>;
    // The executable at `path`, if it has this inode and size, and `identify` knows it.
    [[nodiscard]] Result<processes::MappedFile> open_program(std::uint32_t tgid,
                                                             const std::string &path,
                                                             std::uint64_t inode,
                                                             std::uint64_t bytes,
                                                             const Identify &identify);
    // Whether the process runs that executable.
    [[nodiscard]] bool is_program(std::uint32_t tgid, const std::string &path, std::uint64_t inode,
                                  std::uint64_t bytes);
    // A copy of the file at `path` below the process's root, if the process's user owns it; 64 MiB
    // at most.
    [[nodiscard]] Result<Fd> copy_text(std::uint32_t tgid, const std::string &path);
    [[nodiscard]] Result<std::string> read_memory(std::uint32_t tgid, std::uint64_t address,
                                                  std::size_t size);

    // Nothing above waits beyond this limit. At first, there is none.
    void set_limit(const WorkLimit &limit) { limit_ = limit; }

    // Ends the child, which uses memory.
    void rest() { reader_.reset(); }

private:
    struct Stuck {
        std::unique_ptr<ForeignReader> reader;  // until its child has ended
        std::uint32_t tgid;
        std::optional<std::uint32_t> user;
        Clock::time_point until;  // its process is not read before
    };

    // Opened by the child process.
    Result<ForeignReader::Answer> find_program(std::uint32_t tgid, const std::string &path,
                                               std::uint64_t inode, std::uint64_t bytes);
    Result<> prepare(std::uint32_t tgid);
    Result<ForeignReader::Answer> answer(std::uint32_t tgid, const Result<> &asked);

    Clock::duration leave_alone_;
    WorkLimit limit_;
    std::unique_ptr<ForeignReader> reader_;
    std::optional<std::uint32_t> user_;  // of the process that is read
    std::vector<Stuck> stuck_;
};

}  // namespace gpusnoop::symbols
