#include "exporter/symbols/elf/elf_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace gpusnoop::symbols {
namespace {

static_assert(std::endian::native == std::endian::little, "records are copied as they are stored");

constexpr std::uint64_t max_note_bytes = 64 * 1024;
constexpr std::uint64_t max_build_id_bytes = 64;

Result<> check_kind(const Elf64_Ehdr &header) {
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
        return fail("not an ELF file");
    }
    if (header.e_ident[EI_CLASS] != ELFCLASS64) {
        return fail("not a 64-bit ELF file");
    }
    if (header.e_ident[EI_DATA] != ELFDATA2LSB) {
        return fail("not a little-endian ELF file");
    }
    if (header.e_ident[EI_VERSION] != EV_CURRENT) {
        return fail("an ELF file of an unknown version");
    }
    if (header.e_machine != EM_X86_64 && header.e_machine != EM_AARCH64) {
        return fail("an ELF file for machine " + std::to_string(header.e_machine) +
                    ", neither x86_64 nor aarch64");
    }
    if (header.e_type != ET_EXEC && header.e_type != ET_DYN) {
        return fail("neither an executable nor a shared library");
    }
    return {};
}

std::uint64_t round_up(std::uint64_t value, std::uint64_t alignment) {
    return (value + alignment - 1) / alignment * alignment;
}

std::string to_hex(std::span<const std::byte> bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string hex;
    for (const std::byte byte : bytes) {
        hex += digits[std::to_integer<std::size_t>(byte >> 4)];
        hex += digits[std::to_integer<std::size_t>(byte & std::byte{15})];
    }
    return hex;
}

// The build id among the notes of one PT_NOTE, empty if it has none.
std::string build_id_in(std::span<const std::byte> notes, std::uint64_t alignment) {
    constexpr std::string_view owner{"GNU\0", 4};
    while (notes.size() >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr note;
        std::memcpy(&note, notes.data(), sizeof(note));
        // 32-bit sizes in 64-bit sums: nothing wraps.
        const std::uint64_t payload = round_up(sizeof(note) + note.n_namesz, alignment);
        if (!lies_inside(payload, note.n_descsz, notes.size())) {
            return {};
        }
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == owner.size() &&
            std::memcmp(notes.data() + sizeof(note), owner.data(), owner.size()) == 0 &&
            note.n_descsz > 0 && note.n_descsz <= max_build_id_bytes) {
            return to_hex(notes.subspan(static_cast<std::size_t>(payload), note.n_descsz));
        }
        const std::uint64_t next = round_up(payload + note.n_descsz, alignment);
        if (next >= notes.size()) {
            return {};
        }
        notes = notes.subspan(static_cast<std::size_t>(next));
    }
    return {};
}

// The symbol table that a section of one has, with its string table. `count` sections are at
// `sections`.
Result<SymbolTable> read_symbol_table(ElfReader &reader, std::uint64_t sections,
                                      std::uint64_t count, const Elf64_Shdr &section) {
    if (section.sh_entsize != sizeof(Elf64_Sym)) {
        return fail("its symbols have an unknown size");
    }
    if (section.sh_link >= count) {
        return fail("its symbol table has no string table");
    }
    const auto strings =
        reader.read_one<Elf64_Shdr>(sections + std::uint64_t{section.sh_link} * sizeof(Elf64_Shdr));
    if (!strings) {
        return tl::unexpected(strings.error());
    }
    if (strings->sh_type != SHT_STRTAB) {
        return fail("its symbol table has no string table");
    }
    return checked({section.sh_offset, section.sh_size / sizeof(Elf64_Sym), strings->sh_offset,
                    strings->sh_size},
                   reader);
}

}  // namespace

Result<ElfFile> ElfFile::open(int fd, const ElfLimits &limits) {
    struct stat status{};
    if (::fstat(fd, &status) != 0) {
        return fail_errno("stat");
    }
    if (!S_ISREG(status.st_mode)) {
        return fail("not a regular file");
    }
    ElfFile file(fd, static_cast<std::uint64_t>(status.st_size), limits);
    if (file.file_size_ < sizeof(Elf64_Ehdr)) {
        return fail("not an ELF file: too short");
    }
    ElfReader reader(fd, file.file_size_, limits);
    const auto header = reader.read_one<Elf64_Ehdr>(0);
    if (!header) {
        return tl::unexpected(header.error());
    }
    if (auto known = check_kind(*header); !known) {
        return tl::unexpected(known.error());
    }
    file.machine_ = header->e_machine;
    if (auto done = file.read_segments(reader, *header); !done) {
        return tl::unexpected(done.error());
    }
    if (auto done = file.read_sections(reader, *header); !done) {
        file.section_problem_ = done.error().message;
    }
    if (!file.dynsym_) {
        if (auto found = dynamic_symbols(reader, file.segments_)) {
            file.dynsym_ = *found;
        } else if (file.section_problem_.empty()) {
            file.section_problem_ = found.error().message;
        }
    }
    return file;
}

