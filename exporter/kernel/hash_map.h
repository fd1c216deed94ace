// Reads BPF hash maps.
#pragma once

#include <bpf/bpf.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "exporter/base/result.h"

namespace gpusnoop::kernel {

// Calls use(key, value) for every entry of a hash map. Entries that come or go meanwhile may be
// seen or not.
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

}  // namespace gpusnoop::kernel
