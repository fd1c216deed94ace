#include "exporter/probes/functions/select/exit_strategy.h"

#include <algorithm>
#include <array>

#include "exporter/base/text/text.h"

namespace gpusnoop::probes {
namespace {

// Prefixes of names: C++ and older Rust; Rust; functions that throw the exceptions of C++, Rust,
// Objective C, D and Ada; functions that unwind the stack (and so meet their own return address);
// the targets of PLTs in the dynamic linker; and functions of OCaml, V8 and Julia, whose runtimes
// search the stack for return addresses.
constexpr auto prefixes = std::to_array<std::string_view>(
    {"_Z", "_R", "__cxa_", "rust_panic", "rust_begin_unwind", "__rust_start_panic",
     "objc_exception_", "_d_throw", "__gnat_", "_Unwind_", "_dl_runtime_", "caml", "Builtins_",
     "julia_", "jlsys_", "jfptr_"});

// C functions that a return probe would break.
constexpr auto name_table = std::to_array<std::string_view>(
    {// Find the calling library by the return address: RTLD_NEXT, and the paths to search.
     "dlopen", "dlmopen", "dlsym", "dlvsym",
     // Return twice, or keep the return address for another function.
     "setjmp", "_setjmp", "__setjmp", "sigsetjmp", "__sigsetjmp", "getcontext", "__getcontext",
     "swapcontext", "__swapcontext", "vfork", "__vfork", "jump_fcontext", "ontop_fcontext",
     "__morestack",
     // Unwind their own stack.
     "pthread_exit", "thrd_exit",
     // Are entered without a return address on the stack.
     "_start", "__restore", "__restore_rt",
     // Have their own calling convention, with the return address of another function.
     "mcount", "_mcount", "__fentry__"});

bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_c_identifier(std::string_view text) {
    return !text.empty() && is_letter(text.front()) &&
           std::all_of(text.begin(), text.end(),
                       [](char c) { return is_letter(c) || is_digit(c); });
}

// D has its own exceptions: _D3std5stdio...
bool is_d_symbol(std::string_view symbol) {
    return symbol.starts_with("_D") && symbol.size() > 2 && is_digit(symbol[2]);
}

Ending ending_of(const Result<symbols::FunctionExits> &found, std::uint64_t entry,
                 ebpf::Endings endings) {
    Ending ending;
    if (!found) {
        ending.problem = found.error().message;
    } else if (found->exits.empty()) {
        ending.problem = "the function has no instruction that returns";
    } else if (endings != ebpf::Endings::returns &&
               found->has(symbols::ExitKind::conditional_tail_call)) {
        ending.problem = "the function has a conditional jump that may leave it";
    } else if (std::any_of(found->exits.begin(), found->exits.end(),
                           [&](const auto &exit) { return exit.address == entry; })) {
        // The order of two probes at one address is unknown.
        ending.problem = "the first instruction of the function may leave it";
    } else {
        ending.kind = ExitStrategy::exits;
        ending.jumps_to_entry = found->jumps_to_entry;
        ending.exits = found->exits;
        std::erase_if(ending.exits, [](const symbols::FunctionExit &exit) {
            return exit.kind == symbols::ExitKind::conditional_tail_call;
        });
        if (ending.exits.empty()) {
            ending = {.problem = "the function has no instruction that returns"};
        }
    }
    return ending;
}

bool is_jump(const symbols::FunctionExit &exit) {
    return exit.kind != symbols::ExitKind::return_;
}

// A function of C++ or Rust whose only calls are jumps to other functions, at its end: only an
// exception of one of these can pass through it, and C functions throw no exceptions.
bool may_be_thin(std::string_view name, const Result<symbols::FunctionExits> &found) {
    return (name.starts_with("_Z") || name.starts_with("_R")) && found && !found->has_calls &&
           !found->jumps_to_entry && std::ranges::any_of(found->exits, is_jump) &&
           std::ranges::all_of(found->exits, [](const symbols::FunctionExit &exit) {
               return !is_jump(exit) || exit.target != 0;
           });
}

// Uses a return probe for functions that end in jumps, where that is harmless: its result is the
// result of the other function, and its time is the whole call's.
void follow_jumps(const symbols::ElfFile &file, std::span<const ExitQuestion> functions,
                  std::span<const symbols::FoundFunction> swept,
                  std::span<const Result<symbols::FunctionExits>> found,
                  std::vector<Ending> &endings) {
    std::vector<std::size_t> thin;
    std::vector<std::uint64_t> targets;
    for (std::size_t i = 0; i < found.size(); ++i) {
        const ExitQuestion &question = functions[swept[i].name];
        if (question.endings == ebpf::Endings::automatic &&
            may_be_thin(question.function.name, found[i])) {
            thin.push_back(i);
            for (const symbols::FunctionExit &exit : found[i]->exits) {
                if (is_jump(exit)) {
                    targets.push_back(exit.target);
                }
            }
        }
    }
    const auto symbols =
        targets.empty() ? Result<std::vector<symbols::FoundSymbol>>() : file.functions_at(targets);
    if (!symbols || symbols->size() != targets.size()) {
        return;  // they end at their jumps
    }
    std::size_t next = 0;
    for (const std::size_t i : thin) {
        bool is_harmless = true;
        for (const symbols::FunctionExit &exit : found[i]->exits) {
            if (is_jump(exit)) {
                const symbols::FoundSymbol &target = (*symbols)[next++];
                const std::string_view name = target.name;
                is_harmless = is_harmless && target.vaddr == file.to_vaddr(exit.target) &&
                              allows_return_probe(name.substr(0, name.find('@')));
            }
        }
        if (is_harmless) {
            endings[swept[i].name] = {.kind = ExitStrategy::return_probe};
        }
    }
}

}  // namespace

bool allows_return_probe(std::string_view symbol) {
    return is_c_identifier(symbol) && !is_d_symbol(symbol) &&
           std::none_of(prefixes.begin(), prefixes.end(),
                        [&](std::string_view prefix) { return symbol.starts_with(prefix); }) &&
           std::find(name_table.begin(), name_table.end(), symbol) == name_table.end();
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

std::vector<Ending> find_exit_strategies(const symbols::ElfFile &file, int fd,
                                         std::span<const ExitQuestion> functions) {
    std::vector<Ending> endings(functions.size());
    const bool all_may_unwind =
        std::ranges::any_of(functions,
                            [](const ExitQuestion &question) {
                                return question.endings == ebpf::Endings::automatic;
                            }) &&
        has_unwinding_functions(file);
    std::vector<symbols::FoundFunction> swept;
    for (std::size_t i = 0; i < functions.size(); ++i) {
        const symbols::ListedFunction &function = functions[i].function;
        if (functions[i].endings == ebpf::Endings::automatic && !all_may_unwind &&
            allows_return_probe(function.name)) {
            endings[i].kind = ExitStrategy::return_probe;
        } else {
            swept.push_back({i, function.file_offset, function.vaddr, function.size, true});
        }
    }
    const auto found = symbols::find_exits(file, fd, swept);
    for (std::size_t i = 0; i < found.size(); ++i) {
        endings[swept[i].name] =
            ending_of(found[i], swept[i].file_offset, functions[swept[i].name].endings);
    }
    if (!all_may_unwind) {
        follow_jumps(file, functions, swept, found, endings);
    }
    return endings;
}

// The personality routine and the raising functions of each language: a file with code of the
// language defines or imports one of them. A stripped file of Rust has its compiler's name.
bool has_unwinding_functions(const symbols::ElfFile &file) {
    constexpr std::array<std::string_view, 1> sections{".rustc"};
    constexpr auto names = std::to_array<std::string_view>(
        {"rust_eh_personality", "_d_eh_personality", "_d_throwdwarf", "_d_throw_exception",
         "__gdc_personality_v0", "__gnat_personality_v0", "__gnat_rcheck_CE_Explicit_Raise",
         "__gnat_raise_exception", "__gnat_reraise_zcx", "__gnu_objc_personality_v0",
         "__objc_personality_v0", "objc_exception_throw", "__gccgo_personality_v0",
         "__gm2_personality_v0", "caml_raise", "caml_raise_exception", "caml_main"});
    constexpr std::array<std::string_view, 2> compilers{"rustc version", "ldc version"};
    return file.has_section(sections) ||
           std::ranges::any_of(compilers,
                               [&](std::string_view compiler) {
                                   return file.section_contains(".comment", compiler);
                               }) ||
           file.has_symbol(names);
}

bool is_go(const symbols::ElfFile &file) {
    constexpr std::array<std::string_view, 2> sections{".go.buildinfo", ".note.go.buildid"};
    return file.has_section(sections);
}

}  // namespace gpusnoop::probes
