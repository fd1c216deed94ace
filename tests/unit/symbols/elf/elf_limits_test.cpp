// ElfFile on files that change, that cost much, or that are damaged at random: the work is bounded.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <filesystem>
#include <random>

#include "exporter/symbols/elf/elf_file.h"
#include "exporter/system/machine.h"
#include "tests/unit/symbols/elf/elf_image.h"
#include "tests/unit/symbols/elf/elf_questions.h"

using namespace gpusnoop;
using namespace gpusnoop::symbols;
using namespace gpusnoop::test;

TEST_CASE("truncated at each length", "[elf_file]") {
    const ElfImage whole{small()};
    const Fd fd = file_of(whole.bytes());
    for (std::size_t size = whole.bytes().size(); size > 0; --size) {
        if (size > 0x800 && size < ElfImage::kCodeOffset + ElfImage::kCodeSize && size % 97 != 0) {
            continue;  // inside of the padding and the code
        }
        CAPTURE(size);
        REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(size)) == 0);
        const Outcome outcome = ask_all(fd.get());
        CHECK(outcome.timeouts == 0);
    }
}

TEST_CASE("truncated between opening and reading", "[elf_file]") {
    const Fd fd = file_of(ElfImage(small()).bytes());
    const auto file = ElfFile::open(fd.get());
    REQUIRE(file);
    REQUIRE(::ftruncate(fd.get(), 100) == 0);
    constexpr std::array<std::string_view, 1> names{"one"};
    const auto found = file->find_functions(names);
    REQUIRE_FALSE(found);
    CHECK(found.error().message == "it was truncated while it was read");
    CHECK_FALSE(file->build_id());
}

TEST_CASE("limits are kept", "[elf_file]") {
    const ElfImage image(small());
    REQUIRE(find_one(image));
    ElfLimits limits;
    limits.max_bytes_read = 200;
    CHECK(find_one(image, limits).error().code == EFBIG);
    limits = {};
    limits.deadline = std::chrono::steady_clock::duration(0);
    CHECK(find_one(image, limits).error().code == ETIMEDOUT);
    limits = {};
    limits.cpu_until = now_on(CLOCK_THREAD_CPUTIME_ID);
    CHECK(find_one(image, limits).error().message == "reading it takes too much CPU time");
    limits.cpu_until = now_on(CLOCK_THREAD_CPUTIME_ID) + std::chrono::minutes(1);
    CHECK(find_one(image, limits));
    limits.others_wait = [] { return true; };
    CHECK(find_one(image, limits).error().code == EAGAIN);
    limits = {};
    limits.max_symbols = 1;
    CHECK_FALSE(find_one(image, limits));
    limits = {};
    limits.max_string_table = 3;
    CHECK_FALSE(find_one(image, limits));
}

TEST_CASE("one name for very many functions", "[elf_file]") {
    ImageOptions options;
    for (std::uint64_t i = 0; i < ElfFile::max_functions_per_name; ++i) {
        options.symtab.push_back({.name = "one", .value = kCode + i});
    }
    CHECK(find_one(ElfImage(options))->size() == ElfFile::max_functions_per_name);
    options.symtab.push_back({.name = "one", .value = kCode + 0x800});
    CHECK(find_one(ElfImage(options)).error().code == EFBIG);
}

TEST_CASE("names that are too long or do not end are no names", "[elf_file]") {
    ImageOptions options;
    options.symtab = {
        {.name = std::string(ElfFile::max_name_bytes, 'x'), .value = kCode + 0x100},
        {.name = std::string(ElfFile::max_name_bytes + 1, 'x'), .value = kCode + 0x200},
        {.name = "x", .value = kCode + 0x300}};
    ElfImage image(options);
    image.change_section(ElfImage::kStrtab, [](auto &s) { --s.sh_size; });  // no NUL after the last
    const Fd fd = file_of(image.bytes());
    const auto file = ElfFile::open(fd.get());
    REQUIRE(file);
    constexpr std::array<std::uint64_t, 3> offsets{ElfImage::kCodeOffset + 0x100,
                                                   ElfImage::kCodeOffset + 0x200,
                                                   ElfImage::kCodeOffset + 0x300};
    const auto names = file->functions_at(offsets);
    REQUIRE(names);
    CHECK((*names)[0].name.size() == ElfFile::max_name_bytes);
    CHECK((*names)[1].name.empty());
    CHECK((*names)[2].name.empty());
    const auto found = file->find_by_suffix("x");
    REQUIRE(found);
    REQUIRE(found->size() == 1);
    CHECK(found->front().vaddr == kCode + 0x100);
}

