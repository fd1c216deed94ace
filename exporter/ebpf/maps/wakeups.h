// What wakes the exporter while it rests, and does not look into its rings every few milliseconds.
#pragma once

#include <cstdint>
#include <vector>

struct bpf_object;

namespace gpusnoop::ebpf {

// Of one probe, as long as it is up.
struct Wakeups {
    std::vector<int> descriptors;  // readable when there is something to drain
    // How its programs submit their records (bpf/lib/emit.bpf.h). Null: they are not loaded.
    std::uint64_t *submit_flags = nullptr;

    // Whether the kernel makes the descriptors of rings readable at all. A record that is being
    // written meanwhile may still do as before.
    void want(bool is_wanted) const;
};

// Of loaded programs that write to these rings.
[[nodiscard]] Wakeups wakeups_of(const bpf_object *object, std::vector<int> rings);

}  // namespace gpusnoop::ebpf
