#include "tests/unit/symbols/elf/elf_image.h"

#include <sys/mman.h>

#include <array>
#include <stdexcept>

namespace gpusnoop::test {
namespace {

struct Table {
    std::string strings = std::string(1, '\0');
    std::vector<Elf64_Sym> symbols = std::vector<Elf64_Sym>(1);
};

Table table_of(const std::vector<ImageSymbol> &symbols, const std::string &strings_before) {
    Table table;
    table.strings += strings_before;
    for (const ImageSymbol &symbol : symbols) {
        Elf64_Sym entry{};
        entry.st_name = static_cast<Elf64_Word>(table.strings.size());
        entry.st_info = static_cast<unsigned char>(ELF64_ST_INFO(symbol.bind, symbol.type));
        entry.st_shndx = symbol.section;
        entry.st_value = symbol.value;
        entry.st_size = symbol.size;
        table.strings += symbol.name;
        table.strings += '\0';
        table.symbols.push_back(entry);
    }
    return table;
}

std::vector<std::uint32_t> hash_of(std::uint32_t symbols, bool gnu) {
    if (!gnu) {
        std::vector<std::uint32_t> words{1, symbols};
        words.resize(words.size() + 1 + symbols);
        return words;
    }
    // One bucket and one bloom word; every symbol but the null one is in the chain.
    std::vector<std::uint32_t> words{1, 1, 1, 0, 0, 0, 1};
    for (std::uint32_t i = 1; i < symbols; ++i) {
        words.push_back(i + 1 == symbols ? 3 : 2);
    }
    return words;
}

}  // namespace

std::uint64_t ElfImage::append(const void *data, std::size_t size) {
    bytes_.resize((bytes_.size() + 15) / 16 * 16);
    const std::uint64_t at = bytes_.size();
    bytes_.resize(bytes_.size() + size);
    std::memcpy(bytes_.data() + at, data, size);
    return at;
}

ElfImage::ElfImage(const ImageOptions &options) {
    bytes_.resize(sizeof(Elf64_Ehdr) + kSegments * sizeof(Elf64_Phdr));

    // A note of somebody else, and the build id.
    std::vector<std::uint32_t> notes{4, 4, 99, 0x00757a59, 0};
    notes.insert(notes.end(), {4, 20, NT_GNU_BUILD_ID, 0x00554e47});
    for (int i = 0; i < 2; ++i) {
        notes.insert(notes.end(), {0x67452301, 0xefcdab89});
    }
    notes.push_back(0x67452301);
    const std::uint64_t notes_at = append(notes.data(), notes.size() * 4);

    const Table dynamic_table = table_of(options.dynsym, {});
    const auto &dynamic_symbols = dynamic_table.symbols;
    const std::uint64_t dynstr_at =
        append(dynamic_table.strings.data(), dynamic_table.strings.size());
    const std::uint64_t dynsym_at =
        append(dynamic_symbols.data(), dynamic_symbols.size() * sizeof(Elf64_Sym));
    const auto hash = hash_of(static_cast<std::uint32_t>(dynamic_symbols.size()), options.gnu_hash);
    hash_at = append(hash.data(), hash.size() * 4);
    const auto entry = [](Elf64_Sxword tag, std::uint64_t value) {
        return Elf64_Dyn{tag, {value}};
    };
    const std::array<Elf64_Dyn, 6> dynamic{{
        entry(DT_SYMTAB, kDataVaddr + dynsym_at),
        entry(DT_STRTAB, kDataVaddr + dynstr_at),
        entry(DT_STRSZ, dynamic_table.strings.size()),
        entry(DT_SYMENT, sizeof(Elf64_Sym)),
        entry(options.gnu_hash ? DT_GNU_HASH : DT_HASH, kDataVaddr + hash_at),
        entry(DT_NULL, 0),
    }};
    dynamic_at = append(dynamic.data(), sizeof(dynamic));
    if (bytes_.size() > kCodeOffset) {
        throw std::length_error("too many dynamic symbols for this image");
    }
    bytes_.resize(kCodeOffset + kCodeSize);

    const Table table = table_of(options.symtab, options.strings_before);
    const std::uint64_t strtab_at = append(table.strings.data(), table.strings.size());
    symtab_at = append(table.symbols.data(), table.symbols.size() * sizeof(Elf64_Sym));
    if (options.sections) {
        std::array<Elf64_Shdr, kSections> sections{};
        const auto set = [&](Section which, Elf64_Word type, std::uint64_t offset,
                             std::uint64_t size, Elf64_Word link, std::uint64_t entry_size) {
            Elf64_Shdr &section = sections[which];
            section.sh_type = type;
            section.sh_offset = offset;
            section.sh_size = size;
            section.sh_link = link;
            section.sh_entsize = entry_size;
        };
        constexpr std::uint64_t symbol = sizeof(Elf64_Sym);
        set(kText, SHT_PROGBITS, kCodeOffset, kCodeSize, 0, 0);
        set(kDynstr, SHT_STRTAB, dynstr_at, dynamic_table.strings.size(), 0, 0);
        set(kDynsym, SHT_DYNSYM, dynsym_at, dynamic_symbols.size() * symbol, kDynstr, symbol);
        set(kStrtab, SHT_STRTAB, strtab_at, table.strings.size(), 0, 0);
        set(kSymtab, SHT_SYMTAB, symtab_at, table.symbols.size() * symbol, kStrtab, symbol);
        sections_at = append(sections.data(), sizeof(sections));
    }

    const auto segment = [](Elf64_Word type, Elf64_Word flags, std::uint64_t offset,
                            std::uint64_t vaddr, std::uint64_t size) {
        return Elf64_Phdr{type, flags, offset, vaddr, vaddr, size, size, 8};
    };
    const std::array<Elf64_Phdr, kSegments> segments{{
        segment(PT_LOAD, PF_R, 0, kDataVaddr, kCodeOffset),
        segment(PT_LOAD, PF_R | PF_X, kCodeOffset, kCodeVaddr, kCodeSize),
        segment(PT_DYNAMIC, PF_R, dynamic_at, kDataVaddr + dynamic_at, sizeof(dynamic)),
        segment(PT_NOTE, PF_R, notes_at, kDataVaddr + notes_at, notes.size() * 4),
    }};
    write(sizeof(Elf64_Ehdr), segments);
    change_segment(kNote, [](auto &s) { s.p_align = 4; });

    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_type = ET_DYN;
    header.e_machine = EM_X86_64;
    header.e_version = EV_CURRENT;
    header.e_phoff = sizeof(Elf64_Ehdr);
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = kSegments;
    header.e_ehsize = sizeof(Elf64_Ehdr);
    header.e_shoff = sections_at;
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = options.sections ? std::uint16_t{kSections} : std::uint16_t{0};
    write(0, header);
}

Fd file_of(std::span<const std::byte> bytes) {
    Fd fd(::memfd_create("elf-image", MFD_CLOEXEC));
    while (fd && !bytes.empty()) {
        const ssize_t written = ::write(fd.get(), bytes.data(), bytes.size());
        if (written <= 0) {
            throw std::runtime_error("cannot write an image");
        }
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return fd;
}

}  // namespace gpusnoop::test
