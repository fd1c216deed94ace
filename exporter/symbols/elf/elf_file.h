// The symbols of an ELF file that is not trusted (a container's library, for example).
//
// Every offset, size and count is checked against the file and against ElfLimits, so that a hostile
// file costs a bounded amount of time and memory and gives an error. The file is read with pread
// and never mapped. Supported: 64-bit little-endian executables and shared libraries for x86_64 and
// aarch64.
#pragma once

#include <elf.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"
#include "exporter/base/work_limit.h"
#include "exporter/symbols/elf/elf_reader.h"
#include "exporter/symbols/elf/elf_tables.h"

namespace gpusnoop::symbols {

// The USDT probes of a file (DTRACE_PROBE and STAP_PROBE of <sys/sdt.h>): places in its code that
// its authors have named.

struct UsdtName {
    std::string provider;
    std::string probe;
    auto operator<=>(const UsdtName &) const = default;
};

// One of the places of a probe: a compiler may make several of one in the source.
struct UsdtPlace {
    std::uint64_t file_offset = 0;  // of an instruction that does nothing
    // The file offset of the 16-bit counter that says to the program how many listen to the probe;
    // 0: it has none.
    std::uint64_t semaphore = 0;
    auto operator<=>(const UsdtPlace &) const = default;
};

struct UsdtProbe {
    std::vector<UsdtPlace> places{};  // by file offset, each once
    // Places that are no instruction that does nothing: the file is wrong, and a probe there could
    // break the program.
    std::size_t unusable = 0;
    // Places whose counter is not an aligned one of two bytes in the writable section .probes: to
    // count there would change other data of the program.
    std::size_t wrong_semaphores = 0;
};

// A function that a file defines.
struct FoundFunction {
    std::size_t name = 0;           // index into the requested names
    std::uint64_t file_offset = 0;  // of its first instruction: a uprobe attaches there
    std::uint64_t vaddr = 0;        // st_value: as linked, without the load address
    std::uint64_t size = 0;         // bytes, 0 if the file does not contain it
    bool probeable = true;          // false for STT_GNU_IFUNC: the code only selects a function
};

// A symbol of any kind except sections, files and thread-local data.
struct FoundSymbol {
    std::string name;         // as stored: mangled, any bytes but NUL
    std::uint64_t vaddr = 0;  // as linked, without the load address
    std::uint64_t size = 0;   // bytes, 0 if the file does not contain it
};

// A function that a file defines, found by a test of its name.
struct ListedFunction {
    std::string name;               // as stored: mangled, any bytes but NUL
    std::uint64_t file_offset = 0;  // of its first instruction: a uprobe attaches there
    std::uint64_t vaddr = 0;        // st_value: as linked, without the load address
    std::uint64_t size = 0;         // bytes, 0 if the file does not contain it
    bool probeable = true;          // false for STT_GNU_IFUNC: the code only selects a function
    bool global = true;             // false for a weak or a local symbol
    bool in_debug_file = false;     // its name is only in the debug file
};

// The contents of .gnu_debuglink: the file that has the symbols.
struct DebugLink {
    std::string name;
    std::uint32_t crc = 0;  // CRC-32 of that file
};

class ElfFile {
public:
    // A longer name is never returned or found. CUTLASS has mangled names of several KiB.
    static constexpr std::size_t max_name_bytes = 16 * 1024;
    static constexpr std::size_t max_sections = 65'536;
    static constexpr std::size_t max_program_headers = 4096;
    // The most places where one name may be defined, and symbols that one ending may match.
    static constexpr std::size_t max_functions_per_name = 64;
    static constexpr std::size_t max_matches = 262'144;
    // Of the notes of all USDT probes, and places of the wanted ones. OpenJDK has 60 KiB of notes.
    static constexpr std::uint64_t max_usdt_bytes = std::uint64_t{4} << 20;
    static constexpr std::size_t max_usdt_places = 4096;
    // Of .gnu_debugdata, compressed and decompressed.
    static constexpr std::uint64_t max_debug_data = std::uint64_t{32} << 20;
    static constexpr std::size_t max_matched_name_bytes = std::size_t{64} << 20;

