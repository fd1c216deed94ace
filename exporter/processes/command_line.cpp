#include "exporter/processes/command_line.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace gpusnoop::processes {

namespace {

using Words = std::span<const std::string_view>;
using Arguments = std::span<const std::string>;

bool contains(Words words, std::string_view word) {
    return std::ranges::find(words, word) != words.end();
}

// How an interpreter reads its options. Letters are those of short options: "-uX dev" has two.
struct Interpreter {
    Words names;                   // a version may follow: python3.12
    std::string_view code;         // code, or the standard input, instead of a script
    std::string_view value;        // a value in the same argument or the next one
    std::string_view attached;     // a value in the same argument
    char module = '\0';            // the name of a module
    Words long_code = {};          // the same for long options
    Words long_value = {};         // "--option value"; "--option=value" needs no entry
    std::string_view script = {};  // "--script=" names the script
};

constexpr std::array<std::string_view, 3> pythons{"python", "pypy", "pythonw"};
constexpr std::array<std::string_view, 1> python_values{"--check-hash-based-pycs"};
constexpr std::array<std::string_view, 7> shells{"bash", "sh", "dash", "zsh", "ksh", "mksh", "ash"};
constexpr std::array<std::string_view, 1> shell_codes{"--command"};
constexpr std::array<std::string_view, 3> shell_values{"--rcfile", "--init-file", "--emulate"};
constexpr std::array<std::string_view, 1> fishes{"fish"};
// The first has code that runs before the script.
constexpr std::array<std::string_view, 5> fish_values{"--init-command", "--debug", "--debug-output",
                                                      "--features", "--profile"};
constexpr std::array<std::string_view, 2> nodes{"node", "nodejs"};
constexpr std::array<std::string_view, 2> evals{"--eval", "--print"};
constexpr std::array<std::string_view, 8> node_values{
    "--require",    "--import", "--loader",     "--experimental-loader",
    "--conditions", "--title",  "--input-type", "--env-file"};
constexpr std::array<std::string_view, 1> perls{"perl"};
constexpr std::array<std::string_view, 1> rubies{"ruby"};
constexpr std::array<std::string_view, 2> rs{"Rscript", "R"};
constexpr std::array<std::string_view, 1> julias{"julia"};
constexpr std::array<std::string_view, 8> julia_values{
    "--sysimage", "--threads",      "--procs", "--cpu-target",
    "--load",     "--machine-file", "--home",  "--gcthreads"};
constexpr std::array<std::string_view, 1> javas{"java"};
constexpr std::array<std::string_view, 14> java_values{"-cp",
                                                       "-classpath",
                                                       "--class-path",
                                                       "-p",
                                                       "--module-path",
                                                       "--upgrade-module-path",
                                                       "--add-modules",
                                                       "--limit-modules",
                                                       "--source",
                                                       "--add-opens",
                                                       "--add-exports",
                                                       "--add-reads",
                                                       "--patch-module",
                                                       "--enable-native-access"};
constexpr std::array<std::string_view, 3> java_programs{"-jar", "-m", "--module"};

constexpr std::array<Interpreter, 8> interpreters{{
    {.names = pythons,
     .code = "c",
     .value = "WX",
     .attached = "",
     .module = 'm',
     .long_value = python_values},
    {.names = shells,
     .code = "cs",
     .value = "oO",
     .attached = "",
     .long_code = shell_codes,
     .long_value = shell_values},
    {.names = fishes,
     .code = "c",
     .value = "CdDfop",
     .attached = "",
     .long_code = shell_codes,
     .long_value = fish_values},
    {.names = nodes,
     .code = "ep",
     .value = "rC",
     .attached = "",
     .long_code = evals,
     .long_value = node_values},
    {.names = perls, .code = "eE", .value = "I", .attached = "MmiFCDVxd"},
    {.names = rubies, .code = "e", .value = "IrCE", .attached = "FKxiWT"},
    {.names = rs, .code = "e", .value = "", .attached = "", .script = "--file="},
    {.names = julias,
     .code = "eE",
     .value = "pthJCHL",
     .attached = "Og",
     .module = 'm',
     .long_code = evals,
     .long_value = julia_values},
}};

std::string_view file_name(std::string_view path) {
    while (path.size() > 1 && path.ends_with('/')) {
        path.remove_suffix(1);
    }
    return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

// A descriptor's number says nothing.
std::string script_name(std::string_view path) {
    const bool is_descriptor = path.starts_with("/dev/") || path.starts_with("/proc/");
    return std::string(is_descriptor ? std::string_view() : file_name(path));
}

// "python3.12", "python3.13t" and "pypy3" are such names, "pythonista" is not.
bool is_name(std::string_view program, std::string_view name) {
    if (!program.starts_with(name)) {
        return false;
    }
    const std::string_view version = program.substr(name.size());
    const std::size_t end = version.find_first_not_of("0123456789.");
    return end == std::string_view::npos ||
           (end > 0 && end + 1 == version.size() && (version[end] == 't' || version[end] == 'd'));
}

bool is_any(std::string_view program, Words names) {
    return std::ranges::any_of(names,
                               [&](std::string_view name) { return is_name(program, name); });
}

// What an option does with the arguments: which of them is looked at next, or what the script is.
struct Step {
    std::size_t next = 0;
    std::optional<std::string> script = {};
};

std::string argument_at(Arguments arguments, std::size_t i) {
    return i < arguments.size() ? arguments[i] : std::string();
}

Step read_letters(const Interpreter &by, Arguments arguments, std::size_t i) {
    const std::string_view option = arguments[i];
    for (std::size_t at = 1; at < option.size(); at++) {
        const char letter = option[at];
        const bool is_last = at + 1 == option.size();
        if (by.code.find(letter) != std::string_view::npos) {
            return {.script = ""};
        }
        if (letter == by.module) {
            return {.script = is_last ? argument_at(arguments, i + 1)
                                      : std::string(option.substr(at + 1))};
        }
        if (by.value.find(letter) != std::string_view::npos) {
            return {.next = i + (is_last ? 2 : 1)};
        }
        if (by.attached.find(letter) != std::string_view::npos) {
            break;
        }
    }
    return {.next = i + 1};
}

Step read_argument(const Interpreter &by, Arguments arguments, std::size_t i) {
    const std::string_view argument = arguments[i];
    if (argument == "-" || argument.empty()) {
        return {.script = ""};  // the standard input, or nothing
    }
    if (argument == "--") {
        return {.script = script_name(argument_at(arguments, i + 1))};
    }
    if (!by.script.empty() && argument.starts_with(by.script)) {
        return {.script = script_name(argument.substr(by.script.size()))};
    }
    if (argument.starts_with("--")) {
        if (contains(by.long_code, argument.substr(0, argument.find('=')))) {
            return {.script = ""};
        }
        return {.next = i + (contains(by.long_value, argument) ? 2 : 1)};
    }
    if (argument.starts_with('-') || (argument.starts_with('+') && is_any("sh", by.names))) {
        return read_letters(by, arguments, i);
    }
    return {.script = script_name(argument)};
}

std::string script_by(const Interpreter &by, Arguments arguments) {
    for (std::size_t i = 1; i < arguments.size();) {
        Step step = read_argument(by, arguments, i);
        if (step.script) {
            return std::move(*step.script);
        }
        i = step.next;
    }
    return {};
}

// Java's options have long names behind one dash.
std::string java_program(Arguments arguments) {
    for (std::size_t i = 1; i < arguments.size(); i++) {
        const std::string_view argument = arguments[i];
        if (contains(java_programs, argument)) {
            const std::string program = argument_at(arguments, i + 1);
            return argument == "-jar" ? script_name(program) : program;
        }
        if (argument.starts_with("--module=")) {
            return std::string(argument.substr(argument.find('=') + 1));
        }
        if (!argument.starts_with('-') && !argument.starts_with('@')) {
            return script_name(argument);  // a class, or a file of source
        }
        i += contains(java_values, argument) ? 1 : 0;
    }
    return {};
}

std::optional<std::string> script_run_by(std::string_view program, Arguments arguments) {
    if (is_any(program, javas)) {
        return java_program(arguments);
    }
    const auto by = std::ranges::find_if(
        interpreters, [&](const Interpreter &one) { return is_any(program, one.names); });
    return by == interpreters.end() ? std::nullopt : std::optional(script_by(*by, arguments));
}

// The bytes from the head's end on, as far as they are known. The first argument of them may lack
// its middle.
std::string_view behind_head(const ArgumentBytes &bytes) {
    const std::size_t known_twice =
        bytes.rest_at < bytes.head.size() ? bytes.head.size() - bytes.rest_at : 0;
    return bytes.rest.substr(std::min(known_twice, bytes.rest.size()));
}

// Without its first two bytes, an option with code in it looks like another one, or like a file.
bool is_cut_at_its_beginning(const ArgumentBytes &bytes) {
    const std::size_t known = bytes.head.size() - (bytes.head.rfind('\0') + 1);  // npos + 1 is 0
    return bytes.rest_at > bytes.head.size() && known < 2;
}

}  // namespace

std::vector<std::string> split_arguments(const ArgumentBytes &bytes) {
    std::string text(bytes.head);
    std::size_t end = bytes.head.size();
    if (!bytes.rest.empty() && !is_cut_at_its_beginning(bytes)) {
        text += behind_head(bytes);
        end = bytes.rest_at + bytes.rest.size();
    }
    std::vector<std::string> arguments;
    std::size_t from = 0;
    for (std::size_t nul = 0; (nul = text.find('\0', from)) != std::string::npos; from = nul + 1) {
        arguments.push_back(text.substr(from, nul - from));
    }
    // A program that has overwritten its arguments may have left no NUL.
    if (from < text.size() && end == bytes.total) {
        arguments.push_back(text.substr(from));
    }
    return arguments;
}

std::string script_of(std::span<const std::string> arguments, std::string_view comm) {
    if (arguments.empty()) {
        return {};
    }
    std::string_view program = file_name(arguments.front());
    if (program.starts_with('-')) {
        program.remove_prefix(1);  // a login shell
    }
    if (const auto script = script_run_by(program, arguments)) {
        return *script;
    }
    return script_run_by(comm, arguments).value_or("");
}

}  // namespace gpusnoop::processes
