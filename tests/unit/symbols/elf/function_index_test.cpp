#include "exporter/symbols/elf/elf_tables.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <random>
#include <vector>

using namespace gpusnoop::symbols;

namespace {

constexpr std::uint64_t last_address = ~std::uint64_t{0};

std::uint32_t name_at(const FunctionIndex &index, std::uint64_t vaddr) {
    const IndexedFunction *found = index.at(vaddr);
    return found != nullptr ? found->name : 0;
}

// The same by going through all.
std::uint32_t name_among(const std::vector<IndexedFunction> &functions, std::uint64_t vaddr) {
    const IndexedFunction *best = nullptr;
    for (const IndexedFunction &one : functions) {
        if (vaddr < one.vaddr || vaddr - one.vaddr >= std::max<std::uint64_t>(one.size, 1)) {
            continue;
        }
        if (best == nullptr || one.vaddr > best->vaddr ||
            (one.vaddr == best->vaddr && one.rank > best->rank)) {
            best = &one;
        }
    }
    return best != nullptr ? best->name : 0;
}

}  // namespace

TEST_CASE("an index without functions has none", "[function_index]") {
    const FunctionIndex index({});
    CHECK(index.at(0) == nullptr);
    CHECK(index.at(last_address) == nullptr);
    CHECK(index.functions() == 0);
}

TEST_CASE("a function covers its bytes, and one inside of it its own", "[function_index]") {
    const FunctionIndex index({{.vaddr = 100, .size = 50, .name = 1},
                               {.vaddr = 110, .size = 10, .name = 2},
                               {.vaddr = 200, .size = 0, .name = 3}});
    CHECK(name_at(index, 99) == 0);
    CHECK(name_at(index, 100) == 1);
    CHECK(name_at(index, 110) == 2);
    CHECK(name_at(index, 119) == 2);
    CHECK(name_at(index, 120) == 1);
    CHECK(name_at(index, 149) == 1);
    CHECK(name_at(index, 150) == 0);
    CHECK(name_at(index, 200) == 3);
    CHECK(name_at(index, 201) == 0);
}

TEST_CASE("of functions at one address the highest rank counts, and then the first",
          "[function_index]") {
    const FunctionIndex index({{.vaddr = 100, .size = 8, .name = 1, .rank = 0},
                               {.vaddr = 100, .size = 8, .name = 2, .rank = 2},
                               {.vaddr = 100, .size = 8, .name = 3, .rank = 2},
                               {.vaddr = 100, .size = 16, .name = 4, .rank = 1}});
    CHECK(name_at(index, 100) == 2);
    CHECK(name_at(index, 107) == 2);
    CHECK(name_at(index, 108) == 4);
}

TEST_CASE("a function that ends behind the last_address address ends there", "[function_index]") {
    const FunctionIndex index({{.vaddr = last_address - 10, .size = last_address, .name = 1},
                               {.vaddr = 5, .size = last_address, .name = 2}});
    CHECK(name_at(index, 5) == 2);
    CHECK(name_at(index, last_address - 11) == 2);
    CHECK(name_at(index, last_address - 10) == 1);
    CHECK(name_at(index, last_address - 1) == 1);
}

TEST_CASE("an index answers as a search through all functions does", "[function_index]") {
    std::mt19937 random(4711);  // NOLINT: the same each time
    for (int round = 0; round < 500; round++) {
        std::vector<IndexedFunction> functions;
        const std::size_t count = random() % 20;
        for (std::size_t i = 0; i < count; i++) {
            functions.push_back({.vaddr = 1 + random() % 60,
                                 .size = random() % 3 == 0 ? 0 : random() % 40,
                                 .name = static_cast<std::uint32_t>(i + 1),
                                 .rank = static_cast<std::uint16_t>(random() % 3)});
        }
        const FunctionIndex index(functions);
        for (std::uint64_t vaddr = 0; vaddr < 110; vaddr++) {
            if (name_at(index, vaddr) != name_among(functions, vaddr)) {
                FAIL("round " << round << ", address " << vaddr);
            }
        }
    }
}
