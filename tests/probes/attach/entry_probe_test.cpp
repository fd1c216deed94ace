// Where entries are probed in the libraries of this machine, held against a disassembler: at an
// instruction of the function that runs in each call, and that nothing jumps to or behind.
#include <fcntl.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "empty.skel.h"
#include "exporter/base/fd.h"
#include "exporter/ebpf/attach/detacher.h"
#include "exporter/ebpf/object.h"
#include "exporter/symbols/elf/elf_file.h"
#include "exporter/symbols/exits/entry_probe.h"
#include "tests/harness/exporter.h"

using namespace gpusnoop;
using namespace harness;
using ebpf::AttachMode;

namespace {

struct Disassembly {
    std::map<std::uint64_t, std::string> mnemonics;  // by vaddr
    std::set<std::uint64_t> targets;                 // of jumps and calls
};

std::optional<std::uint64_t> hexadecimal_in(std::string_view text) {
    const std::size_t first = text.find_first_not_of(' ');
    if (first == std::string_view::npos) {
        return std::nullopt;
    }
    std::uint64_t value = 0;
    const char *const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + first, end, value, 16);
    return error == std::errc() && rest != text.data() + first ? std::optional(value)
                                                               : std::nullopt;
}

Disassembly disassemble(const std::string &file) {
    const Finished objdump = run({"objdump", "-d", "--no-show-raw-insn", file});
    REQUIRE(objdump.code == 0);
    Disassembly all;
    std::istringstream lines(objdump.output);
    for (std::string line; std::getline(lines, line);) {  // "   2a3f0:\tje     2a410 <f+0x20>"
        const std::size_t colon = line.find(":\t");
        if (colon == std::string::npos) {
            continue;
        }
        const auto at = hexadecimal_in(line.substr(0, colon));
        std::istringstream words(line.substr(colon + 2));
        std::string mnemonic;
        std::string operand;
        words >> mnemonic;
        while (mnemonic == "bnd" || mnemonic == "notrack" || mnemonic.starts_with("rep")) {
            words >> mnemonic;
        }
        words >> operand;
        if (!at) {
            continue;
        }
        all.mnemonics[*at] = mnemonic;
        if (mnemonic.starts_with('j') || mnemonic.starts_with("call") ||
            mnemonic.starts_with("loop") || mnemonic == "xbegin") {
            if (const auto target = hexadecimal_in(operand); target && operand[0] != '*') {
                all.targets.insert(*target);
            }
        }
    }
    return all;
}

std::vector<symbols::FoundFunction> all_functions(const symbols::ElfFile &file) {
    const auto listed = file.list_functions([](std::string_view) { return true; });
    REQUIRE(listed);
    std::map<std::uint64_t, symbols::FoundFunction> functions;
    for (const symbols::ListedFunction &function : *listed) {
        functions.try_emplace(
            function.file_offset,
            symbols::FoundFunction{0, function.file_offset, function.vaddr, function.size, true});
    }
    std::vector<symbols::FoundFunction> all;
    for (const auto &[offset, function] : functions) {
        all.push_back(function);
    }
    return all;
}

struct Counts {
    std::size_t functions = 0;
    std::size_t moved = 0;  // behind their first instructions
    std::size_t expensive = 0;
};

// Each place is right.
Counts check_library(const std::string &path) {
    INFO(path);
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    REQUIRE(fd);
    const auto file = symbols::ElfFile::open(fd.get());
    REQUIRE(file);
    if (file->machine() != EM_X86_64) {
        SKIP("the kernel's emulation is known of x86_64 only");
    }
    const Disassembly code = disassemble(path);
    const auto functions = all_functions(*file);
    const auto probes = symbols::find_entry_probes(*file, fd.get(), functions);
    REQUIRE(probes.size() == functions.size());
    Counts counts{.functions = functions.size()};
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < functions.size(); i++) {
        const std::uint64_t entry = functions[i].vaddr;
        const std::uint64_t place = entry + probes[i].file_offset - functions[i].file_offset;
        const auto found = code.mnemonics.find(place);
        counts.expensive += probes[i].is_expensive ? 1 : 0;
        if (found == code.mnemonics.end() || functions[i].size == 0) {
            continue;  // data that has the type of a function
        }
        const bool is_emulated = found->second == "push" || found->second == "nop";
        const auto behind = code.targets.upper_bound(entry);
        const bool is_jumped_behind = behind != code.targets.end() && *behind <= place;
        if ((place != entry && (found->second != "push" || is_jumped_behind)) ||
            (!probes[i].is_expensive && !is_emulated)) {
            wrong++;
            UNSCOPED_INFO(std::hex << entry << " is probed at " << place << ", " << found->second);
        }
        counts.moved += place != entry ? 1 : 0;
    }
    CHECK(wrong == 0);
    return counts;
}

std::string loaded_library(const std::string &name) {
    for (const char *folder : {"/lib/x86_64-linux-gnu/", "/usr/lib/x86_64-linux-gnu/"}) {
        if (std::filesystem::exists(folder + name)) {
            return folder + name;
        }
    }
    SKIP("this is not Debian on x86_64: " << name << " is not in its place");
    return {};
}

}  // namespace

TEST_CASE("entries of the C library are probed where each call passes once") {
    CHECK(check_library(loaded_library("libc.so.6")).moved > 0);
}

TEST_CASE("entries of the C++ library are probed where each call passes once") {
    CHECK(check_library(loaded_library("libstdc++.so.6")).moved > 0);
}

TEST_CASE("entries of OpenSSL are probed where each call passes once") {
    CHECK(check_library(loaded_library("libssl.so.3")).moved > 0);
}

TEST_CASE("entries of functions with ENDBR64 are probed behind it") {
    const Counts counts = check_library(standin("13/libcudart.so.13"));
    CHECK(counts.moved > counts.functions / 3);
}

TEST_CASE("entries of NVIDIA's runtime are cheap to probe") {
    const std::string path = "/usr/local/cuda/lib64/libcudart.so";
    if (!std::filesystem::exists(path)) {
        SKIP("the CUDA toolkit is not installed");
    }
    const Counts counts = check_library(path);
    CHECK(counts.expensive < counts.functions / 20);
}

// Attaching programs that do nothing to functions of a library.

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
