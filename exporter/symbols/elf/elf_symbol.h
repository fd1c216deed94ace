// Classifies one entry of a symbol table. For the ElfFile sources only.
#pragma once

#include <elf.h>

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

}  // namespace gpusnoop::symbols