Result<> ElfFile::read_segments(ElfReader &reader, const Elf64_Ehdr &header) {
    if (header.e_phnum == 0) {
        return fail("it has no program headers");
    }
    if (header.e_phnum > max_program_headers) {
        return fail("it has more than " + std::to_string(max_program_headers) + " program headers");
    }
    if (header.e_phentsize != sizeof(Elf64_Phdr)) {
        return fail("its program headers have an unknown size");
    }
    auto done =
        reader.for_each<Elf64_Phdr>(header.e_phoff, header.e_phnum, [&](const Elf64_Phdr &segment) {
            if (segment.p_type == PT_LOAD || segment.p_type == PT_DYNAMIC ||
                segment.p_type == PT_NOTE || segment.p_type == PT_GNU_EH_FRAME) {
                segments_.push_back(segment);
            }
            return true;
        });
    return done ? done : fail_in("program headers", done.error());
}

Result<> ElfFile::read_sections(ElfReader &reader, const Elf64_Ehdr &header) {
    if (header.e_shoff == 0) {
        return {};  // the section headers were stripped
    }
    if (header.e_shentsize != sizeof(Elf64_Shdr)) {
        return fail("its section headers have an unknown size");
    }
    std::uint64_t count = header.e_shnum;
    if (count == 0) {  // too many for e_shnum: the first section has the number
        const auto first = reader.read_one<Elf64_Shdr>(header.e_shoff);
        if (!first) {
            return fail_in("section headers", first.error());
        }
        count = first->sh_size;
    }
    if (count > max_sections) {
        return fail("it has more than " + std::to_string(max_sections) + " sections");
    }
    std::optional<Elf64_Shdr> symtab;
    std::optional<Elf64_Shdr> dynsym;
    auto done = reader.for_each<Elf64_Shdr>(header.e_shoff, count, [&](const Elf64_Shdr &section) {
        if (section.sh_type == SHT_SYMTAB && !symtab) {
            symtab = section;
        } else if (section.sh_type == SHT_DYNSYM && !dynsym) {
            dynsym = section;
        }
        return true;
    });
    if (!done) {
        return fail_in("section headers", done.error());
    }

    Result<> problem;
    for (const auto &[section, table] :
         {std::pair(&symtab, &symtab_), std::pair(&dynsym, &dynsym_)}) {
        if (!section->has_value()) {
            continue;
        }
        if (auto loaded = read_symbol_table(reader, header.e_shoff, count, **section)) {
            *table = *loaded;
        } else {
            problem = tl::unexpected(loaded.error());
        }
    }
    return problem;
}

Result<std::vector<SymbolTable>> ElfFile::tables() const {
    std::vector<SymbolTable> found;
    for (const auto &table : {symtab_, dynsym_}) {
        if (table) {
            found.push_back(*table);
        }
    }
    if (found.empty() && !section_problem_.empty()) {
        return fail(section_problem_);
    }
    return found;
}

std::optional<std::uint64_t> ElfFile::to_file_offset(std::uint64_t vaddr) const {
    const auto offset = file_offset_of(segments_, vaddr, 0);
    return offset && *offset < file_size_ ? offset : std::nullopt;
}

std::optional<std::uint64_t> ElfFile::to_vaddr(std::uint64_t file_offset) const {
    if (file_offset >= file_size_) {
        return std::nullopt;
    }
    for (const Elf64_Phdr &segment : segments_) {
        if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0 ||
            file_offset < segment.p_offset || file_offset - segment.p_offset >= segment.p_filesz) {
            continue;
        }
        const std::uint64_t vaddr = file_offset - segment.p_offset + segment.p_vaddr;
        if (vaddr >= segment.p_vaddr) {
            return vaddr;
        }
    }
    return std::nullopt;
}

std::optional<std::uint64_t> ElfFile::lowest_executable_vaddr() const {
    std::optional<std::uint64_t> lowest;
    for (const Elf64_Phdr &segment : segments_) {
        if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0) {
            lowest = std::min(lowest.value_or(segment.p_vaddr), segment.p_vaddr);
        }
    }
    return lowest;
}

std::optional<std::string> ElfFile::build_id() const {
    ElfReader reader(fd_, file_size_, limits_);
    std::vector<std::byte> notes;
    for (const Elf64_Phdr &segment : segments_) {
        if (segment.p_type != PT_NOTE) {
            continue;
        }
        notes.resize(static_cast<std::size_t>(std::min(segment.p_filesz, max_note_bytes)));
        if (!reader.read(segment.p_offset, notes)) {
            continue;
        }
        auto id = build_id_in(notes, segment.p_align == 8 ? 8 : 4);
        if (!id.empty()) {
            return id;
        }
    }
    return std::nullopt;
}

}  // namespace gpusnoop::symbols
