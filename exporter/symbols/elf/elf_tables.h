// The parts of an ELF file through which symbols are found. For the ElfFile sources only.
#pragma once

#include <elf.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/symbols/elf/elf_reader.h"

namespace gpusnoop::symbols {

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

}  // namespace gpusnoop::symbols
