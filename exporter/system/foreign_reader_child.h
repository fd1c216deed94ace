// The child process of a ForeignReader, and the process that forks it. That one may itself be
// forked from a process with threads, so both only make system calls: they allocate no memory and
// take no lock.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpusnoop::reader {

constexpr std::uint32_t open_job = 1;
constexpr std::uint32_t open_again_job = 2;
constexpr std::uint32_t take_job = 3;
constexpr std::uint32_t copy_job = 4;
constexpr std::uint32_t read_memory_job = 5;
constexpr std::uint32_t close_job = 6;
constexpr std::uint32_t read_on_job = 7;
constexpr std::uint32_t read_link_job = 8;
constexpr std::uint32_t open_proc_job = 9;
constexpr std::uint32_t find_job = 10;

// The most bytes copied of one file, with and without its code: enough for the largest libraries in
// use.
constexpr std::uint64_t max_copied = std::uint64_t{192} << 20;
constexpr std::uint64_t max_copied_symbols = std::uint64_t{64} << 20;
constexpr std::uint64_t max_copied_text = std::uint64_t{64} << 20;
// A section that is neither code nor symbols is copied if it is smaller.
constexpr std::uint64_t max_small_section = std::uint64_t{16} << 20;

// The question and its answer. A byte on the socket says that it is complete.
struct Shared {
    std::uint32_t what;
    bool with_code;
    bool is_text;
    std::uint32_t tgid;
    std::uint64_t address;
    std::uint64_t size;
    char root[64];
    char path[8192];

    int error;
    bool has_file;
    std::uint64_t number;
    std::uint64_t bytes;
    std::uint64_t inode;
    std::uint32_t device;
    std::uint32_t owner;
    std::atomic<std::uint64_t> progress;
    std::int64_t took_ns;  // from the question to the answer
    std::int64_t ran_ns;   // of that, on a CPU
    std::byte buffer[64 * 1024];
};

// A reader gets its memory (Shared) and its socket, a keeper of files (file_keeper.h) its socket.
enum class Child : std::uint32_t { reader, keeper };

// A request for a child, with its descriptors.
struct ForkRequest {
    Child kind;
    int niceness;  // of the thread that asks: the child gets the same
};

// The answer, with a descriptor of its process (a pidfd).
struct Forked {
    int error;  // errno; 0: there is a child
    pid_t pid;
};

// As fork(), and a descriptor of the child that can be of no other process.
[[nodiscard]] pid_t fork_with_descriptor(int &process);
// Closes the descriptors from the first to the last.
void close_between(int first, int last);

// Closes all other descriptors, says so with a byte, and forks a child for each request. Ends with
// its parent, once the children are gone that do not get stuck.
[[noreturn]] void fork_children(int socket);

// Copies the useful parts of the ELF file to `copy`, which gets the file's size. Of any other file,
// copies the first bytes. Returns an errno.
[[nodiscard]] int copy_elf(int file, std::uint64_t bytes, int copy, bool with_code, Shared &shared);
// Copies all of a file, of at most max_copied_text.
[[nodiscard]] int copy_text(int file, std::uint64_t bytes, int copy, Shared &shared);

}  // namespace gpusnoop::reader
