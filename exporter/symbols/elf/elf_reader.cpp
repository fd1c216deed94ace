#include "exporter/symbols/elf/elf_reader.h"

#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <string>

#include "exporter/system/machine.h"

namespace gpusnoop::symbols {
namespace {

// How many steps of work pass between two checks of the clock.
constexpr std::uint64_t steps_per_look = 65'536;

}  // namespace

Result<> ElfReader::check_deadline() const {
    if (limits_.work.is_reached() || std::chrono::steady_clock::now() >= expires_) {
        return fail("reading it takes too long", ETIMEDOUT);
    }
    if (limits_.cpu_until && now_on(CLOCK_THREAD_CPUTIME_ID) >= *limits_.cpu_until) {
        return fail("reading it takes too much CPU time", ETIMEDOUT);
    }
    if (limits_.others_wait()) {
        return fail("files of others came first", EAGAIN);
    }
    return {};
}

Result<> ElfReader::work(std::uint64_t steps) {
    steps_ += steps;
    if (steps_ < steps_per_look) {
        return {};
    }
    steps_ = 0;
    return check_deadline();
}

Result<> ElfReader::read(std::uint64_t offset, std::span<std::byte> out) {
    if (!lies_inside(offset, out.size(), file_size_)) {
        return fail("it refers to bytes past its end");
    }
    if (out.size() > limits_.max_bytes_read - bytes_read_) {
        return fail(
            "it needs more than " + std::to_string(limits_.max_bytes_read) + " bytes of reading",
            EFBIG);
    }
    bytes_read_ += out.size();
    if (auto in_time = check_deadline(); !in_time) {
        return in_time;
    }
    while (!out.empty()) {
        const ssize_t got = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
        if (got < 0) {
            if (errno == EINTR) {
                continue;
            }
            return fail_errno("read");
        }
        if (got == 0) {
            return fail("it was truncated while it was read");
        }
        out = out.subspan(static_cast<std::size_t>(got));
        offset += static_cast<std::uint64_t>(got);
    }
    return {};
}

}  // namespace gpusnoop::symbols
