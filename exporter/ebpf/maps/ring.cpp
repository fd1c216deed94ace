#include "exporter/ebpf/maps/ring.h"

#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace gpusnoop::ebpf {

namespace {

// A record follows a header of 8 bytes, whose first 4 are its size and its state, and takes a
// multiple of 8 bytes.
constexpr std::size_t header_bytes = BPF_RINGBUF_HDR_SZ;

constexpr std::uint64_t rounded(std::uint64_t bytes) {
    return (bytes + 7) / 8 * 8;
}

template <typename Number>
Number load(const std::byte *address) {
    return __atomic_load_n(reinterpret_cast<const Number *>(address), __ATOMIC_ACQUIRE);
}

}  // namespace

Ring::Mapping::Mapping(int map_fd, std::size_t size, bool is_writable, std::size_t offset)
    : size_(size) {
    void *const address = ::mmap(nullptr, size, is_writable ? PROT_READ | PROT_WRITE : PROT_READ,
                                 MAP_SHARED, map_fd, static_cast<off_t>(offset));
    address_ = address == MAP_FAILED ? nullptr : static_cast<std::byte *>(address);
}

Ring::Mapping::~Mapping() {
    if (address_ != nullptr) {
        ::munmap(address_, size_);
    }
}

Ring::Mapping::Mapping(Mapping &&other) noexcept
    : address_(std::exchange(other.address_, nullptr)), size_(other.size_) {}

Ring::Ring(int fd, Mapping consumer, Mapping producer, std::size_t size, std::size_t page,
           OnRecord on_record)
    : fd_(fd),
      consumer_(std::move(consumer)),
      producer_(std::move(producer)),
      records_(producer_.address() + page),
      size_(size),
      on_record_(std::move(on_record)) {}

Ring::~Ring() = default;

Result<std::unique_ptr<Ring>> Ring::open(int map_fd, OnRecord on_record) {
    bpf_map_info info{};
    std::uint32_t length = sizeof info;
    if (bpf_map_get_info_by_fd(map_fd, &info, &length) != 0) {
        return fail_errno("read the size of a ring buffer");
    }
    if (info.type != BPF_MAP_TYPE_RINGBUF) {
        return fail("not a ring buffer map", EINVAL);
    }
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    Mapping consumer(map_fd, page, true, 0);
    if (consumer.address() == nullptr) {
        return fail_errno("map a ring buffer");
    }
    Mapping producer(map_fd, page + info.max_entries, false, page);
    if (producer.address() == nullptr) {
        return fail_errno("map a ring buffer");
    }
    return std::unique_ptr<Ring>(new Ring(map_fd, std::move(consumer), std::move(producer),
                                          info.max_entries, page, std::move(on_record)));
}

// The record in one piece.
std::span<const std::byte> Ring::record(std::uint64_t at, std::size_t size) {
    const std::size_t start = at & (size_ - 1);
    const std::size_t until_end = std::min(size, size_ - start);
    if (until_end == size) {
        return {records_ + start, size};
    }
    whole_.assign(records_ + start, records_ + start + until_end);
    whole_.insert(whole_.end(), records_, records_ + (size - until_end));
    return whole_;
}

void Ring::drain(std::uint64_t position) {
    if (draining_) {
        return;  // called from its own callback
    }
    draining_ = true;
    // Only up to the position: producers could write as fast as this thread reads.
    const std::uint64_t end = std::min(position, produced());
    for (std::uint64_t at = consumed(); at < end;) {
        const auto header = load<std::uint32_t>(records_ + (at & (size_ - 1)));
        if ((header & BPF_RINGBUF_BUSY_BIT) != 0) {
            break;
        }
        const std::size_t size = header & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);
        if ((header & BPF_RINGBUF_DISCARD_BIT) == 0) {
            on_record_(record(at + header_bytes, size));
        }
        at += rounded(header_bytes + size);
        // The kernel may overwrite the records before this position.
        __atomic_store_n(reinterpret_cast<std::uint64_t *>(consumer_.address()), at,
                         __ATOMIC_RELEASE);
    }
    draining_ = false;
}

bool Ring::drain_to(std::uint64_t position) {
    // Writing a record takes well under a microsecond, unless its CPU is taken away.
    constexpr int tries = 1000;
    for (int i = 0; i < tries && !draining_; i++) {
        if (consumed() >= position) {
            return true;
        }
        drain(position);
        if (consumed() < position) {
            std::this_thread::yield();
        }
    }
    return consumed() >= position;
}

std::uint64_t Ring::produced() const {
    return load<std::uint64_t>(producer_.address());
}

std::uint64_t Ring::consumed() const {
    return load<std::uint64_t>(consumer_.address());
}

}  // namespace gpusnoop::ebpf
