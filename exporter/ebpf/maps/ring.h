// Reads one BPF ring buffer. Not thread-safe: one thread reads a ring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "exporter/base/result.h"

namespace gpusnoop::ebpf {

class Ring {
public:
    // A record as the kernel laid it out; valid only during the call.
    using OnRecord = std::function<void(std::span<const std::byte>)>;

    // `map_fd` is a BPF_MAP_TYPE_RINGBUF; it must live as long as the Ring.
    static Result<std::unique_ptr<Ring>> open(int map_fd, OnRecord on_record);
    ~Ring();
    Ring(const Ring &) = delete;
    Ring &operator=(const Ring &) = delete;

    // Hands over the records up to a position of produced(). An unfinished record blocks the
    // records behind it; this waits for it, but not long. False: it took too long, or this was
    // called from its own callback.
    bool drain_to(std::uint64_t position);

    // Positions since the ring was made, in bytes. A record that begins before `produced()` is
    // complete and handed over once `consumed()` has passed it.
    [[nodiscard]] std::uint64_t produced() const;
    [[nodiscard]] std::uint64_t consumed() const;

    // The map.
    [[nodiscard]] int fd() const { return fd_; }

private:
    // Memory of the map, unmapped on destruction.
    class Mapping {
    public:
        Mapping(int map_fd, std::size_t size, bool is_writable, std::size_t offset);
        ~Mapping();
        Mapping(Mapping &&other) noexcept;
        Mapping &operator=(Mapping &&) = delete;

        [[nodiscard]] std::byte *address() const { return address_; }  // null: it failed

    private:
        std::byte *address_ = nullptr;
        std::size_t size_ = 0;
    };

    Ring(int fd, Mapping consumer, Mapping producer, std::size_t size, std::size_t page,
         OnRecord on_record);
    void drain(std::uint64_t position);
    [[nodiscard]] std::span<const std::byte> record(std::uint64_t at, std::size_t size);

    int fd_;
    // Memory of the map: the consumer position, which this class writes, and the producer position,
    // which the kernel writes, with the records behind it. (Mapped once. libbpf maps the records
    // twice, so that each is in one piece; but each mapping counts as resident memory.)
    Mapping consumer_;
    Mapping producer_;
    const std::byte *records_;
    std::size_t size_;  // of the records, a power of two
    OnRecord on_record_;
    bool draining_ = false;
    std::vector<std::byte> whole_;  // a record that wraps around the end of the ring
};

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
