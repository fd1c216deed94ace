// Lets all BPF objects share one copy of the kernel's types.
#pragma once

namespace gpusnoop::ebpf {

// libbpf reads and indexes all types of the kernel, some 5 MB, for each object that it loads, which
// took a third of the exporter's start. While one of these lives, it does so once. For any thread.
class SharedKernelTypes {
public:
    SharedKernelTypes();
    ~SharedKernelTypes();
    SharedKernelTypes(const SharedKernelTypes &) = delete;
    SharedKernelTypes &operator=(const SharedKernelTypes &) = delete;
};

}  // namespace gpusnoop::ebpf
