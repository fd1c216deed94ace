// The tables of an ELF file through which symbols are found, and which function covers an address.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/symbols/elf/elf_reader.h"

namespace gpusnoop::symbols {

[[nodiscard]] inline unsigned type_of(const Elf64_Sym &symbol) {
    return ELF64_ST_TYPE(symbol.st_info);
}

[[nodiscard]] inline bool is_defined(const Elf64_Sym &symbol) {
    return symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0;
}

[[nodiscard]] inline bool is_function(const Elf64_Sym &symbol) {
    return is_defined(symbol) && (type_of(symbol) == STT_FUNC || type_of(symbol) == STT_GNU_IFUNC);
}

// A symbol table and the string table of its names, both checked to lie inside the file.
struct SymbolTable {
    std::uint64_t offset = 0;  // in the file, of the first Elf64_Sym
    std::uint64_t count = 0;
    std::uint64_t strings_offset = 0;
    std::uint64_t strings_size = 0;  // bytes
};

// `table` if it is inside the file and the limits; else an error.
[[nodiscard]] Result<SymbolTable> checked(const SymbolTable &table, const ElfReader &reader);

// The file offset of a virtual address: it must be backed by bytes of one of the PT_LOADs among
// `segments` that has all of `flags` (PF_X, or 0 for any).
[[nodiscard]] std::optional<std::uint64_t> file_offset_of(std::span<const Elf64_Phdr> segments,
                                                          std::uint64_t vaddr, Elf64_Word flags);

// The dynamic symbols as the loader finds them: through PT_DYNAMIC, without section headers.
// Empty if the file has none.
[[nodiscard]] Result<std::optional<SymbolTable>> dynamic_symbols(
    ElfReader &reader, std::span<const Elf64_Phdr> segments);

// A string of a string table that ends with one of the wanted endings.
struct SuffixMatch {
    std::uint64_t begin = 0;   // offset of the first byte of the stored string
    std::uint64_t end = 0;     // offset of its NUL
    std::uint32_t ending = 0;  // index of the ending
};

// Every string of the table that ends with one of `endings`, in the order of the table. Linkers
// share tails ("bar" may be stored only as the end of "foobar"), so a name is found by its end.
[[nodiscard]] Result<std::vector<SuffixMatch>> find_suffixes(
    ElfReader &reader, const SymbolTable &table, std::span<const std::string_view> endings);

// Which function covers an address, for many addresses of one file.

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
