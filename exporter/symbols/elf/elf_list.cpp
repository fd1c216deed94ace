// Lists functions by a test of their names. Reads all names of functions, in the order of the
// string table and in big pieces: one read for each of the 400,000 functions of a large library
// would take seconds.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <tuple>
#include <utility>

#include "exporter/symbols/elf/elf_file.h"
#include "exporter/symbols/elf/elf_tables.h"

namespace gpusnoop::symbols {
namespace {

// The cost of calling `wanted`, in steps of work: it compares the name with several others.
constexpr std::uint64_t steps_per_name = 64;

// The places of a string table where names of functions start. One bit for each byte of the table:
// this is bounded for any number of symbols, and needs no sorting.
class Places {
public:
    explicit Places(std::uint64_t size) : words_(static_cast<std::size_t>((size + 63) / 64)) {}

    void add(std::uint64_t at) {
        words_[static_cast<std::size_t>(at / 64)] |= std::uint64_t{1} << (at % 64);
    }

    // Calls `visit` for each, ascending, until it returns false.
    template <typename Visit>
    void for_each(Visit visit) const {
        for (std::size_t i = 0; i < words_.size(); ++i) {
            for (std::uint64_t word = words_[i]; word != 0; word &= word - 1) {
                if (!visit(i * 64 + static_cast<unsigned>(std::countr_zero(word)))) {
                    return;
                }
            }
        }
    }

private:
    std::vector<std::uint64_t> words_;
};

// Reads the names of a string table, in ascending order of their places.
class NameReader {
public:
    NameReader(ElfReader &reader, const SymbolTable &table) : reader_(reader), table_(table) {}

    // The name at `at`, valid until the next call; empty if it is too long or has no end.
    Result<std::string_view> read(std::uint64_t at) {
        if (!end_ || *end_ < at) {
            if (auto done = find_end(at); !done) {
                return tl::unexpected(done.error());
            }
        }
        const std::uint64_t size = end_ ? *end_ - at : 0;
        if (size == 0 || size > ElfFile::max_name_bytes) {
            return std::string_view();
        }
        return std::string_view(window_.data() + (at - window_at_), static_cast<std::size_t>(size));
    }

private:
    // Sets end_ to the first NUL from `at` on, if it is near enough.
    Result<> find_end(std::uint64_t at) {
        end_.reset();
        const std::uint64_t near = std::min<std::uint64_t>(at + ElfFile::max_name_bytes + 1,  //
                                                           table_.strings_size);
        if (at < window_at_ || near > window_at_ + window_.size()) {
            window_at_ = at;
            window_.resize(static_cast<std::size_t>(
                std::min<std::uint64_t>(ElfReader::chunk_bytes, table_.strings_size - at)));
            auto done = reader_.read(table_.strings_offset + at,
                                     std::as_writable_bytes(std::span(window_)));
            if (!done) {
                return done;
            }
        }
        const char *const from = window_.data() + (at - window_at_);
        const auto bytes = static_cast<std::size_t>(near - at);
        if (const void *nul = std::memchr(from, 0, bytes)) {
            end_ = at + static_cast<std::uint64_t>(static_cast<const char *>(nul) - from);
        }
        return reader_.work(end_ ? *end_ - at : bytes);
    }

