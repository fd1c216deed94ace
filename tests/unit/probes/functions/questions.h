// What the tests of select_functions() ask of it.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/text/text.h"
#include "exporter/config/globs.h"
#include "exporter/probes/functions/select/selection.h"
#include "tests/unit/symbols/elf/elf_image.h"

namespace gpusnoop::test {

using Lines = std::vector<std::string>;

inline probes::FunctionGroup group(std::initializer_list<const char *> symbols,
                                   const char *library = "libx.so") {
    probes::FunctionGroup made;
    made.libraries = {library};
    for (const std::string symbol : symbols) {
        made.functions.push_back({.symbol = symbol, .is_glob = config::is_glob(symbol)});
    }
    return made;
}

inline Result<probes::Selection> try_select(const ElfImage &image,
                                            const probes::FunctionGroups &groups,
                                            std::size_t max_functions = 10'000) {
    const Fd fd = file_of(image.bytes());
    const auto file = symbols::ElfFile::open(fd.get());
    if (!file) {
        return tl::unexpected(file.error());
    }
    return probes::select_functions(*file, fd.get(), "libx.so", "/lib/libx.so", groups,
                                    max_functions);
}

inline probes::Selection select(const ElfImage &image, const probes::FunctionGroups &groups,
                                std::size_t max_functions = 10'000) {
    auto selection = try_select(image, groups, max_functions);
    INFO((selection ? "" : selection.error().message));
    REQUIRE(selection);
    return *std::move(selection);
}

// "group name offset ending exits...", offsets from the start of the code.
inline Lines shown(const probes::Selection &selection) {
    using probes::ExitStrategy;
    const auto in_code = [](std::uint64_t offset) {
        return hexadecimal(offset - ElfImage::kCodeOffset);
    };
    Lines lines;
    for (const probes::SelectedFunction &function : selection.functions) {
        std::string line = function.group + " " + function.name + " " + in_code(function.entry);
        line += function.ending == ExitStrategy::return_probe ? " return"
                : function.ending == ExitStrategy::exits      ? " exits"
                                                              : " none";
        for (const symbols::FunctionExit &exit : function.exits) {
            line += " " + in_code(exit.address);
        }
        lines.push_back(line + (function.jumps_to_entry ? " loop" : ""));
    }
    return lines;
}

}  // namespace gpusnoop::test
