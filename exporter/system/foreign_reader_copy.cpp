// Copies the parts of an ELF file that the exporter's ELF reader needs, or a text. Trusts no value
// in the file.
#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "exporter/system/foreign_reader_child.h"

namespace gpusnoop::reader {
namespace {

// One file, and how much of it may still be copied.
struct Copying {
    int file;
    std::uint64_t bytes;
    int copy;
    Shared &shared;
    std::uint64_t room;

    // Bytes after the end of the file are skipped: the ELF reader notices that.
    int range(std::uint64_t offset, std::uint64_t size) {
        if (offset >= bytes) {
            return 0;
        }
        size = std::min(size, bytes - offset);
        if (size > room) {
            return EFBIG;
        }
        room -= size;
        while (size > 0) {
            const ssize_t got =
                ::pread(file, shared.buffer, std::min<std::uint64_t>(size, sizeof(shared.buffer)),
                        static_cast<off_t>(offset));
            if (got < 0 && errno == EINTR) {
                continue;
            }
            if (got <= 0) {
                return got < 0 ? errno : 0;  // the file was truncated meanwhile
            }
            const ssize_t put = ::pwrite(copy, shared.buffer, static_cast<std::size_t>(got),
                                         static_cast<off_t>(offset));
            if (put != got) {
                return put < 0 ? errno : ENOSPC;
            }
            offset += static_cast<std::uint64_t>(got);
            size -= static_cast<std::uint64_t>(got);
            shared.progress.fetch_add(1, std::memory_order_relaxed);
        }
        return 0;
    }
};

bool is_wanted(const Elf64_Shdr &section) {
    switch (section.sh_type) {
        case SHT_NULL:
        case SHT_NOBITS:
            return false;
        case SHT_SYMTAB:
        case SHT_DYNSYM:
        case SHT_STRTAB:
        case SHT_HASH:
        case SHT_GNU_HASH:
            return true;
        default:
            return (section.sh_flags & SHF_EXECINSTR) == 0 && section.sh_size < max_small_section;
    }
}

int copy_sections(Copying &to, const Elf64_Ehdr &header) {
    if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shoff >= to.bytes) {
        return 0;
    }
    // If their number does not fit into the header, the first section has it.
    Elf64_Shdr section{};
    std::uint64_t count = header.e_shnum;
    if (::pread(to.file, &section, sizeof(section), static_cast<off_t>(header.e_shoff)) !=
        static_cast<ssize_t>(sizeof(section))) {
        return 0;
    }
    count = std::min<std::uint64_t>(count == 0 ? section.sh_size : count, 65'536);
    if (const int error = to.range(header.e_shoff, count * sizeof(section)); error != 0) {
        return error;
    }
    for (std::uint64_t i = 0; i < count; i++) {
        // Read from the copy: the bytes checked here are the bytes that were copied.
        if (::pread(to.copy, &section, sizeof(section),
                    static_cast<off_t>(header.e_shoff + i * sizeof(section))) !=
            static_cast<ssize_t>(sizeof(section))) {
            return 0;
        }
        if (!is_wanted(section)) {
            continue;
        }
        if (const int error = to.range(section.sh_offset, section.sh_size); error != 0) {
            return error;
        }
    }
    return 0;
}

int copy_segments(Copying &to, const Elf64_Ehdr &header, bool with_code) {
    if (header.e_phentsize != sizeof(Elf64_Phdr)) {
        return 0;
    }
    const std::uint64_t size = std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr);
    if (const int error = to.range(header.e_phoff, size); error != 0) {
        return error;
    }
    for (unsigned i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr segment{};
        if (::pread(to.copy, &segment, sizeof(segment),
                    static_cast<off_t>(header.e_phoff + i * sizeof(segment))) !=
            static_cast<ssize_t>(sizeof(segment))) {
            return 0;
        }
        const bool is_code = segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0;
        // Without sections, the symbols are in the read-only segments.
        const bool has_symbols =
            segment.p_type == PT_LOAD && (segment.p_flags & PF_W) == 0 && header.e_shnum == 0;
        const bool is_small = segment.p_type != PT_LOAD && segment.p_filesz < max_small_section;
        if (is_small || (is_code ? with_code : has_symbols)) {
            if (const int error = to.range(segment.p_offset, segment.p_filesz); error != 0) {
                return error;
            }
        }
    }
    return 0;
}

}  // namespace

int copy_elf(int file, std::uint64_t bytes, int copy, bool with_code, Shared &shared) {
    Copying to{file, bytes, copy, shared, with_code ? max_copied : max_copied_symbols};
    if (::ftruncate(copy, static_cast<off_t>(bytes)) != 0) {
        return errno;
    }
    if (const int error = to.range(0, sizeof(Elf64_Ehdr)); error != 0) {
        return error;
    }
    Elf64_Ehdr header{};
    if (::pread(copy, &header, sizeof(header), 0) != static_cast<ssize_t>(sizeof(header)) ||
        std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != ELFCLASS64) {
        return 0;
    }
    if (const int error = copy_segments(to, header, with_code); error != 0) {
        return error;
    }
    return copy_sections(to, header);
}

int copy_text(int file, std::uint64_t bytes, int copy, Shared &shared) {
    Copying to{file, bytes, copy, shared, max_copied_text};
    return to.range(0, bytes);
}

}  // namespace gpusnoop::reader
