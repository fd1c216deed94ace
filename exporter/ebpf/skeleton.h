// Owns one BPF object with its maps and programs, as bpftool's skeleton describes it.
#pragma once

#include <memory>

namespace gpusnoop::ebpf {

// `S` is a generated skeleton (<name>_bpf): its static open/load/destroy are used. It keeps no
// links: attach through ebpf/attach/uprobe.h or ebpf/attach/link.h, and destroy those first.
template <typename S>
struct SkeletonDeleter {
    void operator()(S *skeleton) const { S::destroy(skeleton); }
};

template <typename S>
using Skeleton = std::unique_ptr<S, SkeletonDeleter<S>>;

}  // namespace gpusnoop::ebpf
