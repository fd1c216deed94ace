#include <bpf/btf.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "exporter/ebpf/kernel_types.h"

using gpusnoop::ebpf::SharedKernelTypes;
using namespace gpusnoop;

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

// What the kernel has for functions and modules.

namespace {

class File {
public:
    explicit File(const std::string &text)
        : path_(std::filesystem::temp_directory_path() /
                ("kernel_symbols_" + std::to_string(::getpid()))) {
        std::ofstream(path_) << text;
    }
    ~File() { std::filesystem::remove(path_); }
    File(const File &) = delete;
    File &operator=(const File &) = delete;
    [[nodiscard]] std::string path() const { return path_.string(); }

private:
    std::filesystem::path path_;
};

constexpr std::array<std::string_view, 3> names = {"nvlink_strcpy", "nvlink_memcpy",
                                                   "nvlink_memset"};

}  // namespace

TEST_CASE("symbols of the kernel are found by their whole name") {
    const File file(
        "ffffffff81000000 T _text\n"
        "ffffffffc0651060 t nvlink_strcpy\t[nvidia]\n"
        "ffffffffc0651061 t nvlink_strcpy_s\t[nvidia]\n"
        "ffffffffc0651062 t my_nvlink_memcpy\t[nvidia]\n"
        "0000000000000000 t nvlink_memset\n"
        "\n"
        "ffffffffc0651063\n"
        "ffffffffc0651064 t\n" +
        std::string(2000, 'x') +
        "\n"
        "ffffffffc0651065 t nvlink_memcpy");  // without the end of the line
    using Found = std::map<std::string, std::uint64_t>;
    const auto found = ebpf::find_kernel_symbols(names, file.path());
    REQUIRE(found);
    CHECK(*found == Found{{"nvlink_strcpy", 0xffffffffc0651060},
                          {"nvlink_memset", 0},
                          {"nvlink_memcpy", 0xffffffffc0651065}});
    const auto missing = ebpf::find_kernel_symbols(names, "/nowhere/kallsyms");
    REQUIRE(!missing);
    CHECK(missing.error().message == "/nowhere/kallsyms: No such file or directory");
}

TEST_CASE("modules that come, go or come back change their list, and users do not") {
    const std::string nvidia = "nvidia 62402560 101 nvidia_uvm, Live 0xffffffffc0a00000 (PO)\n";
    const std::string busier = "nvidia 62402560 102 nvidia_uvm, Live 0xffffffffc0a00000 (PO)\n";
    const std::string moved = "nvidia 62402560 101 nvidia_uvm, Live 0xffffffffc1a00000 (PO)\n";
    const std::string other = "vgem 16384 0 - Live 0xffffffffc0651000\n";
    const auto list_of = [](const std::string &text) {
        const File file(text);
        const auto list = ebpf::loaded_modules(file.path());
        REQUIRE(list);
        return *list;
    };
    CHECK(list_of(nvidia) == list_of(busier));
    CHECK(list_of(nvidia) != list_of(moved));
    CHECK(list_of(nvidia) != list_of(nvidia + other));
    CHECK(list_of(nvidia) != list_of(other));
    CHECK(list_of("").empty());
    const auto without = ebpf::loaded_modules("/nowhere/modules");
    REQUIRE(without);
    CHECK(without->empty());
}
