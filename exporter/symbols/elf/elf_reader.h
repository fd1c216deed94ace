// Reads a file that another process may be changing: bounded in bytes and in time, never mapped
// (reading a truncated mapping raises SIGBUS).
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/base/work_limit.h"

namespace gpusnoop::symbols {

// The limits of one call on an ElfFile. The defaults are several times the needs of the largest
// libraries in use (libtorch, Chromium with symbols).
struct ElfLimits {
    std::uint64_t max_bytes_read = std::uint64_t{1} << 30;      // bytes
    std::uint64_t max_string_table = std::uint64_t{256} << 20;  // bytes of one string table
    std::uint64_t max_symbols = 10'000'000;                     // entries of one symbol table
    std::chrono::steady_clock::duration deadline = std::chrono::seconds(2);
    // For all calls together, on the calling thread's CPU clock (CLOCK_THREAD_CPUTIME_ID).
    std::optional<std::chrono::nanoseconds> cpu_until = {};
    WorkLimit work = {};  // for all calls together
    // Asked every few milliseconds while it is read. True: others wait for this thread, and reading
    // it fails with EAGAIN.
    std::function<bool()> others_wait = [] { return false; };
};

// True if [offset, offset + size) lies inside [0, limit); safe for any values.
[[nodiscard]] constexpr bool lies_inside(std::uint64_t offset, std::uint64_t size,
                                         std::uint64_t limit) {
    return offset <= limit && size <= limit - offset;
}

// One piece of work on one file: it adds up the bytes read and the time taken. Borrows `fd`.
class ElfReader {
public:
    ElfReader(int fd, std::uint64_t file_size, const ElfLimits &limits)
        : fd_(fd),
          file_size_(file_size),
          limits_(limits),
          expires_(std::chrono::steady_clock::now() + limits.deadline) {}

    [[nodiscard]] std::uint64_t file_size() const { return file_size_; }
    [[nodiscard]] const ElfLimits &limits() const { return limits_; }

    // Fills `out` from `offset`; an error if the file is shorter, or a limit is reached.
    [[nodiscard]] Result<> read(std::uint64_t offset, std::span<std::byte> out);

    template <typename T>
        requires std::is_trivially_copyable_v<T>
    [[nodiscard]] Result<T> read_one(std::uint64_t offset) {
        T value{};
        auto done = read(offset, std::as_writable_bytes(std::span(&value, 1)));
        if (!done) {
            return tl::unexpected(done.error());
        }
        return value;
    }

    // Counts work that reads nothing, so that loops over bytes in memory meet the deadline, too.
    [[nodiscard]] Result<> work(std::uint64_t steps);

    // Calls `visit` for each of the `count` records of type T at `offset` until it returns false.
    // At most chunk_bytes are in memory at a time.
    template <typename T, std::predicate<const T &> Visit>
        requires std::is_trivially_copyable_v<T>
    [[nodiscard]] Result<> for_each(std::uint64_t offset, std::uint64_t count, Visit visit) {
        if (count > file_size_ / sizeof(T) || !lies_inside(offset, count * sizeof(T), file_size_)) {
            return fail("a table lies outside the file");
        }
        constexpr std::uint64_t per_chunk = chunk_bytes / sizeof(T);
        std::vector<T> chunk;
        while (count > 0) {
            chunk.resize(static_cast<std::size_t>(std::min(count, per_chunk)));
            auto done = read(offset, std::as_writable_bytes(std::span(chunk)));
            if (!done) {
                return done;
            }
            for (const T &record : chunk) {
                if (!visit(record)) {
                    return {};
                }
            }
            offset += chunk.size() * sizeof(T);
            count -= chunk.size();
        }
        return {};
    }

    static constexpr std::uint64_t chunk_bytes = 256 * 1024;

private:
    [[nodiscard]] Result<> check_deadline() const;

    int fd_;
    std::uint64_t file_size_;
    ElfLimits limits_;
    std::chrono::steady_clock::time_point expires_;
    std::uint64_t bytes_read_ = 0;
    std::uint64_t steps_ = 0;
};

}  // namespace gpusnoop::symbols
