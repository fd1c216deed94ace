#include "exporter/discovery/driver_library.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/harness/machine/directory.h"

using namespace gpusnoop::discovery;

namespace {

constexpr std::uint32_t x86_64 = 0x0303;
constexpr std::uint32_t i386 = 0x0803;

void append(std::string &bytes, std::uint32_t number) {
    bytes.append(reinterpret_cast<const char *>(&number), sizeof(number));
}

struct Entry {
    std::uint32_t flags;
    std::string name;
    std::string path;
};

// As ldconfig writes it.
std::string cache_of(const std::vector<Entry> &entries) {
    std::string cache = "glibc-ld.so.cache1.1";
    append(cache, static_cast<std::uint32_t>(entries.size()));
    for (int n = 0; n < 6; n++) {
        append(cache, 0);
    }
    std::string names;
    const std::size_t names_at = cache.size() + 24 * entries.size();
    for (const Entry &entry : entries) {
        append(cache, entry.flags);
        append(cache, static_cast<std::uint32_t>(names_at + names.size()));
        names += entry.name + '\0';
        append(cache, static_cast<std::uint32_t>(names_at + names.size()));
        names += entry.path + '\0';
        append(cache, 0);
        append(cache, 0);
        append(cache, 0);
    }
    return cache + names;
}

const std::vector<Entry> entries = {{x86_64, "libcuda.so.1", "/opt/driver/libcuda.so.1"},
                                    {i386, "libcuda.so.1", "/usr/lib32/libcuda.so.1"},
                                    {x86_64, "libcuda.so", "/opt/driver/libcuda.so"},
                                    {x86_64, "libcuda.so.1", "/lib/x86_64-linux-gnu/libcuda.so.1"},
                                    {x86_64, "libcuda.so.1", "relative/libcuda.so.1"}};

}  // namespace

TEST_CASE("the driver's library is found in the dynamic linker's cache") {
    const std::string cache = cache_of(entries);
    const std::vector<std::string> wanted = {"/opt/driver/libcuda.so.1",
                                             "/lib/x86_64-linux-gnu/libcuda.so.1"};
    CHECK(paths_in_linker_cache(cache, "libcuda.so.1", x86_64) == wanted);
    CHECK(paths_in_linker_cache("ld.so-1.7.0" + std::string(13, '\1') + cache, "libcuda.so.1",
                                x86_64) == wanted);
    CHECK(paths_in_linker_cache(cache, "libcuda.so.1", i386) ==
          std::vector<std::string>{"/usr/lib32/libcuda.so.1"});
    CHECK(paths_in_linker_cache(cache, "libother.so", x86_64).empty());
}

TEST_CASE("a damaged linker cache has fewer entries, at worst none") {
    const std::string cache = cache_of(entries);
    for (std::size_t size = 0; size < cache.size(); size++) {
        CHECK(paths_in_linker_cache(cache.substr(0, size), "libcuda.so.1", x86_64).size() <= 2);
    }
    for (std::size_t at = 20; at < cache.size(); at++) {
        std::string damaged = cache;
        damaged[at] = static_cast<char>(0xff);
        CHECK(paths_in_linker_cache(damaged, "libcuda.so.1", x86_64).size() <= 2);
    }
}

TEST_CASE(
    "the driver's library is looked for as the cache of that root says, and at the usual places") {
    const harness::TemporaryDirectory root;
    std::filesystem::create_directories(root / "etc");
#if defined(__x86_64__)
    std::ofstream(root / "etc/ld.so.cache", std::ios::binary) << cache_of(entries);
    const auto paths = driver_library_paths(root.path());
    CHECK(paths.front() == "/opt/driver/libcuda.so.1");
    CHECK(std::ranges::count(paths, "/usr/lib/x86_64-linux-gnu/libcuda.so.1") == 1);
#endif
    const auto usual = driver_library_paths(root / "nothing");
    for (const std::string place :
         {"/usr/lib64", "/usr/local/nvidia/lib64", "/home/kubernetes/bin/nvidia/lib64",
          "/usr/lib/wsl/lib", "/run/opengl-driver/lib"}) {
        CHECK(std::ranges::count(usual, place + "/libcuda.so.1") == 1);
    }
}
