#include "exporter/symbols/exits/forwarders.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>

#include "exporter/symbols/exits/first_bytes.h"

namespace gpusnoop::symbols {
namespace {

template <std::size_t kCount>
bool skip(std::span<const std::byte> &code, const std::array<std::uint8_t, kCount> &prefix) {
    if (code.size() < kCount || std::memcmp(code.data(), prefix.data(), kCount) != 0) {
        return false;
    }
    code = code.subspan(kCount);
    return true;
}

// What compilers make of `return other(...)`, without and with frame pointers.
std::optional<std::uint64_t> forwarded_on_x86(std::span<const std::byte> code,
                                              std::uint64_t vaddr) {
    const std::size_t all = code.size();
    skip(code, std::array<std::uint8_t, 4>{0xf3, 0x0f, 0x1e, 0xfa});        // endbr64
    skip(code, std::array<std::uint8_t, 5>{0x55, 0x48, 0x89, 0xe5, 0x5d});  // push, mov, pop
    if (!skip(code, std::array<std::uint8_t, 1>{0xe9})) {                   // jmp
        return std::nullopt;
    }
    std::int32_t distance = 0;
    if (code.size() < sizeof distance) {
        return std::nullopt;
    }
    std::memcpy(&distance, code.data(), sizeof distance);
    const std::uint64_t next = vaddr + (all - code.size()) + sizeof distance;
    return next + static_cast<std::uint64_t>(std::int64_t{distance});
}

std::optional<std::uint64_t> forwarded_on_arm64(std::span<const std::byte> code,
                                                std::uint64_t vaddr) {
    const std::size_t all = code.size();
    skip(code, std::array<std::uint8_t, 4>{0x5f, 0x24, 0x03, 0xd5});  // bti c
    std::uint32_t instruction = 0;
    if (code.size() < sizeof instruction) {
        return std::nullopt;
    }
    std::memcpy(&instruction, code.data(), sizeof instruction);
    if (instruction >> 26 != 0b000101) {  // B
        return std::nullopt;
    }
    // 26 bits, signed, in units of 4 bytes.
    const std::int64_t distance = static_cast<std::int32_t>(instruction << 6) >> 4;
    return vaddr + (all - code.size()) + static_cast<std::uint64_t>(distance);
}

}  // namespace

std::optional<std::uint64_t> forwarded_to(std::span<const std::byte> code, std::uint64_t vaddr,
                                          std::uint16_t machine) {
    return machine == EM_X86_64 ? forwarded_on_x86(code, vaddr) : forwarded_on_arm64(code, vaddr);
}

std::vector<std::optional<std::uint64_t>> find_forwarders(
    const ElfFile &file, int fd, std::span<const FoundFunction> functions) {
    std::unordered_map<std::uint64_t, std::uint64_t> by_vaddr;
    for (const FoundFunction &function : functions) {
        by_vaddr.emplace(function.vaddr, function.file_offset);
    }
    const auto bytes = first_bytes(fd, functions);
    std::vector<std::optional<std::uint64_t>> all(functions.size());
    for (std::size_t i = 0; i < functions.size(); ++i) {
        const auto target = forwarded_to(bytes[i], functions[i].vaddr, file.machine());
        const auto other = target ? by_vaddr.find(*target) : by_vaddr.end();
        if (other != by_vaddr.end() && other->second != functions[i].file_offset) {
            all[i] = other->second;
        }
    }
    return all;
}

}  // namespace gpusnoop::symbols
