#include "exporter/ebpf/kernel_types.h"

#include <bpf/btf.h>

#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <utility>

using gpusnoop::ebpf::SharedKernelTypes;

TEST_CASE("the kernel's types are read once while they are shared, and stay while they are used") {
    std::optional<SharedKernelTypes> shared(std::in_place);
    btf *const one = btf__load_vmlinux_btf();
    if (one == nullptr) {
        SKIP("this kernel has no types to read");
    }
    btf *const two = btf__load_vmlinux_btf();
    CHECK(two == one);
    btf__free(two);
    shared.reset();
    CHECK(btf__find_by_name_kind(one, "task_struct", BTF_KIND_STRUCT) > 0);
    btf *const own = btf__load_vmlinux_btf();
    CHECK(own != one);
    btf__free(own);
    btf__free(one);
}
