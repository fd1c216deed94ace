#include "exporter/symbols/elf/elf_tables.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

namespace gpusnoop::symbols {

namespace {

constexpr std::uint64_t max_dynamic_entries = 4096;
constexpr std::size_t max_suffixes = 1'000'000;

struct DynamicEntries {
    std::optional<std::uint64_t> symbols, strings, strings_size, entry_size, hash, gnu_hash;
};

Result<DynamicEntries> read_dynamic(ElfReader &reader, const Elf64_Phdr &segment) {
    const std::uint64_t count = segment.p_filesz / sizeof(Elf64_Dyn);
    if (count > max_dynamic_entries) {
        return fail("its dynamic section has more than " + std::to_string(max_dynamic_entries) +
                    " entries");
    }
    DynamicEntries found;
    auto done = reader.for_each<Elf64_Dyn>(segment.p_offset, count, [&](const Elf64_Dyn &entry) {
        switch (entry.d_tag) {
            case DT_NULL:
                return false;
            case DT_SYMTAB:
                found.symbols = entry.d_un.d_ptr;
                break;
            case DT_STRTAB:
                found.strings = entry.d_un.d_ptr;
                break;
            case DT_STRSZ:
                found.strings_size = entry.d_un.d_val;
                break;
            case DT_SYMENT:
                found.entry_size = entry.d_un.d_val;
                break;
            case DT_HASH:
                found.hash = entry.d_un.d_ptr;
                break;
            case DT_GNU_HASH:
                found.gnu_hash = entry.d_un.d_ptr;
                break;
            default:
                break;
        }
        return true;
    });
    if (!done) {
        return tl::unexpected(done.error());
    }
    return found;
}

// DT_GNU_HASH does not contain the number of symbols: the last one is at the end of the chain that
// starts at the highest bucket.
Result<std::uint64_t> count_by_gnu_hash(ElfReader &reader, std::uint64_t offset) {
    struct Header {
        std::uint32_t buckets, first_symbol, bloom_words, bloom_shift;
    };
    const auto header = reader.read_one<Header>(offset);
    if (!header) {
        return tl::unexpected(header.error());
    }
    // Three 32-bit counts and an offset inside the file: no sum below can wrap.
    const std::uint64_t buckets = offset + sizeof(Header) + std::uint64_t{header->bloom_words} * 8;
    const std::uint64_t chains = buckets + std::uint64_t{header->buckets} * 4;
    std::uint32_t last = 0;
    auto done =
        reader.for_each<std::uint32_t>(buckets, header->buckets, [&](const std::uint32_t &bucket) {
            last = std::max(last, bucket);
            return true;
        });
    if (!done) {
        return tl::unexpected(done.error());
    }
    if (last < header->first_symbol) {
        return header->first_symbol;  // it defines nothing
    }
    std::uint64_t position = last;
    std::uint64_t at = chains + std::uint64_t{last - header->first_symbol} * 4;
    while (position < reader.limits().max_symbols) {
        const auto chain = reader.read_one<std::uint32_t>(at);
        if (!chain) {
            return tl::unexpected(chain.error());
        }
        ++position;
        at += 4;
        if ((*chain & 1U) != 0) {
            return position;
        }
    }
    return fail("it claims more than " + std::to_string(reader.limits().max_symbols) + " symbols");
}

Result<std::uint64_t> count_symbols(ElfReader &reader, std::span<const Elf64_Phdr> segments,
                                    const DynamicEntries &entries) {
    if (entries.hash) {
        const auto offset = file_offset_of(segments, *entries.hash, 0);
        if (!offset) {
            return fail("its hash table is in no segment");
        }
        const auto header = reader.read_one<std::array<std::uint32_t, 2>>(*offset);
        if (!header) {
            return tl::unexpected(header.error());
        }
        return (*header)[1];
    }
    if (entries.gnu_hash) {
        const auto offset = file_offset_of(segments, *entries.gnu_hash, 0);
        if (!offset) {
            return fail("its hash table is in no segment");
        }
        return count_by_gnu_hash(reader, *offset);
    }
    return fail("it has neither section headers nor a hash table");
}

}  // namespace

Result<SymbolTable> checked(const SymbolTable &table, const ElfReader &reader) {
    const ElfLimits &limits = reader.limits();
    if (table.count > limits.max_symbols) {
        return fail("it claims more than " + std::to_string(limits.max_symbols) + " symbols");
    }
    if (table.count > reader.file_size() / sizeof(Elf64_Sym) ||
        !lies_inside(table.offset, table.count * sizeof(Elf64_Sym), reader.file_size())) {
        return fail("its symbol table lies outside the file");
    }
    if (table.strings_size > limits.max_string_table) {
        return fail("its string table is larger than " + std::to_string(limits.max_string_table) +
                    " bytes");
    }
    if (!lies_inside(table.strings_offset, table.strings_size, reader.file_size())) {
        return fail("its string table lies outside the file");
    }
    return table;
}

std::optional<std::uint64_t> file_offset_of(std::span<const Elf64_Phdr> segments,
                                            std::uint64_t vaddr, Elf64_Word flags) {
    for (const Elf64_Phdr &segment : segments) {
        if (segment.p_type != PT_LOAD || (segment.p_flags & flags) != flags ||
            vaddr < segment.p_vaddr || vaddr - segment.p_vaddr >= segment.p_filesz) {
            continue;
        }
        const std::uint64_t offset = vaddr - segment.p_vaddr + segment.p_offset;
        if (offset >= segment.p_offset) {
            return offset;
        }
    }
    return std::nullopt;
}

Result<std::optional<SymbolTable>> dynamic_symbols(ElfReader &reader,
                                                   std::span<const Elf64_Phdr> segments) {
    const auto dynamic = std::find_if(segments.begin(), segments.end(),
                                      [](const auto &s) { return s.p_type == PT_DYNAMIC; });
    if (dynamic == segments.end()) {
        return std::nullopt;
    }
    const auto entries = read_dynamic(reader, *dynamic);
    if (!entries) {
        return tl::unexpected(entries.error());
    }
    if (!entries->symbols || !entries->strings) {
        return std::nullopt;
    }
    if (entries->entry_size.value_or(sizeof(Elf64_Sym)) != sizeof(Elf64_Sym)) {
        return fail("its dynamic symbols have an unknown size");
    }
    const auto count = count_symbols(reader, segments, *entries);
    if (!count) {
        return tl::unexpected(count.error());
    }
    const auto symbols = file_offset_of(segments, *entries->symbols, 0);
    const auto strings = file_offset_of(segments, *entries->strings, 0);
    if (!symbols || !strings) {
        return fail("its dynamic symbols are in no segment");
    }
    const auto table =
        checked({*symbols, *count, *strings, entries->strings_size.value_or(0)}, reader);
    if (!table) {
        return tl::unexpected(table.error());
    }
    return *table;
}

Result<std::vector<SuffixMatch>> find_suffixes(ElfReader &reader, const SymbolTable &table,
                                               std::span<const std::string_view> endings) {
    // By last byte, so that most strings are compared with few endings.
    std::array<std::vector<std::uint32_t>, 256> by_last_byte;
    std::size_t longest = 0;
    for (std::uint32_t i = 0; i < endings.size(); ++i) {
        if (!endings[i].empty()) {
            by_last_byte[static_cast<unsigned char>(endings[i].back())].push_back(i);
            longest = std::max(longest, endings[i].size());
        }
    }

    std::vector<SuffixMatch> tails;
    if (longest == 0) {
        return tails;
    }
    std::vector<char> window(longest + ElfReader::chunk_bytes);
    std::size_t kept = 0;     // bytes at the front of the window from before this chunk
    std::uint64_t begin = 0;  // of the current string
    for (std::uint64_t at = 0; at < table.strings_size;) {
        const auto size = static_cast<std::size_t>(
            std::min<std::uint64_t>(ElfReader::chunk_bytes, table.strings_size - at));
        auto done = reader.read(table.strings_offset + at,
                                std::as_writable_bytes(std::span(window).subspan(kept, size)));
        if (!done) {
            return tl::unexpected(done.error());
        }
        const std::uint64_t window_at = at - kept;
        const char *const base = window.data();
        const char *from = base + kept;
        const char *const to = from + size;
        while (const void *found = std::memchr(from, 0, static_cast<std::size_t>(to - from))) {
            const char *const nul = static_cast<const char *>(found);
            const std::uint64_t end = window_at + static_cast<std::uint64_t>(nul - base);
            from = nul + 1;
            if (end > begin) {
                const auto &candidates = by_last_byte[static_cast<unsigned char>(nul[-1])];
                if (auto in_time = reader.work(1 + candidates.size()); !in_time) {
                    return tl::unexpected(in_time.error());
                }
                for (const std::uint32_t i : candidates) {
                    const std::string_view ending = endings[i];
                    if (ending.size() <= end - begin &&
                        std::memcmp(nul - ending.size(), ending.data(), ending.size()) == 0) {
                        tails.push_back({begin, end, i});
                    }
                }
                if (tails.size() > max_suffixes) {
                    return fail("more than " + std::to_string(max_suffixes) + " of its names match",
                                EFBIG);
                }
            }
            begin = end + 1;
        }
        at += size;
        const std::size_t filled = kept + size;
        kept = std::min(longest, filled);
        std::memmove(window.data(), window.data() + filled - kept, kept);
    }
    return tails;
}

FunctionIndex::FunctionIndex(std::vector<IndexedFunction> functions)
    : functions_(std::move(functions)) {
    // Of equals, the first one in the file comes last, as it counts.
    std::ranges::reverse(functions_);
    std::ranges::stable_sort(functions_, {}, [](const IndexedFunction &function) {
        return std::pair(function.vaddr, function.rank);
    });
    std::vector<std::uint32_t> open;  // the functions that cover the place, the last one on top
    // Ends the functions that end at this place or before it.
    const auto close_until = [&](std::uint64_t place) {
        while (!open.empty() && end_of(open.back()) <= place) {
            const std::uint64_t end = end_of(open.back());
            while (!open.empty() && end_of(open.back()) <= end) {
                open.pop_back();
            }
            add(end, open.empty() ? none : open.back());
        }
    };
    for (std::size_t i = 0; i < functions_.size(); ++i) {
        const auto function = static_cast<std::uint32_t>(i);
        close_until(functions_[i].vaddr);
        open.push_back(function);
        add(functions_[i].vaddr, function);
    }
    close_until(~std::uint64_t{0});
    segments_.shrink_to_fit();
}

std::uint64_t FunctionIndex::end_of(std::uint32_t function) const {
    const IndexedFunction &one = functions_[function];
    const std::uint64_t size = std::max<std::uint64_t>(one.size, 1);
    return one.vaddr + std::min(size, ~std::uint64_t{0} - one.vaddr);
}

void FunctionIndex::add(std::uint64_t begin, std::uint32_t function) {
    if (!segments_.empty() && segments_.back().begin == begin) {
        segments_.back().function = function;
    } else {
        segments_.push_back({begin, function});
    }
}

const IndexedFunction *FunctionIndex::at(std::uint64_t vaddr) const {
    const auto after = std::ranges::upper_bound(segments_, vaddr, {}, &Segment::begin);
    if (after == segments_.begin() || std::prev(after)->function == none) {
        return nullptr;
    }
    return &functions_[std::prev(after)->function];
}

}  // namespace gpusnoop::symbols
