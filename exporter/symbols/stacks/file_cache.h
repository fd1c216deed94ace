// Keeps files of other processes open to look up functions in them, and caches the names found.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/file_id.h"
#include "exporter/processes/file_opener.h"
#include "exporter/symbols/elf/elf_file.h"

namespace gpusnoop::symbols {

// The function at a place of a file.
struct FunctionAt {
    std::string name;          // "": no function is known at the place
    std::uint64_t offset = 0;  // bytes from its start
};

// A file that was opened. A file that is not ELF is remembered, too, but not kept open.
class CachedFile {
public:
    [[nodiscard]] const FileId &id() const { return id_; }
    [[nodiscard]] std::uint64_t bytes() const { return state_.bytes; }
    [[nodiscard]] const ElfFile *elf() const { return elf_ ? &*elf_ : nullptr; }
    [[nodiscard]] ElfFile *elf() { return elf_ ? &*elf_ : nullptr; }
    // Its GNU build id; empty if it has none. Read once.
    [[nodiscard]] const std::string &build_id();
    // The symbols whose names end so; none if they cannot be read. Of the first ending that is
    // asked for, they are read once.
    [[nodiscard]] const std::vector<FoundSymbol> &find_by_suffix(std::string_view ending);
    // The file, if its file system always answers; else -1.
    [[nodiscard]] int local_fd() const { return file_ ? -1 : fd_.get(); }
    // Up to `size` bytes from `offset`; fewer at the file's end, or if it is not kept open.
    [[nodiscard]] std::string read(std::uint64_t offset, std::size_t size) const;

private:
    friend class FileCache;
    [[nodiscard]] bool is_as_it_was() const;

    FileId id_;
    FileState state_;
    Fd fd_;    // the file, or a copy of it
    Fd file_;  // the original, if fd_ is a copy
    std::optional<ElfFile> elf_;
    std::optional<std::string> build_id_;                  // once it is read
    std::optional<std::vector<FoundSymbol>> with_suffix_;  // once they are read
    std::optional<FunctionIndex> index_;                   // once it is read
    bool unindexed_ = false;                               // it has too many functions for an index
    bool unreadable_ = false;        // its symbols took too long or are damaged: do not try again
    bool lacks_debug_data_ = false;  // or it cannot be used
    std::unordered_map<std::uint64_t, FunctionAt> functions_;  // by file offset; requested ones
    std::chrono::steady_clock::time_point used_;
};

// Holds a bounded number of files and of names. Closes files that are not used for a while, so that
// their file systems can be unmounted. Used by one thread.
class FileCache {
public:
    using Clock = std::chrono::steady_clock;
    struct Settings {
        std::size_t max_copies = 2;           // of files, in memory
        std::size_t max_files = 64;           // over it, closes the oldest used
        std::size_t max_names = 16'384;       // of all files together
        std::size_t max_indexed = 1'000'000;  // functions: of all files; half of it, of one
        // Decompressed symbols, of all files but the last used one.
        std::uint64_t max_debug_data = ElfFile::max_debug_data;
        Clock::duration close_after = std::chrono::seconds(60);  // without use
        std::function<Clock::time_point()> now = [] { return Clock::now(); };
    };

    // `name_of` makes a name from a symbol, as function_name() does.
    explicit FileCache(std::string (*name_of)(std::string_view symbol), Settings settings);
    explicit FileCache(std::string (*name_of)(std::string_view symbol));

    // A cached file, unless it has changed since, or, with `bytes`, has another size. Counts as a
    // use. The results of find() and keep() are valid until the next call of keep() or
    // close_unused().
    [[nodiscard]] CachedFile *find(const FileId &id, std::optional<std::uint64_t> bytes = {});
    CachedFile &keep(const FileId &id, processes::MappedFile opened);
    CachedFile &keep(const FileId &id, Fd fd) {
        return keep(id, processes::MappedFile{std::move(fd), {}});
    }

    // One for each of `file_offsets`. The symbols of a file are read once, unless it has very many:
    // then once for all new offsets.
    [[nodiscard]] std::vector<FunctionAt> functions_at(CachedFile &file,
                                                       std::span<const std::uint64_t> file_offsets);

    // Closes and forgets the files that were not used for `close_after`.
    void close_unused();
    // The time when the next file can be closed; empty while no file is kept.
    [[nodiscard]] std::optional<Clock::time_point> next_close() const;
    [[nodiscard]] std::size_t size() const { return files_.size(); }
    [[nodiscard]] std::size_t names() const { return names_; }

private:
    using Files = std::list<CachedFile>;
    void forget(Files::iterator file);
    void forget_copies();
    void forget_names(CachedFile &file);
    void read_index(CachedFile &file);
    void read_debug_data(CachedFile &file);
    void read_symbols(CachedFile &file, const std::vector<std::uint64_t> &offsets,
                      std::unordered_map<std::uint64_t, FunctionAt> &found);

    std::string (*name_of_)(std::string_view symbol);
    Settings settings_;
    Files files_;  // most recently used first
    std::size_t names_ = 0;
};

}  // namespace gpusnoop::symbols
