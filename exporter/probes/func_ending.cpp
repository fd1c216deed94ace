#include "exporter/probes/func_ending.h"

#include <algorithm>
#include <array>

#include "exporter/symbols/function_exits.h"

namespace gpusnoop::probes {
namespace {

// Begins of names: C++ and older Rust, Rust, what throws the exceptions of C++, Rust, Objective C,
// D and Ada, what unwinds the stack (and so meets its own return address), what PLTs jump to in the
// dynamic linker, and functions of OCaml, V8 and Julia, whose runtimes look for return addresses.
constexpr auto kPrefixes = std::to_array<std::string_view>(
    {"_Z", "_R", "__cxa_", "rust_panic", "rust_begin_unwind", "__rust_start_panic",
     "objc_exception_", "_d_throw", "__gnat_", "_Unwind_", "_dl_runtime_", "caml", "Builtins_",
     "julia_", "jlsys_", "jfptr_"});

// C functions that a return probe would break.
constexpr auto kNames = std::to_array<std::string_view>(
    {// Which library calls is told by the return address: RTLD_NEXT, and the paths to search.
     "dlopen", "dlmopen", "dlsym", "dlvsym",
     // Return twice, or keep the return address for another function.
     "setjmp", "_setjmp", "__setjmp", "sigsetjmp", "__sigsetjmp", "getcontext", "__getcontext",
     "swapcontext", "__swapcontext", "vfork", "__vfork", "jump_fcontext", "ontop_fcontext",
     "__morestack",
     // Unwind their own stack.
     "pthread_exit", "thrd_exit",
     // Are entered without a return address on the stack.
     "_start", "__restore", "__restore_rt",
     // Are called in a way of their own, with the return address of somebody else.
     "mcount", "_mcount", "__fentry__"});

bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool is_c_identifier(std::string_view text) {
    return !text.empty() && is_letter(text.front()) &&
           std::all_of(text.begin(), text.end(),
                       [](char c) { return is_letter(c) || is_digit(c); });
}

// D has exceptions of its own: _D3std5stdio...
bool is_d_symbol(std::string_view symbol) {
    return symbol.starts_with("_D") && symbol.size() > 2 && is_digit(symbol[2]);
}

Ending ending_of(const Result<symbols::FunctionExits> &found, std::uint64_t entry) {
    Ending ending;
    if (!found) {
        ending.problem = found.error().message;
    } else if (found->exits.empty()) {
        ending.problem = "the function has no instruction that returns";
    } else if (found->has(symbols::ExitKind::conditional_tail_call)) {
        ending.problem = "the function has a conditional jump that may leave it";
    } else if (std::any_of(found->exits.begin(), found->exits.end(),
                           [&](const auto &exit) { return exit.address == entry; })) {
        // Which of two probes at one place runs first is not known.
        ending.problem = "the first instruction of the function may leave it";
    } else {
        ending.kind = FuncEnding::exits;
        ending.jumps_to_entry = found->jumps_to_entry;
        ending.exits = found->exits;
    }
    return ending;
}

}  // namespace

bool allows_return_probe(std::string_view symbol) {
    return is_c_identifier(symbol) && !is_d_symbol(symbol) &&
           std::none_of(kPrefixes.begin(), kPrefixes.end(),
                        [&](std::string_view prefix) { return symbol.starts_with(prefix); }) &&
           std::find(kNames.begin(), kNames.end(), symbol) == kNames.end();
}

bool is_part(std::string_view symbol) {
    const auto is_number = [](std::string_view rest) {  // .N
        return rest.size() > 1 && rest.front() == '.' &&
               std::all_of(rest.begin() + 1, rest.end(), is_digit);
    };
    constexpr std::string_view cold = ".cold";
    constexpr std::string_view part = ".part";
    if (const std::size_t at = symbol.rfind(cold); at != std::string_view::npos) {
        const std::string_view rest = symbol.substr(at + cold.size());
        return rest.empty() || is_number(rest);
    }
    const std::size_t at = symbol.rfind(part);
    return at != std::string_view::npos && is_number(symbol.substr(at + part.size()));
}

std::vector<Ending> find_endings(const symbols::ElfFile &file, int fd,
                                 std::span<const EndingQuestion> functions) {
    std::vector<Ending> endings(functions.size());
    std::vector<symbols::FoundFunction> swept;
    for (std::size_t i = 0; i < functions.size(); ++i) {
        const symbols::ListedFunction &function = functions[i].function;
        if (functions[i].endings == config::Endings::automatic &&
            allows_return_probe(function.name)) {
            endings[i].kind = FuncEnding::return_probe;
        } else {
            swept.push_back({i, function.file_offset, function.vaddr, function.size, true});
        }
    }
    const auto found = symbols::find_exits(file, fd, swept);
    for (std::size_t i = 0; i < found.size(); ++i) {
        endings[swept[i].name] = ending_of(found[i], swept[i].file_offset);
    }
    return endings;
}

bool is_go(const symbols::ElfFile &file) {
    constexpr std::array<std::string_view, 2> sections{".go.buildinfo", ".note.go.buildid"};
    return file.has_section(sections);
}

}  // namespace gpusnoop::probes
