// How the calls of a function are recorded: the keys that groups and functions share.

#include <algorithm>

#include "exporter/base/text/text.h"
#include "exporter/config/document.h"
#include "exporter/config/globs.h"
#include "exporter/config/reader.h"
#include "exporter/config/units.h"
#include "exporter/probes/functions/setting_groups.h"

namespace gpusnoop::probes {

namespace {

using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds max_duration = 24h;
constexpr std::size_t max_buckets = 64;
constexpr std::uint32_t max_arguments = 6;

// A duration above 0. `zero` says what to do instead of 0.
std::optional<std::chrono::nanoseconds> read_duration(const config::Value &value,
                                                      std::string_view expected,
                                                      std::string_view zero) {
    const auto text = value.text(expected);
    if (!text) {
        return std::nullopt;
    }
    // A 0 needs no unit.
    const auto parsed = *text == "0" ? 0ns : config::parse_short_duration(*text);
    if (!parsed) {
        value.wrong_type(expected);
        return std::nullopt;
    }
    if (*parsed == 0ns) {
        value.reject(zero);
        return std::nullopt;
    }
    if (*parsed > max_duration) {
        value.reject("must be " + config::short_text(max_duration) + " at most, is " + *text);
        return std::nullopt;
    }
    return parsed;
}

std::optional<std::optional<std::chrono::nanoseconds>> read_slow_threshold(
    const config::Value &value) {
    if (value.is_word("none")) {
        return std::optional<std::chrono::nanoseconds>();
    }
    const auto read = read_duration(
        value, "a duration such as 500us, 10ms or 1s, or none",
        "0 would make every call slow: leave it out, or write none, to have no slow calls");
    return read ? std::optional(read) : std::nullopt;
}

std::optional<std::vector<std::chrono::nanoseconds>> read_buckets(const config::Value &value) {
    const auto items = value.list("a list of durations", "bounds", 1, max_buckets);
    if (!items) {
        return std::nullopt;
    }
    std::vector<std::chrono::nanoseconds> bounds;
    for (const config::Value &item : *items) {
        const auto bound = read_duration(item, "a duration such as 500us, 10ms or 1s",
                                         "must be above 0: every call takes longer");
        if (bound && !bounds.empty() && *bound <= bounds.back()) {
            item.reject("must be above the bound before it, " + config::short_text(bounds.back()) +
                        ", is " + config::short_text(*bound));
        } else if (bound) {
            bounds.push_back(*bound);
        }
    }
    return bounds;
}

std::optional<std::vector<std::uint8_t>> read_arguments(const config::Value &value) {
    const auto items = value.list("a list of argument positions", "arguments", 0, max_arguments);
    if (!items) {
        return std::nullopt;
    }
    std::vector<std::uint8_t> positions;
    for (const config::Value &item : *items) {
        const auto position = item.integer(1, max_arguments);
        if (!position) {
            continue;
        }
        const auto narrow = static_cast<std::uint8_t>(*position);
        if (std::find(positions.begin(), positions.end(), narrow) != positions.end()) {
            item.reject(std::to_string(*position) + " is given twice");
        }
        positions.push_back(narrow);
    }
    return positions;
}

template <typename T>
void replace(T &value, const std::optional<T> &with) {
    if (with) {
        value = *with;
    }
}

}  // namespace

std::string_view to_text(ErrorKind kind) {
    for (const auto &[name, named] : error_kinds) {
        if (named == kind) {
            return name;
        }
    }
    return "none";
}

std::vector<std::chrono::nanoseconds> default_buckets() {
    return {1us, 10us, 50us, 100us, 500us, 1ms, 5ms, 10ms, 50ms, 100ms, 1s, 10s};
}

FunctionOptions apply(FunctionOptions options, const FunctionOverrides &overrides) {
    replace(options.slow_threshold, overrides.slow_threshold);
    replace(options.buckets, overrides.buckets);
    replace(options.errors, overrides.errors);
    replace(options.arguments, overrides.arguments);
    replace(options.entry_only, overrides.entry_only);
    replace(options.endings, overrides.endings);
    return options;
}

FunctionGroups as_is_harmless(FunctionGroups groups, const ebpf::Features &features) {
    if (features.has_harmless_return_probes()) {
        return groups;
    }
    for (auto &[name, group] : groups) {
        if (group.options.endings != ebpf::Endings::returns) {
            group.options.endings = ebpf::Endings::exits;
        }
        for (FunctionPattern &pattern : group.functions) {
            if (pattern.overrides.endings != ebpf::Endings::returns) {
                pattern.overrides.endings.reset();
            }
        }
    }
    return groups;
}

FunctionOverrides read_function_overrides(config::Section &section) {
    FunctionOverrides overrides;
    if (const config::Value *value = section.find("slow_threshold")) {
        overrides.slow_threshold = read_slow_threshold(*value);
    }
    if (const config::Value *value = section.find("buckets")) {
        overrides.buckets = read_buckets(*value);
    }
    if (const config::Value *value = section.find("errors");
        value != nullptr && value->is_word("null")) {
        overrides.errors = ErrorKind::null;
    } else if (value != nullptr) {
        ErrorKind kind = ErrorKind::none;
        section.choice("errors", kind, error_kinds);
        overrides.errors = kind;
    }
    if (const config::Value *value = section.find("arguments")) {
        overrides.arguments = read_arguments(*value);
    }
    if (const config::Value *value = section.find("entry_only")) {
        overrides.entry_only = value->boolean();
    }
    if (section.find("endings") != nullptr) {
        ebpf::Endings endings = ebpf::Endings::automatic;
        section.choice("endings", endings, ebpf::function_endings_names);
        overrides.endings = endings;
    }
    return overrides;
}

namespace {

constexpr std::size_t max_file_name = 255;
constexpr std::size_t max_path = 4095;
constexpr std::size_t max_usdt_name = 128;

// Strings in double quotes may contain characters that the file itself may not.
bool has_control_character(std::string_view text) {
    return std::any_of(text.begin(), text.end(),
                       [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

std::string length_problem(std::size_t max, std::size_t size) {
    return "must be 1 to " + std::to_string(max) + " bytes long, is " + std::to_string(size);
}

}  // namespace

std::string library_problem(const std::string &library) {
    const bool is_path = library.starts_with('/');
    const std::size_t max = is_path ? max_path : max_file_name;
    if (library.empty() || library.size() > max) {
        return length_problem(max, library.size());
    }
    if (has_control_character(library)) {
        return "holds a control character";
    }
    if (!is_path && library.find('/') != std::string::npos) {
        return in_quotes(library) + " is neither a file name nor a path that begins with /";
    }
    const auto holds = [&](std::string_view part) {
        return library.find(part) != std::string::npos;
    };
    if (is_path && (library.ends_with('/') || holds("//") || holds("/./") || holds("/../"))) {
        return in_quotes(library) +
               " can be no mapped file: write the path as /proc/PID/maps does, without //, /./, "
               "/../ and a / at the end";
    }
    if (library.find_first_not_of("*?", library.rfind('/') + 1) == std::string::npos) {
        return in_quotes(library) + " means every file: say something of the file's name";
    }
    return config::glob_problem(library);
}

std::string symbol_problem(const std::string &symbol, bool bare) {
    if (symbol.empty() || symbol.size() > max_symbol_bytes) {
        return length_problem(max_symbol_bytes, symbol.size());
    }
    if (has_control_character(symbol) || symbol.find(' ') != std::string::npos) {
        return "holds a space or a control character, which no symbol does";
    }
    if (find_invalid_utf8(symbol) != std::string::npos) {
        return "is not valid UTF-8";
    }
    if (symbol.find("::") != std::string::npos) {
        return in_quotes(symbol) +
               " is a C++ name: write the mangled symbol, which nm -D prints, such as "
               "_ZN5torch2nn10LinearImpl7forwardERKN2at6TensorE";
    }
    if (symbol.find('@') != std::string::npos) {
        return in_quotes(symbol) + " has a version: leave out the @ and what is behind it";
    }
    // Some symbols of Go have one.
    if (symbol.find('/') != std::string::npos && (bare || config::is_glob(symbol))) {
        return in_quotes(symbol) +
               " has a /, which names of functions do not: files belong under " +
               "libraries, and a symbol that has one is written {symbol: ...}";
    }
    return config::glob_problem(symbol);
}

std::string usdt_name_problem(const std::string &name) {
    if (name.empty() || name.size() > max_usdt_name) {
        return length_problem(max_usdt_name, name.size());
    }
    const bool is_identifier = std::ranges::all_of(name, [](unsigned char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '_' || c == '-';
    });
    return is_identifier ? ""
                         : in_quotes(name) +
                               " is no name of a USDT probe: these have letters, digits, _ and -, "
                               "as `readelf -n` prints them";
}

std::string function_name_problem(const std::string &name) {
    if (name.empty() || name.size() > max_function_name) {
        return length_problem(max_function_name, name.size());
    }
    if (has_control_character(name)) {
        return "holds a control character";
    }
    return find_invalid_utf8(name) == std::string::npos ? "" : "is not valid UTF-8";
}

}  // namespace gpusnoop::probes
