// Where the ends of CUDA's functions are seen without return probes, in small images and in
// NVIDIA's own libraries.
#include "exporter/probes/cuda/attach/exits.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <string>

#include "exporter/probes/cuda/attach/functions.h"
#include "tests/unit/logged.h"
#include "tests/unit/symbols/elf/elf_image.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace gpusnoop::test;

namespace {

struct Ends {
    std::vector<std::string> found;  // the traced functions that the file has
    std::vector<ebpf::AttachPoint> entries;
    std::vector<ebpf::AttachPoint> exits;
    std::string log;
};

Ends ends_in(Fd fd) {
    REQUIRE(fd);
    discovery::Library library;
    library.file = std::move(fd);
    library.name = "library.so";
    const auto elf = symbols::ElfFile::open(library.readable());
    REQUIRE(elf);
    std::vector<std::string_view> names;
    for (const CudaFunction &function : cuda_functions()) {
        names.push_back(function.symbol);
    }
    const auto functions = elf->find_functions(names);
    REQUIRE(functions);
    Ends ends;
    for (const symbols::FoundFunction &place : *functions) {
        const CudaFunction &function = cuda_functions()[place.name];
        ends.found.emplace_back(function.symbol);
        if (std::ranges::find(ends.entries, place.file_offset, &ebpf::AttachPoint::file_offset) ==
            ends.entries.end()) {
            ends.entries.push_back({place.file_offset, function.cookie, function.entry_only});
        }
    }
    ends.log =
        logged([&] { ends.exits = see_ends_at_exits(*elf, library, *functions, ends.entries); });
    return ends;
}

// cudaMalloc returns; cudaFree jumps to it; cudaGraphLaunch jumps to a function that is not traced;
// the first instruction of cudaMemset is its last.
ElfImage four_functions() {
    ImageOptions options;
    options.symtab = {{.name = "cudaMalloc", .value = kCode + 0x100, .size = 2},
                      {.name = "cudaFree", .value = kCode + 0x200, .size = 5},
                      {.name = "cudaGraphLaunch", .value = kCode + 0x300, .size = 5},
                      {.name = "cudaMemset", .value = kCode + 0x400, .size = 1},
                      {.name = "other", .value = kCode + 0x500, .size = 2}};
    ElfImage image(options);
    const auto put = [&](std::uint64_t at, const auto &bytes) {
        image.write(ElfImage::kCodeOffset + at, bytes);
    };
    put(0x100, std::array<std::uint8_t, 2>{0x90, 0xc3});                    // nop; ret
    put(0x200, std::array<std::uint8_t, 5>{0xe9, 0xfb, 0xfe, 0xff, 0xff});  // jmp 0x100
    put(0x300, std::array<std::uint8_t, 5>{0xe9, 0xfb, 0x01, 0, 0});        // jmp 0x500
    put(0x400, std::array<std::uint8_t, 1>{0xc3});                          // ret
    put(0x500, std::array<std::uint8_t, 2>{0x90, 0xc3});
    return image;
}

// A library of NVIDIA's CUDA toolkit.
Fd library_of_toolkit(const std::string &name) {
    const char *home = std::getenv("CUDA_HOME");  // NOLINT: no other thread runs
    const std::string path =
        std::string(home == nullptr ? "/usr/local/cuda" : home) + "/lib64/" + name;
    Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) {
        SKIP("the CUDA toolkit is not installed: there is no " << path);
    }
    return file;
}

}  // namespace

TEST_CASE("a CUDA function whose end no exit shows is left out, and the log names it") {
    const Ends ends = ends_in(file_of(four_functions().bytes()));
    CHECK(ends.found.size() == 4);
    // cudaFree counts as cudaMalloc.
    REQUIRE(ends.entries.size() == 1);
    CHECK(ends.entries[0].file_offset == ElfImage::kCodeOffset + 0x100);
    CHECK(ends.entries[0].entry_only);
    REQUIRE(ends.exits.size() == 1);
    CHECK(ends.exits[0].file_offset == ElfImage::kCodeOffset + 0x101);
    CHECK(ends.exits[0].cookie == ends.entries[0].cookie);
    CHECK(ends.log.find("functions=\"cudaMemset cudaGraphLaunch\"") != std::string::npos);
}

TEST_CASE("the end of every traced function of NVIDIA's runtime is seen at its exits") {
    const Ends ends = ends_in(library_of_toolkit("libcudart.so"));
    INFO(ends.log);
    CHECK(ends.log.empty());
    CHECK(ends.exits.size() >= ends.entries.size());
    for (const auto *function :
         {"cudaMalloc", "cudaLaunchKernel", "cudaStreamBeginCapture", "cudaStreamEndCapture",
          "cudaEventElapsedTime", "cudaGraphInstantiate", "cudaGraphAddNode", "cudaGraphLaunch"}) {
        INFO(function);
        CHECK(std::ranges::find(ends.found, function) != ends.found.end());
    }
}

TEST_CASE("of NVIDIA's CUPTI, exits leave out the functions that docs/cuda.md names") {
    Ends ends = ends_in(library_of_toolkit("libcupti.so"));
    CHECK(ends.found.size() == 6);
    INFO(ends.log);
    for (const std::string documented : {"cuptiSubscribe_v2", "cuptiFinalize"}) {
        if (const std::size_t at = ends.log.find(documented); at != std::string::npos) {
            ends.log.erase(at, documented.size());
        }
    }
    CHECK(ends.log.find("cupti") == std::string::npos);
}
