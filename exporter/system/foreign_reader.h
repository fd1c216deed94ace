// A child process that opens and reads files and memory of other processes, and may get stuck
// instead of the exporter.
//
// The owner of a file can make every system call on it wait: by a lease, by a FIFO with the file's
// name, by a file system of its own that does not answer, or by a server that is gone. No signal
// ends some of these waits, and a process with a thread in one cannot end. So a child makes the
// calls that may wait. It is killed if it does not answer, and left behind if that does not help.
//
// Children are forked by a process that has one thread and none of this process's descriptors: no
// child keeps a BPF link attached, and starting one does not take longer the larger this process
// is.
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

// Asks one question at a time and waits for its answer, as long as the caller likes. For one
// thread.
class ForeignReader {
public:
    struct Answer {
        int error = 0;                    // errno; 0: done
        std::uint64_t number = 0;         // its meaning depends on the question
        std::uint64_t bytes = 0;          // of the file
        std::uint64_t inode = 0;          // of the file, as stat() shows it
        std::uint32_t device = 0;         // the same: MAJOR << 20 | MINOR
        std::uint32_t owner = 0;          // the same: its user
        std::chrono::nanoseconds took{};  // the child, since it has read the question
        std::chrono::nanoseconds ran{};   // of that, on a CPU
        Fd file;
    };

    // How much of a file copy() copies.
    enum class Part : std::uint32_t {
        symbols,           // all ELF tables, symbols and small sections
        symbols_and_code,  // the same, and executable code
        whole_text,        // all of a file that is no ELF file
    };

    // Starts the process that forks the children, which has the privileges that this process has
    // now. To be called before this process has threads; without it, the first start() does this.
    static Result<> prepare();
    // Waits until the child is ready. ETIMEDOUT: it was not after `most`. For any thread.
    static Result<std::unique_ptr<ForeignReader>> start(
        std::chrono::milliseconds most = std::chrono::seconds(30));
    // Kills the child, without waiting for its end.
    ~ForeignReader();
    ForeignReader(const ForeignReader &) = delete;
    ForeignReader &operator=(const ForeignReader &) = delete;

    // Opens the path. If `root` is not empty, the path is below it: symbolic links are resolved
    // inside it, and magic links are refused. Only a regular file (EINVAL), and only if no process
    // has a lease on it (EAGAIN). The answer has a descriptor that only names the file (O_PATH);
    // its number is the address at which the child has mapped the file, or 0.
    [[nodiscard]] Result<> open(std::string_view root, std::string_view path);
    // The same for the file behind a descriptor.
    [[nodiscard]] Result<> open(int fd);
    // The file that was opened last, for reading. Only for a file system that always answers:
    // closing the file may wait too.
    [[nodiscard]] Result<> take();
    // A copy of it in memory, with holes for the parts that are not needed; EFBIG if it is too
    // large.
    [[nodiscard]] Result<> copy(Part part);
    // Closes what was opened last.
    [[nodiscard]] Result<> close();
    // Memory of a process into buffer(); the number is how many bytes there are. 64 KiB at most.
    [[nodiscard]] Result<> read_memory(std::uint32_t tgid, std::uint64_t address, std::size_t size);
    // Where a symbolic link leads, into buffer(); the number is how many bytes that has.
    [[nodiscard]] Result<> read_link(std::string_view path);
    // What a descriptor gives at its next read, into buffer(); the number is how many bytes there
    // are, 0 at its end.
    [[nodiscard]] Result<> read_on(int fd);
    // Whether there is something of any kind at the path below a root; ENOENT if not.
    [[nodiscard]] Result<> find(std::string_view root, std::string_view path);
    // Opens a file of the kernel's below /proc, for reading on from it until close().
    [[nodiscard]] Result<> open_proc(std::string_view path);
    [[nodiscard]] Result<> read_on();

    // Empty: no answer yet. If the child has ended: an answer with the error EPIPE.
    [[nodiscard]] std::optional<Answer> wait(std::chrono::milliseconds most);
    [[nodiscard]] std::span<const std::byte> buffer() const;
    // Changes while the child makes progress with its work.
    [[nodiscard]] std::uint64_t progress() const;
    [[nodiscard]] pid_t pid() const { return pid_; }
    // Kills the child. True once it is gone.
    bool end();

private:
    struct Shared;
    explicit ForeignReader(Shared *shared) : shared_(shared) {}
    Result<> ask(std::uint32_t what, int fd = -1);
    Result<> name(std::string_view root, std::string_view path);

    Shared *shared_;
    Fd socket_;
    Fd process_;  // the child: after its end, its number may be another's
    pid_t pid_ = -1;
};

}  // namespace gpusnoop
