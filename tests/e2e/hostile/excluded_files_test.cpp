// Files that the configuration keeps all probes out of.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <filesystem>
#include <string>

#include "exporter/base/fd.h"
#include "exporter/symbols/elf/elf_file.h"
#include "tests/e2e/child.h"
#include "tests/harness/exporter.h"

#include <fcntl.h>

using namespace harness;

namespace {

const std::string excluded_files_library = "libcudart.so.12";
const std::string excluded_files_good_library = standin("12/libcudart.so.12");

std::string build_of(const std::string &path) {
    const gpusnoop::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    const auto elf = gpusnoop::symbols::ElfFile::open(file.get());
    REQUIRE(elf.has_value());
    return elf->build_id().value_or("");
}

void check_is_left_alone(const std::string &exclude, const std::filesystem::path &excluded,
                         const std::filesystem::path &other) {
    const Exporter exporter("discovery: {exclude: [\"" + exclude + "\"]}\n");
    const e2e::MapsAsCode mapped(excluded);
    eventually("it to be left alone: " + exporter.log(), [&] {
        return exporter.log().find("library excluded by discovery.exclude") != std::string::npos;
    });
    const e2e::MapsAsCode another(other);
    exporter.wait_until_attached_to(other);
    CHECK(exporter.times_attached_to(excluded) == 0);
}

}  // namespace

TEST_CASE("files that the configuration excludes get no probes", "[e2e]") {
    require_bpf();
    const TemporaryDirectory directory;
    for (const std::string place : {"private", "public"}) {
        std::filesystem::create_directory(directory / place);
        std::filesystem::copy_file(excluded_files_good_library,
                                   directory / place / excluded_files_library);
    }
    SECTION("by their paths") {
        check_is_left_alone((directory / "private/*").string(),
                            directory / "private" / excluded_files_library,
                            directory / "public" / excluded_files_library);
    }
    SECTION("by their build ids") {
        const std::string build = build_of(excluded_files_good_library);
        if (build.empty()) {
            SKIP("the stand-in has no build id");
        }
        const auto other = directory / "public" / "libcudart.so.13";
        std::filesystem::copy_file(standin("13/libcudart.so.13"), other);
        REQUIRE(build_of(other) != build);
        check_is_left_alone("build_id:" + build, directory / "private" / excluded_files_library,
                            other);
    }
}
