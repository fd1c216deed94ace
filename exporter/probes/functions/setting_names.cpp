#include "exporter/probes/functions/setting_names.h"

#include <algorithm>

#include "exporter/base/text/text.h"
#include "exporter/config/globs.h"
#include "exporter/config/problems.h"
#include "exporter/probes/functions/setting_groups.h"

namespace gpusnoop::probes {

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
