// Attaching programs that do nothing to functions of a library.
#include <fcntl.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "empty.skel.h"
#include "exporter/ebpf/attach/grace_period.h"
#include "exporter/ebpf/object.h"
#include "exporter/symbols/elf/elf_file.h"
#include "tests/harness/exporter.h"

using namespace gpusnoop;
using ebpf::AttachMode;

TEST_CASE("attaching says after each link that it goes on", "[kernel]") {
    harness::require_bpf();
    // The links of two functions: one for all, one for each end, one for each end of each.
    const auto [mode, links] =
        GENERATE(std::pair{AttachMode::session, 1}, std::pair{AttachMode::multi, 2},
                 std::pair{AttachMode::perf, 4});
    CAPTURE(ebpf::to_string(mode));
    ebpf::Skeleton<empty_bpf> programs(empty_bpf::open());
    REQUIRE(programs);
    const auto chosen = ebpf::choose_call_programs(programs->obj, mode, false);
    REQUIRE(empty_bpf::load(programs.get()) == 0);

    const Fd library(::open(harness::standin("12/libcudart.so.12").c_str(), O_RDONLY | O_CLOEXEC));
    const auto elf = symbols::ElfFile::open(library.get());
    REQUIRE(elf);
    const std::vector<std::string_view> names = {"cudaMalloc", "cudaFree"};
    const auto places = elf->find_functions(names);
    REQUIRE(places);
    REQUIRE(places->size() == 2);
    std::vector<ebpf::AttachPoint> points;
    for (const auto &place : *places) {
        points.push_back({place.file_offset, 0});
    }

    int steps = 0;
    const auto set =
        ebpf::UprobeSet::attach(chosen, {library.get()}, points, {}, {}, [&] { steps++; });
    REQUIRE(set);
    CHECK(set->functions() == 2);
    CHECK(steps == links);
}

TEST_CASE("the kernel's wait that begins ahead of attaching ends, and leaves nothing", "[kernel]") {
    harness::require_bpf();
    const auto open_files = [] {
        return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
    };
    const auto before = open_files();
    for (const int times : {0, 1, 3}) {
        const auto ahead = ebpf::GracePeriod::open();
        REQUIRE(ahead);
        CHECK(open_files() > before);
        for (int n = 0; n < times; n++) {
            ahead->begin();
        }
    }
    CHECK(open_files() == before);
}
