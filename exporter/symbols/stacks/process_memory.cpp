#include "exporter/symbols/stacks/process_memory.h"

#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "exporter/base/read_file.h"

namespace gpusnoop::symbols {

// Addresses over the range of a signed size belong to no process.
Result<std::string> read_memory_at_once(std::uint32_t tgid, std::uint64_t address,
                                        std::size_t size) {
    std::string bytes(size, '\0');
    iovec local{bytes.data(), size};
    iovec remote{reinterpret_cast<void *>(address), size};
    const ssize_t got = ::process_vm_readv(static_cast<pid_t>(tgid), &local, 1, &remote, 1, 0);
    if (got < 0) {
        return fail_errno("read memory of a process");
    }
    bytes.resize(static_cast<std::size_t>(got));
    return bytes;
}

std::optional<std::uint64_t> read_word(std::uint32_t tgid, std::uint64_t address,
                                       const ReadMemory &read) {
    std::uint64_t word = 0;
    const auto bytes = read(tgid, address, sizeof(word));
    if (!bytes || bytes->size() != sizeof(word)) {
        return std::nullopt;
    }
    std::memcpy(&word, bytes->data(), sizeof(word));
    return word;
}

std::optional<std::string> read_string(std::uint32_t tgid, std::uint64_t address,
                                       std::size_t max_bytes, const ReadMemory &read) {
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    std::string text;
    while (text.size() < max_bytes) {
        const std::uint64_t from = address + text.size();
        const auto size = static_cast<std::size_t>(
            std::min<std::uint64_t>(page - from % page, max_bytes - text.size()));
        const std::size_t before = text.size();
        const auto bytes = read(tgid, from, size);
        if (!bytes || bytes->size() != size) {
            return std::nullopt;
        }
        text += *bytes;
        if (const std::size_t end = text.find('\0', before); end != std::string::npos) {
            text.resize(end);
            return text;
        }
    }
    return text;
}

std::optional<std::uint64_t> code_start_of(std::uint32_t tgid) {
    constexpr int field = 26;
    const std::string line = read_start("/proc/" + std::to_string(tgid) + "/stat").value_or("");
    // The second field is the process's name in parentheses, which may contain anything.
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
    // The kernel shows 0 to readers without the right, and 1 for processes that ended.
    return rest >> start && start > 1 ? std::optional(start) : std::nullopt;
}

}  // namespace gpusnoop::symbols
