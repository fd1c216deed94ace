// exits_of [--all] FILE FUNCTION...: where the exporter would put probes to see the ends of these
// functions. Each line has a function, its address, and the address and kind of an exit, as
// exits_test.py reads it. A function that does not decode is the end; with --all, it is a line
// "refused FUNCTION ADDRESS REASON", as disassembly_test.py reads it.
#include <fcntl.h>

#include <array>
#include <cstdio>
#include <string_view>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/symbols/elf/elf_file.h"
#include "exporter/symbols/exits/function_exits.h"

using namespace gpusnoop;

int main(int argc, char **argv) {
    constexpr std::array<const char *, 4> kinds = {"return", "tail_call", "maybe_tail_call",
                                                   "conditional_tail_call"};
    const bool all_of_them = argc > 1 && std::string_view(argv[1]) == "--all";
    argc -= all_of_them;
    argv += all_of_them;
    const Fd fd(argc < 3 ? -1 : ::open(argv[1], O_RDONLY | O_CLOEXEC));
    const auto file = symbols::ElfFile::open(fd.get());
    if (!file) {
        std::fprintf(stderr, "exits_of: %s\n", file.error().message.c_str());
        return 1;
    }
    const std::vector<std::string_view> names(argv + 2, argv + argc);
    const auto functions = file->find_functions(names);
    if (!functions) {
        std::fprintf(stderr, "exits_of: %s\n", functions.error().message.c_str());
        return 1;
    }
    const auto all = symbols::find_exits(*file, fd.get(), *functions);
    for (std::size_t i = 0; i < all.size(); i++) {
        const symbols::FoundFunction &function = (*functions)[i];
        if (!all[i] && all_of_them) {
            std::printf("refused %s %#lx %s\n", names[function.name].data(),
                        static_cast<unsigned long>(function.vaddr), all[i].error().message.c_str());
            continue;
        }
        if (!all[i]) {
            std::fprintf(stderr, "exits_of: %s: %s\n", names[function.name].data(),
                         all[i].error().message.c_str());
            return 1;
        }
        for (const symbols::FunctionExit &exit : all[i]->exits) {
            std::printf(
                "%s %#lx %#lx %s\n", names[function.name].data(),
                static_cast<unsigned long>(function.vaddr),
                static_cast<unsigned long>(exit.address - function.file_offset + function.vaddr),
                kinds.at(static_cast<std::size_t>(exit.kind)));
        }
    }
}
