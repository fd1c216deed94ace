// Reads BPF hash maps, in one of three ways.
#pragma once

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/ebpf/libbpf.h"
#include "exporter/ebpf/mappings/iterator.h"

namespace gpusnoop::ebpf {

// Calls use(key, value) for every entry of a hash map. Entries added or deleted meanwhile may be
// seen or not. While the kernel walks the map, it runs no kprobe programs on that CPU
// (bpf_disable_instrumentation()). The walk can be preempted, so that can take long.
template <typename Key, typename Value, typename Use>
Result<> for_each(int map, Use use) {
    constexpr std::size_t batch_size = 4'096;
    std::vector<Key> keys(batch_size);
    std::vector<Value> values(batch_size);
    std::uint32_t position = 0;
    std::uint32_t *from = nullptr;
    while (true) {
        auto count = static_cast<std::uint32_t>(batch_size);
        const int error =
            bpf_map_lookup_batch(map, from, &position, keys.data(), values.data(), &count, nullptr);
        if (error != 0 && error != -ENOENT) {
            return fail_errno("read a BPF map", -error);
        }
        for (std::uint32_t i = 0; i < count; i++) {
            use(keys[i], values[i]);
        }
        if (error == -ENOENT) {
            return {};
        }
        from = &position;
    }
}

// For a small map that is read often: looks up each entry by itself, for the moment of which the
// kernel runs no kprobe programs on that CPU. An entry may be seen twice, if others are deleted
// meanwhile, or not at all; `most` ends that.
template <typename Key, typename Value, typename Use>
Result<> for_each_lookup(int map, std::size_t most, Use use) {
    Key key;
    Value value;
    const Key *before = nullptr;
    for (std::size_t i = 0; i < most; i++) {
        if (const int error = bpf_map_get_next_key(map, before, &key); error != 0) {
            return error == -ENOENT ? Result<>() : fail_errno("read a BPF map", -error);
        }
        before = &key;
        if (bpf_map_lookup_elem(map, &key, &value) == 0) {
            use(key, value);
        }
    }
    return {};
}

// For the third way, which disables no programs: a program at iter/bpf_map_elem that writes an
// entry's key and then its value. Some kernels of cloud machines refuse such programs, even to
// root, with EPERM: where can_link_to_entries() is false, they cannot be loaded.
[[nodiscard]] bool can_link_to_entries();
Result<Link> link_to_entries(const bpf_program *program, int map);

// As for_each(), but an entry may be seen twice if others are added meanwhile.
template <typename Key, typename Value, typename Use>
    requires std::is_trivially_copyable_v<Key> && std::is_trivially_copyable_v<Value>
Result<> for_each_entry(const Link &entries, Use use) {
    return read_iterator(bpf_link__fd(entries.get()), sizeof(Key) + sizeof(Value),
                         [&](std::span<const std::byte> bytes) {
                             Key key;
                             Value value;
                             std::memcpy(&key, bytes.data(), sizeof(key));
                             std::memcpy(&value, bytes.data() + sizeof(key), sizeof(value));
                             use(key, value);
                         });
}

}  // namespace gpusnoop::ebpf
