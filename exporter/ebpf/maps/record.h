// Copies a record out of the raw bytes of a ring, and checks its size.
#pragma once

#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

namespace gpusnoop::ebpf {

// The record, or empty if the bytes are not exactly one.
template <typename T>
    requires std::is_trivially_copyable_v<T>
[[nodiscard]] std::optional<T> decode(std::span<const std::byte> bytes) {
    if (bytes.size() != sizeof(T)) {
        return std::nullopt;
    }
    T record;
    std::memcpy(&record, bytes.data(), sizeof(T));
    return record;
}

}  // namespace gpusnoop::ebpf
