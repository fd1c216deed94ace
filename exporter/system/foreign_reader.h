// A process of our own that opens and reads what belongs to other processes, and may get stuck in
// it instead of us.
//
// The owner of a file can have every system call on it wait: by a lease, a FIFO in its place, a
// file system of its own that does not answer, or a server that is gone. Some of these waits end
// with no signal, and a process with a thread in one cannot end. So what may wait is done by a
// child, which is killed if it does not answer, and left behind if that does not help.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"

namespace gpusnoop {

// One question is asked at a time, and its answer waited for, as long as one likes. For one thread.
class ForeignReader {
public:
    struct Answer {
        int error = 0;              // errno; 0: done
        std::uint64_t number = 0;   // what it says depends on the question
        std::uint64_t bytes = 0;    // of the file
        std::uint64_t inode = 0;    // of the file, as stat() shows it
        std::uint32_t device = 0;   // the same: MAJOR << 20 | MINOR
        std::uint32_t file_system;  // magic number of the file's
        Fd file;
    };

    // How much of a file copy() copies.
    enum class Part : std::uint32_t {
        symbols,           // all that ELF files say of themselves, and small sections
        symbols_and_code,  // what can be executed as well
    };

    static Result<std::unique_ptr<ForeignReader>> start();
    // Kills the child, and does not wait for that.
    ~ForeignReader();
    ForeignReader(const ForeignReader &) = delete;
    ForeignReader &operator=(const ForeignReader &) = delete;

    // Opens the path, below `root` unless that is empty: then without symbolic links out of it, and
    // without magic ones. Only a regular file (EINVAL), and only if nobody has a lease on it
    // (EAGAIN). The answer has a descriptor that only names it (O_PATH), and as number, the address
    // at which the child has mapped it, or 0. With `with_file_system` also that.
    [[nodiscard]] Result<> open(std::string_view root, std::string_view path,
                                bool with_file_system = false);
    // The same for what a descriptor stands for.
    [[nodiscard]] Result<> open(int fd);
    // The file that was opened last, for reading. Only of a file system that always answers: it has
    // to be closed one day.
    [[nodiscard]] Result<> take();
    // A copy of it in memory with holes where there is nothing of use; EFBIG if there is too much.
    [[nodiscard]] Result<> copy(Part part);
    // Closes what was opened last.
    [[nodiscard]] Result<> close();
    // Memory of a process into buffer(); the number is how many bytes there are. 64 KiB at most.
    [[nodiscard]] Result<> read_memory(std::uint32_t tgid, std::uint64_t address, std::size_t size);

    // Empty: not yet. When there is no child any more, an answer with the error EPIPE.
    [[nodiscard]] std::optional<Answer> wait(std::chrono::milliseconds most);
    [[nodiscard]] std::span<const std::byte> buffer() const;
    // Changes while the child gets on with what it was asked.
    [[nodiscard]] std::uint64_t progress() const;
    [[nodiscard]] pid_t pid() const { return pid_; }
    // Kills the child. True once it is gone.
    bool end();

private:
    struct Shared;
    ForeignReader(Shared *shared, Fd socket, pid_t pid);
    Result<> ask(std::uint32_t what, int fd = -1);

    Shared *shared_;
    Fd socket_;
    pid_t pid_;
    bool is_gone_ = false;
};

}  // namespace gpusnoop
