#include "exporter/symbols/stacks/file_cache.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

namespace gpusnoop::symbols {
std::string CachedFile::read(std::uint64_t offset, std::size_t size) const {
    std::string bytes(size, '\0');
    std::size_t filled = 0;
    while (fd_ && filled < size) {
        const ssize_t got = ::pread(fd_.get(), bytes.data() + filled, size - filled,
                                    static_cast<off_t>(offset + filled));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        filled += static_cast<std::size_t>(got);
    }
    bytes.resize(filled);
    return bytes;
}

const std::string &CachedFile::build_id() {
    if (!build_id_) {
        build_id_ = elf_ ? elf_->build_id().value_or("") : "";
    }
    return *build_id_;
}

const std::vector<FoundSymbol> &CachedFile::find_by_suffix(std::string_view ending) {
    if (!with_suffix_) {
        with_suffix_.emplace();
        if (elf_) {
            *with_suffix_ = elf_->find_by_suffix(ending).value_or(std::vector<FoundSymbol>());
        }
    }
    return *with_suffix_;
}

bool CachedFile::is_as_it_was() const {
    if (!fd_) {
        return true;
    }
    const auto state = state_of(file_ ? file_ : fd_);
    return state && *state == state_;
}

FileCache::FileCache(std::string (*name_of)(std::string_view symbol), Settings settings)
    : name_of_(name_of), settings_(std::move(settings)) {}

FileCache::FileCache(std::string (*name_of)(std::string_view symbol))
    : FileCache(name_of, Settings()) {}

CachedFile *FileCache::find(const FileId &id, std::optional<std::uint64_t> bytes) {
    const auto found = std::ranges::find_if(files_, [&](const CachedFile &file) {
        return file.id_ == id && file.bytes() == bytes.value_or(file.bytes());
    });
    if (found == files_.end()) {
        return nullptr;
    }
    if (!found->is_as_it_was()) {
        forget(found);
        return nullptr;
    }
    files_.splice(files_.begin(), files_, found);
    files_.front().used_ = settings_.now();
    return &files_.front();
}

CachedFile &FileCache::keep(const FileId &id, processes::MappedFile opened) {
    std::erase_if(files_, [&](CachedFile &file) {
        if (file.id_ == id) {
            forget_names(file);
        }
        return file.id_ == id;
    });
    CachedFile &file = files_.emplace_front();
    file.id_ = id;
    file.used_ = settings_.now();
    file.state_ = state_of(opened.file).value_or(FileState());
    if (auto elf = ElfFile::open(opened.readable())) {
        file.elf_ = std::move(*elf);
        const bool is_copy = static_cast<bool>(opened.content);
        file.fd_ = std::move(is_copy ? opened.content : opened.file);
        if (is_copy) {
            file.file_ = std::move(opened.file);
            forget_copies();
        }
    }
    while (files_.size() > std::max<std::size_t>(settings_.max_files, 1)) {
        forget(std::prev(files_.end()));
    }
    return file;
}

std::vector<FunctionAt> FileCache::functions_at(CachedFile &file,
                                                std::span<const std::uint64_t> file_offsets) {
    std::vector<std::uint64_t> unknown;
    for (const std::uint64_t offset : file_offsets) {
        if (!file.functions_.contains(offset)) {
            unknown.push_back(offset);
        }
    }
    std::ranges::sort(unknown);
    const auto repeated = std::ranges::unique(unknown);
    unknown.erase(repeated.begin(), repeated.end());
    std::unordered_map<std::uint64_t, FunctionAt> found;
    read_symbols(file, unknown, found);

    std::vector<FunctionAt> functions;
    functions.reserve(file_offsets.size());
    for (const std::uint64_t offset : file_offsets) {
        const auto fresh = found.find(offset);
        functions.push_back(fresh != found.end() ? fresh->second : file.functions_.at(offset));
    }
    names_ += found.size();
    file.functions_.merge(found);
    // All names of a file are forgotten: the next questions are not known, and this is rare.
    for (auto oldest = files_.rbegin(); names_ > settings_.max_names && oldest != files_.rend();
         ++oldest) {
        forget_names(*oldest);
    }
    return functions;
}

void FileCache::read_symbols(CachedFile &file, const std::vector<std::uint64_t> &offsets,
                             std::unordered_map<std::uint64_t, FunctionAt> &found) {
    for (const std::uint64_t offset : offsets) {
        found.try_emplace(offset);
    }
    if (offsets.empty() || !file.elf_ || file.unreadable_) {
        return;
    }
    read_debug_data(file);
    read_index(file);
    if (file.unreadable_) {
        return;
    }
    const auto symbols = file.index_ ? file.elf_->functions_at(*file.index_, offsets)
                                     : file.elf_->functions_at(offsets);
    if (!symbols) {
        file.unreadable_ = true;
        return;
    }
    for (std::size_t i = 0; i < offsets.size(); ++i) {
        const FoundSymbol &symbol = (*symbols)[i];
        if (const auto vaddr = file.elf_->to_vaddr(offsets[i]); vaddr && !symbol.name.empty()) {
            found[offsets[i]] = {name_of_(symbol.name), *vaddr - symbol.vaddr};
        }
    }
}

// Of a file without a symbol table and a debug file.
void FileCache::read_debug_data(CachedFile &file) {
    if (file.elf_->has_symtab() || file.elf_->debug_file() != nullptr || file.lacks_debug_data_) {
        return;
    }
    auto data = file.elf_->debug_data();
    if (!data) {
        file.lacks_debug_data_ = true;
        return;
    }
    file.elf_->use_debug_file(*std::move(data));
    std::uint64_t bytes = 0;
    for (CachedFile &other : files_) {  // most recently used first
        const ElfFile::DebugFile *debug = other.elf_ ? other.elf_->debug_file() : nullptr;
        if (debug == nullptr || !debug->is_in_memory) {
            continue;
        }
        bytes += debug->file_size;
        if (bytes > settings_.max_debug_data && &other != &file) {
            other.elf_->use_debug_file(nullptr);  // and is read again if asked for
            other.index_.reset();
        }
    }
}

// Without it, a process that launches kernels at thousands of addresses would have the symbols read
// thousands of times.
void FileCache::read_index(CachedFile &file) {
    if (file.index_ || file.unindexed_) {
        return;
    }
    auto index = file.elf_->index_functions(settings_.max_indexed / 2);
    if (!index) {
        file.unindexed_ = index.error().code == EFBIG;
        file.unreadable_ = !file.unindexed_;
        return;
    }
    file.index_ = std::move(*index);
    std::size_t indexed = 0;
    for (CachedFile &other : files_) {  // most recently used first
        indexed += other.index_ ? other.index_->functions() : 0;
        if (indexed > settings_.max_indexed && &other != &file) {
            other.index_.reset();
        }
    }
}

void FileCache::close_unused() {
    const auto now = settings_.now();
    while (!files_.empty() && now - files_.back().used_ >= settings_.close_after) {
        forget(std::prev(files_.end()));
    }
}

std::optional<FileCache::Clock::time_point> FileCache::next_close() const {
    return files_.empty() ? std::nullopt
                          : std::optional(files_.back().used_ + settings_.close_after);
}

// Forgets the least recently used copies over the limit: copies take memory.
void FileCache::forget_copies() {
    std::size_t copies = 0;
    for (auto file = files_.begin(); file != files_.end();) {
        copies += file->file_ ? 1 : 0;
        const auto next = std::next(file);
        if (file->file_ && copies > std::max<std::size_t>(settings_.max_copies, 1)) {
            forget(file);
        }
        file = next;
    }
}

void FileCache::forget(Files::iterator file) {
    forget_names(*file);
    files_.erase(file);
}

void FileCache::forget_names(CachedFile &file) {
    names_ -= file.functions_.size();
    file.functions_.clear();
}

}  // namespace gpusnoop::symbols
