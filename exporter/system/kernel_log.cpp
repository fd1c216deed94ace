#include "exporter/system/kernel_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <system_error>

namespace gpusnoop {

namespace {

// The kernel's own limit of a record with its properties (CONSOLE_EXT_LOG_MAX,
// PRINTKRB_RECORD_MAX).
constexpr std::size_t max_record_bytes = 8192;

// Removes a decimal number and the character `end` behind it.
std::optional<std::uint64_t> cut_number(std::string_view &text, char end) {
    std::uint64_t number = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const auto digits = static_cast<std::size_t>(stop - text.data());
    if (error != std::errc() || digits == text.size() || text[digits] != end) {
        return std::nullopt;
    }
    text.remove_prefix(digits + 1);
    return number;
}

// The kernel writes bytes that are not printable, and backslashes, as \xNN.
std::string without_escapes(std::string_view text) {
    std::string bytes;
    bytes.reserve(text.size());
    while (!text.empty()) {
        unsigned value = 0;
        if (text.size() >= 4 && text.starts_with("\\x")) {
            const auto [stop, error] = std::from_chars(text.data() + 2, text.data() + 4, value, 16);
            if (error == std::errc() && stop == text.data() + 4) {
                bytes += static_cast<char>(value);
                text.remove_prefix(4);
                continue;
            }
        }
        bytes += text.front();
        text.remove_prefix(1);
    }
    return bytes;
}

}  // namespace

std::optional<KernelLogLine> parse_kernel_log(std::string_view record) {
    constexpr unsigned level_bits = 3;
    const auto priority = cut_number(record, ',');
    const auto number = priority ? cut_number(record, ',') : std::nullopt;
    const std::size_t head_end = record.find(';');
    if (!number || head_end == std::string_view::npos) {
        return std::nullopt;
    }
    const std::string_view text = record.substr(head_end + 1);
    return KernelLogLine{*number, *priority >> level_bits != 0,
                         without_escapes(text.substr(0, text.find('\n')))};
}

Result<KernelLog> KernelLog::open(const std::string &path) {
    Fd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!fd) {
        return fail_errno("open " + path);
    }
    if (::lseek(fd.get(), 0, SEEK_END) < 0) {
        return fail_errno("seek to the end of " + path);
    }
    return KernelLog(std::move(fd));
}

void KernelLog::read(std::size_t most, const std::function<void(const KernelLogLine &)> &on_line) {
    std::array<char, max_record_bytes> bytes{};
    for (std::size_t i = 0; i < most; i++) {
        const ssize_t size = ::read(fd_.get(), bytes.data(), bytes.size());
        if (size < 0 && (errno == EPIPE || errno == EINTR)) {
            continue;  // EPIPE: lines were overwritten; the next read gives the oldest that is left
        }
        if (size <= 0) {
            return;
        }
        const auto line = parse_kernel_log({bytes.data(), static_cast<std::size_t>(size)});
        if (!line) {
            continue;
        }
        if (last_ && line->number > *last_ + 1) {
            lines_lost_ += line->number - *last_ - 1;
        }
        last_ = line->number;
        on_line(*line);
    }
}

}  // namespace gpusnoop
