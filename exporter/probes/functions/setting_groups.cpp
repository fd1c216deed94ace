#include "exporter/probes/functions/setting_groups.h"

#include <algorithm>
#include <unordered_map>

#include "exporter/base/text/text.h"
#include "exporter/config/globs.h"
#include "exporter/config/reader.h"

namespace gpusnoop::probes {

namespace {

constexpr std::size_t max_libraries = 64;
constexpr std::size_t max_excludes = 10'000;

bool is_group_name(std::string_view name) {
    constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyz0123456789_";
    return !name.empty() && name.size() <= 32 && name.front() >= 'a' && name.front() <= 'z' &&
           name.find_first_not_of(allowed) == std::string_view::npos;
}

std::string first_on(const config::Value &value) {
    return ", first on line " + std::to_string(value.position().line + 1);
}

// The text, if it has no problems.
template <typename Check>
std::optional<std::string> checked_text(const config::Value &value, std::string_view expected,
                                        const Check &problem_of) {
    auto text = value.text(expected);
    if (const std::string problem = text ? problem_of(*text) : ""; !problem.empty()) {
        value.reject(problem);
        return std::nullopt;
    }
    return text;
}

// A list of texts without duplicates.
template <typename Check>
std::vector<std::string> read_texts(const std::vector<config::Value> &items,
                                    std::string_view expected, const Check &problem_of) {
    std::vector<std::string> texts;
    std::unordered_map<std::string, const config::Value *> seen;
    for (const config::Value &item : items) {
        auto text = checked_text(item, expected, problem_of);
        if (!text) {
            continue;
        }
        if (const auto [first, is_new] = seen.emplace(*text, &item); !is_new) {
            item.reject("given twice" + first_on(*first->second));
            continue;
        }
        texts.push_back(*std::move(text));
    }
    return texts;
}

// Settings for the ends of calls have no effect if only the starts are seen.
void reject_without_ends(config::Section &section, const FunctionOverrides &given) {
    constexpr std::string_view no_duration =
        "has no effect: with entry_only, calls have no duration, as only their start is seen";
    if (given.slow_threshold && *given.slow_threshold) {
        section.reject("slow_threshold", no_duration);
    }
    if (given.buckets) {
        section.reject("buckets", no_duration);
    }
    if (given.errors && *given.errors != ErrorKind::none) {
        section.reject("errors",
                       "has no effect: with entry_only, calls have no result, as only their start "
                       "is seen");
    }
    if (given.endings && *given.endings != ebpf::Endings::automatic) {
        section.reject("endings", "has no effect: with entry_only, no end of a call is seen");
    }
    if (given.arguments && !given.arguments->empty()) {
        section.reject("arguments",
                       "has no effect: arguments are recorded with slow calls, and with entry_only "
                       "no call is slow");
    }
}

std::optional<FunctionPattern> read_detailed(const config::Value &value,
                                             const FunctionOptions &group) {
    config::Section section(value);
    FunctionPattern pattern;
    const config::Value *name = section.find("name");
    const config::Value *symbol = section.find("symbol");
    bool is_fine = true;
    if (name != nullptr && symbol != nullptr) {
        auto text = checked_text(*name, "a name", function_name_problem);
        is_fine = text.has_value();
        pattern.name = std::move(text).value_or("");
    }
    if (const config::Value *one = symbol != nullptr ? symbol : name) {
        auto text = checked_text(*one, "a symbol", [&](const std::string &read) {
            return symbol_problem(read, symbol == nullptr);
        });
        is_fine = is_fine && text;
        pattern.symbol = std::move(text).value_or("");
    } else {
        section.reject("has no symbol: every function needs one");
        is_fine = false;
    }
    pattern.overrides = read_function_overrides(section);
    if (pattern.overrides.entry_only.value_or(group.entry_only)) {
        reject_without_ends(section, pattern.overrides);
    }
    section.finish();
    return is_fine ? std::optional(std::move(pattern)) : std::nullopt;
}

std::optional<FunctionPattern> read_function(const config::Value &value,
                                             const FunctionOptions &group) {
    std::optional<FunctionPattern> pattern;
    if (value.is_mapping()) {
        pattern = read_detailed(value, group);
    } else if (auto symbol = checked_text(
                   value, "a symbol, or a mapping with one",
                   [](const std::string &text) { return symbol_problem(text, true); })) {
        pattern = FunctionPattern{.symbol = *std::move(symbol)};
    }
    if (pattern) {
        pattern->is_glob = config::is_glob(pattern->symbol);
        pattern->line = {value.position().line + 1};
        // The symbol is the default name.
        pattern->name = pattern->name == pattern->symbol ? "" : pattern->name;
    }
    return pattern;
}

std::vector<FunctionPattern> read_functions(const std::vector<config::Value> &items,
                                            const FunctionOptions &group) {
    std::vector<FunctionPattern> patterns;
    std::unordered_map<std::string, const config::Value *> symbols;
    std::unordered_map<std::string, const config::Value *> names;
    for (const config::Value &item : items) {
        auto pattern = read_function(item, group);
        if (!pattern) {
            continue;
        }
        if (const auto [first, is_new] = symbols.emplace(pattern->symbol, &item); !is_new) {
            item.reject(in_quotes(pattern->symbol) + " is given twice" + first_on(*first->second));
            continue;
        }
        const std::string &shown = pattern->name.empty() ? pattern->symbol : pattern->name;
        if (const auto [first, is_new] = names.emplace(shown, &item); !is_new) {
            const auto other = std::ranges::find(patterns, pattern->name, &FunctionPattern::name);
            if (pattern->name.empty() || other == patterns.end() ||
                other->overrides != pattern->overrides) {
                item.reject("the name " + in_quotes(shown) +
                            " is that of another function already" + first_on(*first->second));
                continue;
            }
        }
        patterns.push_back(*std::move(pattern));
    }
    return patterns;
}

// What has no effect between USDT probes, which are no functions.
void reject_of_functions(config::Section &section, const FunctionOverrides &given) {
    constexpr std::string_view no_function =
        "has no effect: what is between two USDT probes is no function";
    for (const auto &[key, is_given] : {std::pair("errors", given.errors.has_value()),
                                        {"arguments", given.arguments.has_value()},
                                        {"entry_only", given.entry_only.has_value()},
                                        {"endings", given.endings.has_value()}}) {
        if (is_given) {
            section.reject(key, no_function);
        }
    }
}

std::optional<UsdtCall> read_usdt_call(const config::Value &value) {
    config::Section section(value);
    bool is_fine = true;
    const auto text = [&](const char *key, std::string_view expected, const auto &problem_of,
                          bool is_needed) {
        const config::Value *entry = section.find(key);
        if (entry == nullptr && is_needed) {
            section.reject(std::string("has no ") + key + ": a call between USDT probes needs " +
                           "provider, begin and end, as `readelf -n` prints them");
        }
        auto read = entry == nullptr ? std::nullopt : checked_text(*entry, expected, problem_of);
        is_fine = is_fine && (read.has_value() || (entry == nullptr && !is_needed));
        return std::move(read).value_or("");
    };
    UsdtCall call;
    call.provider = text("provider", "the provider of USDT probes", usdt_name_problem, true);
    call.begin = text("begin", "a USDT probe", usdt_name_problem, true);
    call.end = text("end", "a USDT probe", usdt_name_problem, true);
    call.name = text("name", "a name", function_name_problem, false);
    if (call.name.empty()) {
        call.name = call.begin;
    }
    if (is_fine && call.begin == call.end) {
        section.reject("end", "is the probe of begin: a call needs two");
        is_fine = false;
    }
    if (section.find("symbol") != nullptr) {
        section.reject("symbol",
                       "is for functions: a call between USDT probes has begin and end instead");
        is_fine = false;
    }
    call.overrides = read_function_overrides(section);
    reject_of_functions(section, call.overrides);
    section.finish();
    return is_fine ? std::optional(std::move(call)) : std::nullopt;
}

std::vector<UsdtCall> read_usdt_calls(const std::vector<config::Value> &items) {
    std::vector<UsdtCall> calls;
    std::unordered_map<std::string, const config::Value *> begins;
    std::unordered_map<std::string, const config::Value *> names;
    for (const config::Value &item : items) {
        if (!item.is_mapping()) {
            item.wrong_type("a mapping with provider, begin and end");
            continue;
        }
        auto call = read_usdt_call(item);
        if (!call) {
            continue;
        }
        const std::string begin = call->provider + ":" + call->begin;
        if (const auto [first, is_new] = begins.emplace(begin, &item); !is_new) {
            item.reject("another call begins at " + in_quotes(begin) + " already" +
                        first_on(*first->second));
            continue;
        }
        if (const auto [first, is_new] = names.emplace(call->name, &item); !is_new) {
            item.reject("the name " + in_quotes(call->name) + " is given twice" +
                        first_on(*first->second));
            continue;
        }
        calls.push_back(*std::move(call));
    }
    return calls;
}

void read_group(const std::string &name, const config::Value &value, bool is_shipped,
                FunctionGroup &group) {
    config::Section section(value);
    section.boolean("enabled", group.enabled);
    const FunctionOverrides given = read_function_overrides(section);
    group.options = apply(std::move(group.options), given);
    const auto list = [&](const char *key, std::string_view expected, std::string_view items,
                          std::size_t min, std::size_t max) {
        const config::Value *entry = section.find(key);
        return entry == nullptr ? std::nullopt : entry->list(expected, items, min, max);
    };
    if (const auto items = list("libraries", "a list of file names", "files", 1, max_libraries)) {
        group.libraries = read_texts(*items, "a file name or path", library_problem);
    }
    section.boolean("match_exports", group.match_exports);
    if (const auto items =
            list("functions", "a list of functions", "functions", 1, max_function_patterns)) {
        group.functions = read_functions(*items, group.options);
    }
    if (const auto items = list("usdt", "a list of calls", "calls", 1, max_usdt_calls)) {
        group.usdt = read_usdt_calls(*items);
    }
    if (group.match_exports &&
        std::ranges::all_of(group.functions, [](const auto &one) { return one.is_glob; })) {
        section.reject("match_exports",
                       "has no effect: the group names no function exactly, but only by globs");
    }
    for (const UsdtCall &call : group.usdt) {
        if (std::ranges::any_of(group.functions, [&](const FunctionPattern &function) {
                return call.name == (function.name.empty() ? function.symbol : function.name);
            })) {
            section.reject("usdt", "the name " + in_quotes(call.name) +
                                       " is that of a function of the group already");
        }
    }
    if (const auto items = list("exclude", "a list of functions", "functions", 0, max_excludes)) {
        group.exclude = read_texts(
            *items, "a symbol", [](const std::string &text) { return symbol_problem(text, true); });
    }
    const bool all_entry_only = std::none_of(
        group.functions.begin(), group.functions.end(),
        [](const auto &function) { return !function.overrides.entry_only.value_or(true); });
    if (group.options.entry_only && all_entry_only) {
        reject_without_ends(section, given);
    }
    const bool has_libraries = section.find("libraries") != nullptr;
    const bool has_functions =
        section.find("functions") != nullptr || section.find("usdt") != nullptr;
    section.finish();
    if (!is_shipped && group.enabled && !(has_libraries && has_functions)) {
        std::vector<std::string> shipped;
        for (const auto &[other, unused] : shipped_function_groups()) {
            shipped.push_back(other);
        }
        section.reject(std::string("has no ") +
                       (has_libraries   ? "functions"
                        : has_functions ? "libraries"
                                        : "libraries and no functions") +
                       ", and no group of this name is there by default" +
                       config::did_you_mean(name, shipped));
    }
}

}  // namespace

void read_function_groups(const config::Value &mapping, FunctionGroups &groups) {
    const FunctionGroups shipped = groups;
    const config::Section section(mapping);
    for (const auto &[name, key_at, value] : section.entries()) {
        if (!is_group_name(name)) {
            mapping.problems().add(key_at, mapping.path(),
                                   in_quotes(name) +
                                       " is not a name for a group: write 1 to 32 of a-z, 0-9 and "
                                       "_, a letter first");
            continue;
        }
        read_group(name, value, shipped.contains(name), groups[name]);
        if (groups.size() > max_function_groups) {
            mapping.reject("there can be " + std::to_string(max_function_groups) +
                           " groups at most, with those that are there by default");
            return;
        }
    }
}

}  // namespace gpusnoop::probes
