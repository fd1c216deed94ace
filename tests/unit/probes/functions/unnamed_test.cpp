// Functions of groups in files that no group names.
#include "exporter/probes/functions/select/unnamed.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "exporter/probes/functions/select/selection.h"
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
          Exports{{"cudnn", "cudnnCreate", false}, {"nccl", "ncclAllReduce", true}});
}

TEST_CASE("unnamed exports: none in a file that a group names, or of a library's inner ones") {
    CHECK(exports_of(library(), "libnccl-1a2b3c4d.so.2").empty());
    CHECK(exports_of(library(), "libcudnn_ops.so.9") == Exports{{"nccl", "ncclAllReduce", true}});
    auto groups = probes::shipped_function_groups();
    groups["nccl"].enabled = false;
    CHECK(exports_of(library(), "xla_plugin.so", groups) ==
          Exports{{"cudnn", "cudnnCreate", false}});
    CHECK(exports_of(ElfImage(ImageOptions{}), "xla_plugin.so").empty());
}

TEST_CASE("unnamed exports: the log says what to do about those that are not counted") {
    const auto exports = exports_of(library(), "xla_plugin.so");
    CHECK(probes::problem_of(exports) ==
          "it exports cudnnCreate of the group cudnn: add its name to "
          "functions.groups.cudnn.libraries");
    auto groups = probes::shipped_function_groups();
    groups["nccl"].match_exports = false;
    CHECK(probes::problem_of(exports_of(library(), "xla_plugin.so", groups)) ==
          "it exports cudnnCreate of the group cudnn: add its name to "
          "functions.groups.cudnn.libraries; it exports ncclAllReduce of the group nccl: add its "
          "name to functions.groups.nccl.libraries");
    CHECK(probes::problem_of(exports_of(library(), "libcudnn_ops.so.9")).empty());
}

TEST_CASE("a group that matches exports has its functions in a file of any name") {
    const Fd fd = file_of(library().bytes());
    auto groups = probes::shipped_function_groups();
    const auto found = [&](const std::string &name) {
        const auto file = symbols::ElfFile::open(fd.get());
        REQUIRE(file);
        const auto selection =
            probes::select_functions(*file, fd.get(), name, "/opt/" + name, groups, 100);
        REQUIRE(selection);
        std::vector<std::string> functions;
        for (const auto &function : selection->functions) {
            functions.push_back(function.group + " " + function.name);
        }
        return functions;
    };
    using Functions = std::vector<std::string>;
    CHECK(found("xla_plugin.so") == Functions{"nccl ncclAllReduce", "nccl ncclSend"});
    CHECK(probes::matches_exports(groups, fd.get(), "xla_plugin.so"));
    CHECK(found("libcudnn.so.9") ==
          Functions{"cudnn cudnnCreate", "nccl ncclAllReduce", "nccl ncclSend"});
    CHECK(found("libnccl_part.so").empty());
    CHECK_FALSE(probes::matches_exports(groups, fd.get(), "libnccl_part.so"));
    groups["nccl"].match_exports = false;
    CHECK(found("xla_plugin.so").empty());
    CHECK_FALSE(probes::matches_exports(groups, fd.get(), "xla_plugin.so"));
    groups["nccl"].match_exports = true;
    groups["nccl"].enabled = false;
    CHECK(found("xla_plugin.so").empty());
    CHECK_FALSE(probes::matches_exports(groups, fd.get(), "xla_plugin.so"));
}

TEST_CASE("unnamed exports: a file that is no library is an error") {
    const Fd fd = file_of({});
    CHECK_FALSE(probes::matches_exports(probes::shipped_function_groups(), fd.get(), "x.so"));
    CHECK_FALSE(
        probes::unnamed_exports(fd.get(), "x.so", "/x.so", probes::shipped_function_groups()));
}
