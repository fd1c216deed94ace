// The searches of ElfFile. They never hold a string table in memory: names are found by one pass
// over the strings and one over the symbols, and only the names that are returned are read.
#include <algorithm>
#include <array>
#include <cerrno>
#include <tuple>
#include <utility>

#include "exporter/symbols/elf/elf_file.h"
#include "exporter/symbols/elf/elf_tables.h"

namespace gpusnoop::symbols {
namespace {

bool has_address(const Elf64_Sym &symbol) {
    return is_defined(symbol) && type_of(symbol) != STT_SECTION && type_of(symbol) != STT_FILE &&
           type_of(symbol) != STT_TLS;
}

// The name at `at` of the table's strings; empty if it is too long or has no end.
Result<std::string> read_name(ElfReader &reader, const SymbolTable &table, std::uint64_t at) {
    std::string name;
    while (at < table.strings_size && name.size() <= ElfFile::max_name_bytes) {
        std::array<char, 512> piece;
        const auto size = static_cast<std::size_t>(
            std::min<std::uint64_t>(piece.size(), table.strings_size - at));
        auto done = reader.read(table.strings_offset + at,
                                std::as_writable_bytes(std::span(piece).first(size)));
        if (!done) {
            return tl::unexpected(done.error());
        }
        const std::string_view text(piece.data(), size);
        const std::size_t end = text.find('\0');
        name += text.substr(0, end);
        if (end != std::string_view::npos) {
            return name.size() <= ElfFile::max_name_bytes ? name : std::string();
        }
        at += size;
    }
    return std::string();
}

// A place of the string table where a wanted name starts.
struct NameAt {
    std::uint64_t offset;
    std::uint32_t name;
    bool operator<(const NameAt &other) const { return offset < other.offset; }
};

// A requested offset, and the best function for it so far.
struct Query {
    std::uint64_t vaddr = 0;
    std::size_t index = 0;
    std::uint64_t start = 0;  // of the function; 0 is none
    std::uint64_t size = 0;
    int rank = 0;
    std::size_t table = 0;
    std::uint32_t name = 0;
};

int rank_of(const Elf64_Sym &symbol) {
    switch (ELF64_ST_BIND(symbol.st_info)) {
        case STB_GLOBAL:
            return 2;
        case STB_WEAK:
            return 1;
        default:
            return 0;
    }
}

}  // namespace

bool ElfFile::has_symbol(std::span<const std::string_view> names) const {
    const auto searched = tables();
    if (!searched) {
        return false;
    }
    ElfReader reader(fd_, file_size_, limits_);
    for (const SymbolTable &table : *searched) {
        const auto tails = find_suffixes(reader, table, names);
        if (!tails) {
            return false;
        }
        std::vector<std::uint64_t> places;  // of the names, ascending
        places.reserve(tails->size());
        for (const SuffixMatch &tail : *tails) {
            places.push_back(tail.end - names[tail.ending].size());
        }
        std::ranges::sort(places);
        bool found = false;
        if (!places.empty() &&
            reader.for_each<Elf64_Sym>(table.offset, table.count,
                                       [&](const Elf64_Sym &symbol) {
                                           found = std::ranges::binary_search(
                                               places, std::uint64_t{symbol.st_name});
                                           return !found;
                                       }) &&
            found) {
            return true;
        }
    }
    return false;
}

Result<std::vector<std::size_t>> ElfFile::exported(std::span<const std::string_view> names) const {
    std::vector<std::size_t> found;
    if (!dynsym_) {
        return found;
    }
    ElfReader reader(fd_, file_size_, limits_);
    const auto tails = find_suffixes(reader, *dynsym_, names);
    if (!tails) {
        return tl::unexpected(tails.error());
    }
    std::vector<NameAt> places;
    places.reserve(tails->size());
    for (const SuffixMatch &tail : *tails) {
        places.push_back({tail.end - names[tail.ending].size(), tail.ending});
    }
    if (places.empty()) {
        return found;
    }
    std::sort(places.begin(), places.end());
    std::vector<bool> is_found(names.size());
    auto done =
        reader.for_each<Elf64_Sym>(dynsym_->offset, dynsym_->count, [&](const auto &symbol) {
            if (is_function(symbol) && ELF64_ST_BIND(symbol.st_info) != STB_LOCAL) {
                const auto [first, last] =
                    std::equal_range(places.begin(), places.end(), NameAt{symbol.st_name, 0});
                std::for_each(first, last,
                              [&](const NameAt &place) { is_found[place.name] = true; });
            }
            return true;
        });
    if (!done) {
        return tl::unexpected(done.error());
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (is_found[i]) {
            found.push_back(i);
        }
    }
    return found;
}

Result<std::vector<FoundFunction>> ElfFile::find_functions(
    std::span<const std::string_view> names) const {
    const auto searched = tables();
    if (!searched) {
        return tl::unexpected(searched.error());
    }
    ElfReader reader(fd_, file_size_, limits_);
    std::vector<FoundFunction> functions;
    std::vector<std::size_t> found_of(names.size());
    for (const SymbolTable &table : *searched) {
        const auto tails = find_suffixes(reader, table, names);
        if (!tails) {
            return tl::unexpected(tails.error());
        }
        std::vector<NameAt> places;
        places.reserve(tails->size());
        for (const SuffixMatch &tail : *tails) {
            places.push_back({tail.end - names[tail.ending].size(), tail.ending});
        }
        std::sort(places.begin(), places.end());

        Result<> problem;
        auto done = reader.for_each<Elf64_Sym>(table.offset, table.count, [&](const auto &symbol) {
            if (!is_function(symbol)) {
                return true;
            }
            const auto [first, last] =
                std::equal_range(places.begin(), places.end(), NameAt{symbol.st_name, 0});
            if (first == last) {
                return true;
            }
            const auto offset = file_offset_of(segments_, symbol.st_value, PF_X);
            problem = reader.work(segments_.size());
            if (!offset || *offset >= file_size_) {
                return problem.has_value();
            }
            for (auto place = first; place != last && problem; ++place) {
                const bool known =
                    std::any_of(functions.begin(), functions.end(), [&](const auto &function) {
                        return function.name == place->name && function.file_offset == *offset;
                    });
                problem = reader.work(functions.size());
                if (known || !problem) {
                    continue;
                }
                if (++found_of[place->name] > max_functions_per_name) {
                    problem =
                        fail("it defines more than " + std::to_string(max_functions_per_name) +
                                 " functions of one name",
                             EFBIG);
                    break;
                }
                functions.push_back({place->name, *offset, symbol.st_value, symbol.st_size,
                                     type_of(symbol) == STT_FUNC});
            }
            return problem.has_value();
        });
        if (!done || !problem) {
            return tl::unexpected(!done ? done.error() : problem.error());
        }
    }
    std::sort(functions.begin(), functions.end(), [](const auto &a, const auto &b) {
        return std::pair(a.name, a.file_offset) < std::pair(b.name, b.file_offset);
    });
    return functions;
}

Result<std::vector<FoundSymbol>> ElfFile::functions_at(
    std::span<const std::uint64_t> file_offsets) const {
    const auto searched = tables();
    if (!searched) {
        return tl::unexpected(searched.error());
    }
    Readers readers(*this, *searched);
    std::vector<Query> queries;
    for (std::size_t i = 0; i < file_offsets.size(); ++i) {
        if (const auto vaddr = to_vaddr(file_offsets[i])) {
            Query query;
            query.vaddr = *vaddr;
            query.index = i;
            queries.push_back(query);
        }
    }
    const auto by_address = [](const Query &a, const Query &b) { return a.vaddr < b.vaddr; };
    std::sort(queries.begin(), queries.end(), by_address);

    for (std::size_t table = 0; table < readers.tables().size(); ++table) {
        ElfReader &reader = readers.of(table);
        Result<> in_time;
        auto done = reader.for_each<Elf64_Sym>(
            readers.tables()[table].offset, readers.tables()[table].count, [&](const auto &symbol) {
                if (!is_function(symbol)) {
                    return true;
                }
                Query start;
                start.vaddr = symbol.st_value;
                auto query = std::lower_bound(queries.begin(), queries.end(), start, by_address);
                const std::uint64_t size = std::max<std::uint64_t>(symbol.st_size, 1);
                std::uint64_t covered = 0;
                for (; query != queries.end() && query->vaddr - symbol.st_value < size; ++query) {
                    ++covered;
                    if (std::pair(symbol.st_value, rank_of(symbol)) >
                        std::pair(query->start, query->start == 0 ? -1 : query->rank)) {
                        query->start = symbol.st_value;
                        query->rank = rank_of(symbol);
                        query->table = table;
                        query->name = symbol.st_name;
                        query->size = symbol.st_size;
                    }
                }
                in_time = reader.work(covered);
                return in_time.has_value();
            });
        if (!done || !in_time) {
            return tl::unexpected(!done ? done.error() : in_time.error());
        }
    }

    std::vector<FoundSymbol> found(file_offsets.size());
    for (const Query &query : queries) {
        if (query.start == 0) {
            continue;
        }
        auto name = read_name(readers.of(query.table), readers.tables()[query.table], query.name);
        if (!name) {
            return tl::unexpected(name.error());
        }
        found[query.index] = {std::move(*name), query.start, query.size};
    }
    return found;
}

Result<FunctionIndex> ElfFile::index_functions(std::size_t most) const {
    const auto searched = tables();
    if (!searched) {
        return tl::unexpected(searched.error());
    }
    Readers readers(*this, *searched);
    std::vector<IndexedFunction> functions;
    for (std::size_t table = 0; table < readers.tables().size(); ++table) {
        const auto done = readers.of(table).for_each<Elf64_Sym>(
            readers.tables()[table].offset, readers.tables()[table].count, [&](const auto &symbol) {
                if (is_function(symbol)) {
                    functions.push_back({.vaddr = symbol.st_value,
                                         .size = symbol.st_size,
                                         .name = symbol.st_name,
                                         .table = static_cast<std::uint16_t>(table),
                                         .rank = static_cast<std::uint16_t>(rank_of(symbol))});
                }
                return functions.size() <= most;
            });
        if (!done) {
            return tl::unexpected(done.error());
        }
        if (functions.size() > most) {
            return fail("it has too many functions for an index", EFBIG);
        }
    }
    return FunctionIndex(std::move(functions));
}

Result<std::vector<FoundSymbol>> ElfFile::functions_at(
    const FunctionIndex &index, std::span<const std::uint64_t> file_offsets) const {
    const auto searched = tables();
    if (!searched) {
        return tl::unexpected(searched.error());
    }
    Readers readers(*this, *searched);
    std::vector<FoundSymbol> found(file_offsets.size());
    for (std::size_t i = 0; i < file_offsets.size(); ++i) {
        const auto vaddr = to_vaddr(file_offsets[i]);
        const IndexedFunction *function = vaddr ? index.at(*vaddr) : nullptr;
        if (function == nullptr || function->table >= readers.tables().size()) {
            continue;
        }
        auto name = read_name(readers.of(function->table), readers.tables()[function->table],
                              function->name);
        if (!name) {
            return tl::unexpected(name.error());
        }
        found[i] = {std::move(*name), function->vaddr, function->size};
    }
    return found;
}

Result<std::vector<FoundSymbol>> ElfFile::find_by_suffix(std::string_view ending) const {
    if (ending.empty()) {
        return fail("an ending is needed to find symbols by", EINVAL);
    }
    const auto searched = tables();
    if (!searched) {
        return tl::unexpected(searched.error());
    }
    ElfReader reader(fd_, file_size_, limits_);
    std::vector<FoundSymbol> symbols;
    std::size_t name_bytes = 0;
    for (const SymbolTable &table : *searched) {
        const auto tails = find_suffixes(reader, table, std::span(&ending, 1));
        if (!tails) {
            return tl::unexpected(tails.error());
        }
        Result<> problem;
        auto done = reader.for_each<Elf64_Sym>(table.offset, table.count, [&](const auto &symbol) {
            if (!has_address(symbol)) {
                return true;
            }
            // The tails are in the order of the table: the first that ends after the name starts.
            const auto tail = std::upper_bound(
                tails->begin(), tails->end(), symbol.st_name,
                [](std::uint64_t at, const SuffixMatch &candidate) { return at < candidate.end; });
            if (tail == tails->end() || symbol.st_name < tail->begin ||
                tail->end - symbol.st_name < ending.size() ||
                tail->end - symbol.st_name > max_name_bytes) {
                return true;
            }
            std::string name(static_cast<std::size_t>(tail->end - symbol.st_name), '\0');
            name_bytes += name.size();
            if (symbols.size() >= max_matches || name_bytes > max_matched_name_bytes) {
                problem = fail("too many of its symbols match", EFBIG);
                return false;
            }
            problem = reader.read(table.strings_offset + symbol.st_name,
                                  std::as_writable_bytes(std::span(name)));
            symbols.push_back({std::move(name), symbol.st_value, symbol.st_size});
            return problem.has_value();
        });
        if (!done || !problem) {
            return tl::unexpected(!done ? done.error() : problem.error());
        }
    }
    const auto key = [](const FoundSymbol &s) { return std::tie(s.vaddr, s.name); };
    std::sort(symbols.begin(), symbols.end(),
              [&](const auto &a, const auto &b) { return key(a) < key(b); });
    symbols.erase(std::unique(symbols.begin(), symbols.end(),
                              [&](const auto &a, const auto &b) { return key(a) == key(b); }),
                  symbols.end());
    return symbols;
}

}  // namespace gpusnoop::symbols
