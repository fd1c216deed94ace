// The notes of USDT probes in a real program, whole and damaged.
#include <elf.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "exporter/symbols/elf/elf_file.h"
#include "tests/unit/symbols/elf/elf_image.h"

using namespace gpusnoop;
using namespace gpusnoop::symbols;

namespace {

const std::array<UsdtName, 3> names{
    {{"marked", "plain__begin"}, {"marked", "guarded__begin"}, {"marked", "missing"}}};

std::string program() {
    std::ifstream file(GPUSNOOP_STANDIN "/marked", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

Result<std::vector<UsdtProbe>> probes_of(const std::string &bytes) {
    const Fd fd = test::file_of(std::as_bytes(std::span(bytes)));
    const auto file = ElfFile::open(fd.get());
    if (!file) {
        return tl::unexpected(file.error());
    }
    return file->find_usdt_probes(names);
}

}  // namespace

TEST_CASE("USDT probes have all of their places, and their semaphores") {
    const auto found = probes_of(program());
    REQUIRE(found);
    REQUIRE(found->at(0).places.size() == 2);
    CHECK(found->at(0).places[0].semaphore == 0);
    REQUIRE(found->at(1).places.size() == 1);
    CHECK(found->at(1).places[0].semaphore != 0);
    CHECK(found->at(2).places.empty());
}

TEST_CASE("a semaphore outside of the section of semaphores is refused") {
    const std::string whole = program();
    const auto before = probes_of(whole);
    REQUIRE(before);
    REQUIRE(before->at(1).places.size() == 1);
    CHECK(before->at(1).wrong_semaphores == 0);
    // The note's semaphore is 8 bytes, right before the name of the provider.
    const std::size_t name = whole.find("guarded__begin", whole.find("stapsdt"));
    const std::size_t at = name - std::string_view("marked").size() - 1 - sizeof(std::uint64_t);
    std::uint64_t semaphore = 0;
    std::memcpy(&semaphore, whole.data() + at, sizeof(semaphore));
    REQUIRE(semaphore != 0);
    const auto with_semaphore_at = [&](std::uint64_t address) {
        std::string changed = whole;
        std::memcpy(changed.data() + at, &address, sizeof(address));
        return probes_of(changed);
    };
    // Not aligned, and behind the two counters of the section.
    for (const std::uint64_t address : {semaphore + 1, semaphore + 4, semaphore - 4}) {
        const auto found = with_semaphore_at(address);
        REQUIRE(found);
        CHECK(found->at(1).places.empty());
        CHECK(found->at(1).wrong_semaphores == 1);
        CHECK(found->at(1).unusable == 0);
    }
    // In a file whose section has another name.
    std::string renamed = whole;
    const std::size_t section = renamed.rfind(std::string_view(".probes\0", 8));
    REQUIRE(section != std::string::npos);
    renamed[section + 1] = 'd';
    const auto found = probes_of(renamed);
    REQUIRE(found);
    CHECK(found->at(1).places.empty());
    CHECK(found->at(1).wrong_semaphores == 1);
    CHECK(found->at(0).places.size() == 2);  // these have none
}

TEST_CASE("damaged notes of USDT probes give an error, or no place that does something") {
    const std::string whole = program();
    const std::size_t first = whole.find(std::string_view("stapsdt\0", 8));
    REQUIRE(first != std::string::npos);
    const auto before = probes_of(whole);
    REQUIRE(before);
    std::string cut = whole;
    const std::uint32_t huge = 0xffffff00;
    std::memcpy(cut.data() + first - 8, &huge, sizeof(huge));  // the description's size
    const auto found = probes_of(cut);
    REQUIRE_FALSE(found);
    CHECK(found.error().message == "its notes of USDT probes are cut off");

    std::string moved = whole;
    for (std::size_t at = 0; (at = moved.find("plain__begin", at)) != std::string::npos; ++at) {
        moved[at - 31] ^= 1;  // the lowest byte of the place
    }
    const auto wrong = probes_of(moved);
    REQUIRE(wrong);
    CHECK(wrong->at(0).places.empty());
    CHECK(wrong->at(0).unusable == 2);
}
