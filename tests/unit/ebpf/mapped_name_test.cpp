// The names by which libraries are found.
#include <catch2/catch_test_macros.hpp>

#include "exporter/ebpf/mappings/mapping_list.h"

using gpusnoop::ebpf::mapped_name;

TEST_CASE("a mapped file has the last part of its path as its name") {
    CHECK(mapped_name("/usr/lib/libcudart.so.12") == "libcudart.so.12");
    CHECK(mapped_name("libcudart.so.12") == "libcudart.so.12");
    CHECK(mapped_name("") == "");
    CHECK(mapped_name("/") == "");
    CHECK(mapped_name("/tmp/libjvm.so (deleted)") == "libjvm.so");
    CHECK(mapped_name("/tmp/a (deleted)/libjvm.so") == "libjvm.so");
}

TEST_CASE("a file in memory has the name that the program gave it") {
    CHECK(mapped_name("/memfd:libnccl.so.2 (deleted)") == "libnccl.so.2");
    CHECK(mapped_name("memfd:libnccl.so.2") == "libnccl.so.2");
    CHECK(mapped_name("/memfd:/opt/lib/libnccl.so.2 (deleted)") == "libnccl.so.2");
    CHECK(mapped_name("memfd:/opt/lib/libnccl.so.2") == "libnccl.so.2");
    CHECK(mapped_name("/memfd: (deleted)") == "");
    CHECK(mapped_name("memfd") == "memfd");
}
