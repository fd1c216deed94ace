// Owns one attachment made by libbpf; detaches it when destroyed.
#pragma once

#include <memory>

struct bpf_link;

namespace gpusnoop::ebpf {

struct LinkDeleter {
    void operator()(bpf_link *link) const;
};

using Link = std::unique_ptr<bpf_link, LinkDeleter>;

}  // namespace gpusnoop::ebpf
