#include "exporter/symbols/process_memory.h"

#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "exporter/base/read_file.h"

namespace gpusnoop::symbols {
namespace {

// Addresses past what a signed size can count are of no process.
bool read_exactly(std::uint32_t tgid, std::uint64_t address, void *to, std::size_t size) {
    iovec local{to, size};
    iovec remote{reinterpret_cast<void *>(address), size};
    const ssize_t got = ::process_vm_readv(static_cast<pid_t>(tgid), &local, 1, &remote, 1, 0);
    return got == static_cast<ssize_t>(size);
}

}  // namespace

std::optional<std::uint64_t> read_word(std::uint32_t tgid, std::uint64_t address) {
    std::uint64_t word = 0;
    return read_exactly(tgid, address, &word, sizeof(word)) ? std::optional(word) : std::nullopt;
}

std::optional<std::string> read_string(std::uint32_t tgid, std::uint64_t address,
                                       std::size_t max_bytes) {
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    std::string text;
    while (text.size() < max_bytes) {
        const std::uint64_t from = address + text.size();
        const auto size = static_cast<std::size_t>(
            std::min<std::uint64_t>(page - from % page, max_bytes - text.size()));
        const std::size_t before = text.size();
        text.resize(before + size);
        if (!read_exactly(tgid, from, text.data() + before, size)) {
            return std::nullopt;
        }
        if (const std::size_t end = text.find('\0', before); end != std::string::npos) {
            text.resize(end);
            return text;
        }
    }
    return std::nullopt;
}

std::optional<std::uint64_t> code_start_of(std::uint32_t tgid) {
    constexpr int field = 26;
    const std::string line = read_start("/proc/" + std::to_string(tgid) + "/stat").value_or("");
    // The second field is the process's name in parentheses, which may hold anything.
    const std::size_t name_end = line.rfind(')');
    if (name_end == std::string::npos) {
        return std::nullopt;
    }
    std::istringstream rest(line.substr(name_end + 1));
    std::string skipped;
    for (int i = 3; i < field; ++i) {
        rest >> skipped;
    }
    std::uint64_t start = 0;
    // 0 is shown to those who may not know, 1 for the processes that ended.
    return rest >> start && start > 1 ? std::optional(start) : std::nullopt;
}

}  // namespace gpusnoop::symbols
