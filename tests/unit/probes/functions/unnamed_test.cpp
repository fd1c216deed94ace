// Functions of groups in files that no group names.
#include "exporter/probes/functions/select/unnamed.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "tests/unit/symbols/elf/elf_image.h"

using namespace gpusnoop;
using namespace gpusnoop::test;
using probes::UnnamedExports;
using Exports = std::vector<UnnamedExports>;

namespace {

Exports exports_of(const ElfImage &image, const std::string &name,
                   const probes::FunctionGroups &groups = probes::shipped_function_groups()) {
    const Fd fd = file_of(image.bytes());
    const auto found = probes::unnamed_exports(fd.get(), name, "/opt/" + name, groups);
    REQUIRE(found);
    return *found;
}

ElfImage library() {
    ImageOptions options;
    options.dynsym = {{.name = "ncclAllReduce", .value = kCode + 0x100},
                      {.name = "ncclSend", .value = kCode + 0x200},
                      {.name = "cudnnCreate", .value = kCode + 0x300},
                      {.name = "my_cublasHgemm", .value = kCode + 0x400},
                      {.name = "cudaMemGetInfo", .value = 0, .section = SHN_UNDEF}};
    options.symtab = {{.name = "cublasCreate_v2", .value = kCode + 0x500}};
    return ElfImage(options);
}

}  // namespace

TEST_CASE("unnamed exports: functions of a group in a file of another name") {
    // Not what it imports, has for itself only, or names with more in front.
    CHECK(exports_of(library(), "xla_plugin.so") ==
          Exports{{"cudnn", "cudnnCreate"}, {"nccl", "ncclAllReduce"}});
}

TEST_CASE("unnamed exports: none in a file that a group names, or of a library's inner ones") {
    CHECK(exports_of(library(), "libnccl-1a2b3c4d.so.2").empty());
    CHECK(exports_of(library(), "libcudnn_ops.so.9") == Exports{{"nccl", "ncclAllReduce"}});
    auto groups = probes::shipped_function_groups();
    groups["nccl"].enabled = false;
    CHECK(exports_of(library(), "xla_plugin.so", groups) == Exports{{"cudnn", "cudnnCreate"}});
    CHECK(exports_of(ElfImage(ImageOptions{}), "xla_plugin.so").empty());
}

TEST_CASE("unnamed exports: a file that is no library is an error") {
    const Fd fd = file_of({});
    CHECK_FALSE(
        probes::unnamed_exports(fd.get(), "x.so", "/x.so", probes::shipped_function_groups()));
}
