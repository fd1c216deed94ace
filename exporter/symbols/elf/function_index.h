// Which function covers an address, for many addresses of one file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpusnoop::symbols {

struct IndexedFunction {
    std::uint64_t vaddr = 0;  // as linked
    std::uint64_t size = 0;   // bytes, 0 if the file does not contain it
    std::uint32_t name = 0;   // its place in the strings of its table
    std::uint16_t table = 0;  // the number of the symbol table
    std::uint16_t rank = 0;   // of several at one address, the highest counts, and then the first
};

class FunctionIndex {
public:
    explicit FunctionIndex(std::vector<IndexedFunction> functions);

    // Of several that cover the address, the one that starts last; null if none does. A function
    // of unknown size covers its first byte only.
    [[nodiscard]] const IndexedFunction *at(std::uint64_t vaddr) const;
    [[nodiscard]] std::size_t functions() const { return functions_.size(); }

private:
    // From `begin` to the next one's.
    struct Segment {
        std::uint64_t begin;
        std::uint32_t function;  // index; none: no function
    };
    static constexpr std::uint32_t none = ~std::uint32_t{0};

    void add(std::uint64_t begin, std::uint32_t function);
    [[nodiscard]] std::uint64_t end_of(std::uint32_t function) const;

    std::vector<IndexedFunction> functions_;  // by address, then by what counts
    std::vector<Segment> segments_;           // by address
};

}  // namespace gpusnoop::symbols
