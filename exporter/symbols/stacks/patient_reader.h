// Reads programs and memory of processes, with an answer in a second whatever they do.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/processes/file_opener.h"
#include "exporter/system/foreign_reader.h"

namespace gpusnoop::symbols {

// A process whose memory or program does not answer costs a second once. Then nothing is asked of
// it for a while, and until the child that waits for it is gone. Used by one thread.
class PatientReader {
public:
    using Clock = std::chrono::steady_clock;

    explicit PatientReader(Clock::duration leave_alone = std::chrono::minutes(1))
        : leave_alone_(leave_alone) {}

    // The program at `path`, if it has the inode and the size. `answers` says of its file system
    // whether reading a file of it never waits for others.
    [[nodiscard]] Result<processes::MappedFile> open_program(
        std::uint32_t tgid, const std::string &path, std::uint64_t inode, std::uint64_t bytes,
        const std::function<bool(std::uint32_t file_system)> &answers);
    // Whether it is that program.
    [[nodiscard]] bool is_program(std::uint32_t tgid, const std::string &path, std::uint64_t inode,
                                  std::uint64_t bytes);
    [[nodiscard]] Result<std::string> read_memory(std::uint32_t tgid, std::uint64_t address,
                                                  std::size_t size);

    // Ends the child, which keeps memory.
    void rest() { reader_.reset(); }

private:
    struct Stuck {
        std::unique_ptr<ForeignReader> reader;  // until its child is gone
        std::uint32_t tgid;
        Clock::time_point until;  // its process is left alone
    };

    // Opened by the child.
    Result<ForeignReader::Answer> find_program(std::uint32_t tgid, const std::string &path,
                                               std::uint64_t inode, std::uint64_t bytes);
    Result<> prepare(std::uint32_t tgid);
    Result<ForeignReader::Answer> answer(std::uint32_t tgid, const Result<> &asked);

    Clock::duration leave_alone_;
    std::unique_ptr<ForeignReader> reader_;
    std::vector<Stuck> stuck_;
};

}  // namespace gpusnoop::symbols