    ElfReader &reader_;
    SymbolTable table_;
    std::vector<char> window_;
    std::uint64_t window_at_ = 0;       // of its first byte
    std::optional<std::uint64_t> end_;  // of the last name read, in the window
};
static_assert(ElfFile::max_name_bytes < ElfReader::chunk_bytes / 2);

struct WantedName {
    std::uint64_t at = 0;
    std::string name;
};

Error too_many() {
    return {"too many of its functions match", EFBIG};
}

// The names of functions in `table` that `wanted` accepts, by place.
Result<std::vector<WantedName>> wanted_names(ElfReader &reader, const SymbolTable &table,
                                             const std::function<bool(std::string_view)> &wanted) {
    Places places(table.strings_size);
    auto done = reader.for_each<Elf64_Sym>(table.offset, table.count, [&](const auto &symbol) {
        if (is_function(symbol) && symbol.st_name < table.strings_size) {
            places.add(symbol.st_name);
        }
        return true;
    });
    if (!done) {
        return tl::unexpected(done.error());
    }
    NameReader names(reader, table);
    std::vector<WantedName> found;
    std::size_t bytes = 0;
    places.for_each([&](std::uint64_t at) {
        const auto name = names.read(at);
        if (!name) {
            done = tl::unexpected(name.error());
            return false;
        }
        done = reader.work(steps_per_name + name->size());
        if (!done || name->empty() || !wanted(*name)) {
            return done.has_value();
        }
        bytes += name->size();
        if (found.size() >= ElfFile::max_matches || bytes > ElfFile::max_matched_name_bytes) {
            done = tl::unexpected(too_many());
            return false;
        }
        found.push_back({at, std::string(*name)});
        return true;
    });
    if (!done) {
        return tl::unexpected(done.error());
    }
    return found;
}

// Sorts, and removes duplicates: the same name at the same place, as in both tables.
void merge(std::vector<ListedFunction> &functions) {
    const auto key = [](const ListedFunction &f) { return std::tie(f.name, f.file_offset); };
    std::sort(functions.begin(), functions.end(),
              [&](const auto &a, const auto &b) { return key(a) < key(b); });
    std::size_t kept = 0;
    for (std::size_t i = 1; i < functions.size(); ++i) {
        ListedFunction &last = functions[kept];
        if (key(last) != key(functions[i])) {
            if (++kept != i) {
                functions[kept] = std::move(functions[i]);
            }
            continue;
        }
        if (last.in_debug_file != functions[i].in_debug_file) {
            last.size = last.in_debug_file ? functions[i].size : last.size;
        } else {
            last.size = std::max(last.size, functions[i].size);
        }
        last.in_debug_file = last.in_debug_file && functions[i].in_debug_file;
        last.probeable = last.probeable && functions[i].probeable;
        last.global = last.global || functions[i].global;
    }
    functions.resize(functions.empty() ? 0 : kept + 1);
}

// Whether the function begins at one of `starts`. Cuts its size at the next start.
bool is_cut_to(const std::vector<std::uint64_t> &starts, ListedFunction &function) {
    const auto start = std::lower_bound(starts.begin(), starts.end(), function.vaddr);
    if (start == starts.end() || *start != function.vaddr) {
        return false;
    }
    if (const auto next = std::next(start); next != starts.end()) {
        function.size = std::min(function.size, *next - function.vaddr);
    }
    return true;
}

}  // namespace

Result<std::vector<ListedFunction>> ElfFile::list_functions(
    const std::function<bool(std::string_view)> &wanted) const {
    const auto searched = tables();
    if (!searched) {
        return tl::unexpected(searched.error());
    }
    Readers readers(*this, *searched);
    std::vector<ListedFunction> functions;
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < readers.tables().size(); ++i) {
        const SymbolTable &table = readers.tables()[i];
        ElfReader &reader = readers.of(i);
        const bool in_debug_file = readers.is_of_debug_file(i);
        const auto starts = in_debug_file ? unwind_starts() : std::vector<std::uint64_t>();
        const auto names = wanted_names(reader, table, wanted);
        if (!names) {
            return tl::unexpected(names.error());
        }
        Result<> problem;
        const std::uint64_t count = names->empty() ? 0 : table.count;
        auto done = reader.for_each<Elf64_Sym>(table.offset, count, [&](const auto &symbol) {
            if (!is_function(symbol)) {
                return true;
            }
            const auto name = std::lower_bound(
                names->begin(), names->end(), symbol.st_name,
                [](const WantedName &candidate, std::uint64_t at) { return candidate.at < at; });
            if (name == names->end() || name->at != symbol.st_name) {
                return true;
            }
            const auto offset = file_offset_of(segments_, symbol.st_value, PF_X);
            problem = reader.work(segments_.size());
            if (!problem || !offset || *offset >= file_size_) {
                return problem.has_value();
            }
            bytes += name->name.size();
            if (functions.size() >= max_matches || bytes > max_matched_name_bytes) {
                problem = tl::unexpected(too_many());
                return false;
            }
            functions.push_back({name->name, *offset, symbol.st_value, symbol.st_size,
                                 type_of(symbol) == STT_FUNC,
                                 ELF64_ST_BIND(symbol.st_info) == STB_GLOBAL, in_debug_file});
            if (in_debug_file && !is_cut_to(starts, functions.back())) {
                functions.pop_back();
            }
            return true;
        });
        if (!done || !problem) {
            return tl::unexpected(!done ? done.error() : problem.error());
        }
    }
    merge(functions);
    return functions;
}

}  // namespace gpusnoop::symbols
