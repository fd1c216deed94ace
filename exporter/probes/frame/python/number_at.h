// Numbers in bytes that were read of a process.
#pragma once

#include <cstddef>
#include <cstring>
#include <string_view>

namespace gpusnoop::probes {

// 0 where the bytes end before it.
template <typename Number>
[[nodiscard]] Number number_at(std::string_view bytes, std::size_t offset) {
    Number number{};
    if (offset + sizeof(number) <= bytes.size()) {
        std::memcpy(&number, bytes.data() + offset, sizeof(number));
    }
    return number;
}

}  // namespace gpusnoop::probes
