// Reads the kernel's log from /dev/kmsg.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"

namespace gpusnoop {

struct KernelLogLine {
    std::uint64_t number = 0;  // lines are counted from the start of the machine
    // A program wrote it to /dev/kmsg: the kernel gives the facility 0 only to lines of its own.
    bool written_by_program = false;
    std::string text;  // any bytes
};

// A record as a read of /dev/kmsg gives it: "6,339,5140900,-;NET: Registered\n SUBSYSTEM=net\n".
[[nodiscard]] std::optional<KernelLogLine> parse_kernel_log(std::string_view record);

// Not thread-safe.
class KernelLog {
public:
    // Begins behind the last line. Needs CAP_SYSLOG if the sysctl kernel.dmesg_restrict is 1.
    [[nodiscard]] static Result<KernelLog> open(const std::string &path = "/dev/kmsg");

    // `records` gives a record with each read, and does not wait for one.
    explicit KernelLog(Fd records) : fd_(std::move(records)) {}

    // Hands over the lines that have come since, at most `most`, without waiting.
    void read(std::size_t most, const std::function<void(const KernelLogLine &)> &on_line);

    // Readable when there are lines that were not read.
    [[nodiscard]] int fd() const { return fd_.get(); }

    // Lines that the kernel overwrote before they were read.
    [[nodiscard]] std::uint64_t lines_lost() const { return lines_lost_; }

private:
    Fd fd_;
    std::optional<std::uint64_t> last_;
    std::uint64_t lines_lost_ = 0;
};

}  // namespace gpusnoop
