#include "exporter/ebpf/maps/wakeups.h"

#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include <cstddef>
#include <utility>

namespace gpusnoop::ebpf {

void Wakeups::want(bool is_wanted) const {
    if (submit_flags != nullptr) {
        const std::uint64_t flags = is_wanted ? 0 : BPF_RB_NO_WAKEUP;
        __atomic_store_n(submit_flags, flags, __ATOMIC_SEQ_CST);
    }
}

Wakeups wakeups_of(const bpf_object *object, std::vector<int> rings) {
    const bpf_map *const map = bpf_object__find_map_by_name(object, ".data.wakeups");
    std::size_t bytes = 0;
    void *const flags = map == nullptr ? nullptr : bpf_map__initial_value(map, &bytes);
    return {std::move(rings),
            bytes == sizeof(std::uint64_t) ? static_cast<std::uint64_t *>(flags) : nullptr};
}

}  // namespace gpusnoop::ebpf