    // Reads the headers. `fd` is borrowed and must stay open as long as this object is used; its
    // file position is not moved. Fails with a sentence if it is not a regular file or not a
    // supported ELF file. Wrong section headers are not a failure (the loader ignores them, too):
    // see section_problem(). Each call below has its own budget of `limits`.
    [[nodiscard]] static Result<ElfFile> open(int fd, const ElfLimits &limits = {});

    // Where the file defines functions of exactly these names, from .symtab and .dynsym (found
    // through PT_DYNAMIC in a file without section headers), each offset once per name, in the
    // order of `names`, then of offset. A name that is undefined, absent or not code is not in the
    // result. Fails if the file is malformed, if a limit is reached, or if a name has too many
    // definitions. A file without symbol tables gives an empty result.
    [[nodiscard]] Result<std::vector<FoundFunction>> find_functions(
        std::span<const std::string_view> names) const;

    // The function that covers each of these file offsets; its name is "" if no function does. Of
    // several, the one that starts last; of aliases, a global one before a weak one before a local
    // one, and .symtab before .dynsym. A function of unknown size covers its first byte only.
    [[nodiscard]] Result<std::vector<FoundSymbol>> functions_at(
        std::span<const std::uint64_t> file_offsets) const;

    // All functions, for many calls of functions_at(). Fails as find_functions() does, and with
    // EFBIG if there are more than `most`.
    [[nodiscard]] Result<FunctionIndex> index_functions(std::size_t most) const;
    // The same as functions_at() above, without reading the symbols again.
    [[nodiscard]] Result<std::vector<FoundSymbol>> functions_at(
        const FunctionIndex &index, std::span<const std::uint64_t> file_offsets) const;

    // Every function whose name `wanted` accepts, by name and offset, each once. `wanted` is called
    // once for each place of a string table where a function's name starts. Fails as
    // find_functions() does, and with EFBIG over max_matches or max_matched_name_bytes.
    [[nodiscard]] Result<std::vector<ListedFunction>> list_functions(
        const std::function<bool(std::string_view)> &wanted) const;

    // Every defined symbol, including data, whose name ends with `ending` (at least one byte), by
    // address and name. For nvcc's launch handles: "E8__handle". Fails over max_matches or
    // max_matched_name_bytes.
    [[nodiscard]] Result<std::vector<FoundSymbol>> find_by_suffix(std::string_view ending) const;

    // The USDT probes of these names, in their order, without places if the file has no such probe.
    // Fails if the notes are malformed, or if a limit is reached.
    [[nodiscard]] Result<std::vector<UsdtProbe>> find_usdt_probes(
        std::span<const UsdtName> names) const;

    // The file offset of a virtual address as linked; empty if no bytes of the file are loaded
    // there.
    [[nodiscard]] std::optional<std::uint64_t> to_file_offset(std::uint64_t vaddr) const;

    // The virtual address as linked of a file offset in an executable segment; else empty.
    [[nodiscard]] std::optional<std::uint64_t> to_vaddr(std::uint64_t file_offset) const;

    // The lowest p_vaddr of the executable PT_LOADs: for the main program, the kernel puts its
    // start code (field 26 of /proc/<pid>/stat, mm->start_code) at this plus the load address.
    // Empty if nothing is executable.
    [[nodiscard]] std::optional<std::uint64_t> lowest_executable_vaddr() const;

    // The GNU build id in lower-case hex; empty if there is none or it cannot be read.
    [[nodiscard]] std::optional<std::string> build_id() const;

    [[nodiscard]] const ElfLimits &limits() const { return limits_; }

    // Whether it has a full symbol table, besides the loader's.
    [[nodiscard]] bool has_symtab() const { return symtab_.has_value(); }
    [[nodiscard]] std::optional<DebugLink> debug_link() const;

