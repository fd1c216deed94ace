// Small ELF images for the tests of ElfFile: built well-formed, then damaged by the test.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/fd.h"

namespace gpusnoop::test {

struct ImageSymbol {
    std::string name;
    std::uint64_t value = 0;
    std::uint64_t size = 16;
    unsigned type = STT_FUNC;
    unsigned bind = STB_GLOBAL;
    std::uint16_t section = 1;  // any that is not SHN_UNDEF
};

struct ImageOptions {
    std::vector<ImageSymbol> symtab;
    std::vector<ImageSymbol> dynsym;
    bool sections = true;
    bool gnu_hash = false;            // DT_GNU_HASH instead of DT_HASH
    std::string strings_before = {};  // put in front of .strtab's names, each ended by its own NUL
};

// An image, and where its parts are in it.
class ElfImage {
public:
    // Code is loaded at a distance from its file offset that no other part has.
    static constexpr std::uint64_t kDataVaddr = 0x400000;  // of file offset 0
    static constexpr std::uint64_t kCodeOffset = 0x4000;
    static constexpr std::uint64_t kCodeVaddr = 0x10006000;  // of kCodeOffset
    static constexpr std::uint64_t kCodeSize = 0x1000;
    static constexpr std::uint64_t offset_of(std::uint64_t vaddr) {
        return vaddr - kCodeVaddr + kCodeOffset;
    }
    static constexpr std::string_view kBuildId = "0123456789abcdef0123456789abcdef01234567";

    enum Section { kNull, kText, kDynstr, kDynsym, kStrtab, kSymtab, kSections };
    enum Segment { kData, kCode, kDynamic, kNote, kSegments };

    explicit ElfImage(const ImageOptions &options);

    [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
    void resize(std::size_t size) { bytes_.resize(size); }

    template <typename T>
    [[nodiscard]] T read(std::uint64_t offset) const {
        T value;
        std::memcpy(&value, bytes_.data() + offset, sizeof(value));
        return value;
    }
    template <typename T>
    void write(std::uint64_t offset, const T &value) {
        std::memcpy(bytes_.data() + offset, &value, sizeof(value));
    }
    template <typename T, typename Change>
    void change(std::uint64_t offset, Change change) {
        T value = read<T>(offset);
        change(value);
        write(offset, value);
    }
    template <typename Change>
    void change_header(Change change_it) {
        change<Elf64_Ehdr>(0, change_it);
    }
    template <typename Change>
    void change_section(Section section, Change change_it) {
        change<Elf64_Shdr>(sections_at + section * sizeof(Elf64_Shdr), change_it);
    }
    template <typename Change>
    void change_segment(Segment segment, Change change_it) {
        change<Elf64_Phdr>(sizeof(Elf64_Ehdr) + segment * sizeof(Elf64_Phdr), change_it);
    }
    template <typename Change>
    void change_symbol(std::size_t index, Change change_it) {  // of .symtab; 0 is the null symbol
        change<Elf64_Sym>(symtab_at + index * sizeof(Elf64_Sym), change_it);
    }

    std::uint64_t sections_at = 0;
    std::uint64_t symtab_at = 0;
    std::uint64_t hash_at = 0;
    std::uint64_t dynamic_at = 0;

private:
    std::uint64_t append(const void *data, std::size_t size);

    std::vector<std::byte> bytes_;
};

inline constexpr std::uint64_t kCode = ElfImage::kCodeVaddr;

// An unnamed file with these bytes.
[[nodiscard]] Fd file_of(std::span<const std::byte> bytes);

}  // namespace gpusnoop::test