TEST_CASE("ten million symbols in a file of holes", "[elf_file]") {
    ElfImage image(small());
    image.change_section(ElfImage::kSymtab, [](auto &s) {
        s.sh_offset = 1 << 20;
        s.sh_size = 10'000'000ULL * sizeof(Elf64_Sym);
    });
    image.change_section(ElfImage::kStrtab, [](auto &s) {
        s.sh_offset = 1 << 20;
        s.sh_size = 200 << 20;
    });
    const Fd fd = file_of(image.bytes());
    REQUIRE(::ftruncate(fd.get(), 300 << 20) == 0);
    const auto file = ElfFile::open(fd.get());
    REQUIRE(file);
    CHECK(file->section_problem().empty());
    constexpr std::array<std::string_view, 1> names{"one"};
    const auto found = file->find_functions(names);  // in .dynsym, or the time is over
    CHECK((found ? found->size() == 1 : found.error().code == ETIMEDOUT));
}

TEST_CASE("symbols that all cover everything meet the deadline", "[elf_file]") {
    // Few enough to be read at once, without names and without a second table to read: only the
    // comparing takes time.
    ImageOptions options;
    options.symtab.assign(5000, {.name = "", .value = kCode, .size = ElfImage::kCodeSize});
    ElfImage image(options);
    for (std::size_t i = 1; i <= 5000; ++i) {
        image.change_symbol(i, [](auto &s) { s.st_name = 0xffffffff; });
    }
    image.change_section(ElfImage::kDynsym, [](auto &s) { s.sh_type = SHT_NULL; });
    image.change_segment(ElfImage::kDynamic, [](auto &s) { s.p_type = PT_NULL; });
    const Fd fd = file_of(image.bytes());
    ElfLimits limits;
    limits.deadline = std::chrono::milliseconds(300);
    const auto file = ElfFile::open(fd.get(), limits);
    REQUIRE(file);
    const std::vector<std::uint64_t> offsets(400'000, ElfImage::kCodeOffset + 1);
    const auto names = file->functions_at(offsets);  // 2 billion comparisons, were they made
    REQUIRE_FALSE(names);
    CHECK(names.error().code == ETIMEDOUT);
}

TEST_CASE("mutated copies of good files never crash and never run out of time", "[elf_file]") {
    std::vector<std::vector<std::byte>> originals;
    for (const bool gnu_hash : {false, true}) {
        ImageOptions options = small();
        options.gnu_hash = gnu_hash;
        const ElfImage image(options);
        originals.emplace_back(image.bytes().begin(), image.bytes().end());
    }
    for (const char *path :
         {"/lib/x86_64-linux-gnu/libdl.so.2", "/lib/aarch64-linux-gnu/libdl.so.2",
          "/lib64/libdl.so.2", "/proc/self/exe"}) {
        std::error_code none;
        const auto size = std::filesystem::file_size(path, none);
        if (none || size > (1 << 16)) {
            continue;
        }
        const Fd fd(::open(path, O_RDONLY | O_CLOEXEC));
        std::vector<std::byte> bytes(size);
        REQUIRE(::pread(fd.get(), bytes.data(), size, 0) == static_cast<ssize_t>(size));
        originals.push_back(std::move(bytes));
    }

    std::mt19937_64 random(20'240'917);
    const auto below = [&](std::uint64_t limit) { return random() % limit; };
    Outcome total;
    for (int round = 0; round < 6000; ++round) {
        CAPTURE(round);
        auto bytes = originals[static_cast<std::size_t>(round) % originals.size()];
        const auto header = [&] {
            Elf64_Ehdr value;
            std::memcpy(&value, bytes.data(), sizeof(value));
            return value;
        }();
        for (auto changes = 1 + below(6); changes > 0; --changes) {
            // Headers and tables decide everything, so most changes go there.
            const std::array<std::uint64_t, 4> parts{0, sizeof(Elf64_Ehdr), header.e_shoff,
                                                     below(bytes.size())};
            const std::uint64_t at = parts[below(4)] + below(512);
            const std::array<std::uint64_t, 8> values{
                0,       1, kHuge, kHuge >> 1, bytes.size(), bytes.size() - 8, below(bytes.size()),
                random()};
            const std::uint64_t value = values[below(8)];
            const std::size_t width = std::size_t{1} << below(4);
            const std::uint64_t place = at / width * width;
            if (place + width <= bytes.size()) {
                std::memcpy(bytes.data() + place, &value, width);
            }
        }
        if (below(10) == 0) {
            bytes.resize(below(bytes.size()));
        }
        const Outcome outcome = ask_all(file_of(bytes).get());
        total.answers += outcome.answers;
        total.errors += outcome.errors;
        total.timeouts += outcome.timeouts;
    }
    CHECK(total.timeouts == 0);
    CHECK(total.answers > 1000);  // the changes leave enough to get past the first check
    CHECK(total.errors > 500);
}