    // A file with the symbols of this one. Fails unless it has symbols, and this file's build id,
    // or if this file has none, the CRC in debug_link().
    struct DebugFile {
        Fd fd;
        std::uint64_t file_size = 0;
        SymbolTable symtab;
        bool is_in_memory = false;
    };
    [[nodiscard]] Result<std::shared_ptr<const DebugFile>> open_debug_file(
        Fd file, const WorkLimit &limit = {}) const;
    // The one that is compressed inside this file (.gnu_debugdata, on RHEL and Fedora), in memory:
    // it has the functions that are not in .dynsym. Fails with ENOENT if there is none.
    [[nodiscard]] Result<std::shared_ptr<const DebugFile>> debug_data() const;
    // From now on functions_at() and list_functions() use its symbols, too; null: no longer. It is
    // not trusted alone for probes in a file that others use: a function is listed only if it
    // begins where this file's table for unwinding has a function begin, and ends before the next.
    void use_debug_file(std::shared_ptr<const DebugFile> file) { debug_ = std::move(file); }
    [[nodiscard]] const DebugFile *debug_file() const { return debug_.get(); }

    // Whether a section has one of these names. A file without readable section headers has none.
    [[nodiscard]] bool has_section(std::span<const std::string_view> names) const;

    // Whether this file's .symtab or .dynsym has a symbol of one of these names, defined or not.
    // A table that cannot be read has none.
    [[nodiscard]] bool has_symbol(std::span<const std::string_view> names) const;

    // Which of these names are functions that the file exports to others, as indexes, ascending.
    // Fails as find_functions() does.
    [[nodiscard]] Result<std::vector<std::size_t>> exported(
        std::span<const std::string_view> names) const;

    // Whether the first 64 KiB of the section contain the text.
    [[nodiscard]] bool section_contains(std::string_view section, std::string_view text) const;

    [[nodiscard]] std::uint16_t machine() const { return machine_; }  // EM_X86_64 or EM_AARCH64

    // The error in the section headers, "" if they are right. Symbols may be missing then.
    [[nodiscard]] const std::string &section_problem() const { return section_problem_; }

private:
    ElfFile(int fd, std::uint64_t file_size, const ElfLimits &limits)
        : fd_(fd), file_size_(file_size), limits_(limits) {}

    [[nodiscard]] Result<> read_segments(ElfReader &reader, const Elf64_Ehdr &header);
    [[nodiscard]] Result<> read_sections(ElfReader &reader, const Elf64_Ehdr &header);
    // .symtab, then .dynsym; the section headers' error if both are missing because of it.
    [[nodiscard]] Result<std::vector<SymbolTable>> tables() const;
    // The first section that has one of these names.
    [[nodiscard]] std::optional<Elf64_Shdr> find_section(
        ElfReader &reader, std::span<const std::string_view> names) const;
    // Where functions begin by the table for unwinding, as linked and ascending; empty without the
    // table.
    [[nodiscard]] std::vector<std::uint64_t> unwind_starts() const;

    // The tables that are searched: this file's, and last the debug file's.
    class Readers {
    public:
        Readers(const ElfFile &file, std::vector<SymbolTable> own);
        [[nodiscard]] const std::vector<SymbolTable> &tables() const { return tables_; }
        [[nodiscard]] bool is_of_debug_file(std::size_t table) const { return table >= own_; }
        [[nodiscard]] ElfReader &of(std::size_t table);

    private:
        std::vector<SymbolTable> tables_;
        std::size_t own_;
        ElfReader reader_;
        std::optional<ElfReader> debug_reader_;
    };

    int fd_;
    std::uint64_t file_size_;
    ElfLimits limits_;
    std::uint16_t machine_ = 0;
    // PT_LOAD, PT_DYNAMIC, PT_NOTE and PT_GNU_EH_FRAME, in the order of the file
    std::vector<Elf64_Phdr> segments_;
    std::shared_ptr<const DebugFile> debug_;
    std::optional<SymbolTable> symtab_;
    std::optional<SymbolTable> dynsym_;
    std::string section_problem_;
};

}  // namespace gpusnoop::symbols
