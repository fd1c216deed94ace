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
