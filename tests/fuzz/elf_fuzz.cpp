// libFuzzer target: any bytes as a file for ElfFile. A crash, a sanitizer report, or an answer that
// points outside the file is a finding; so is an input that reaches the time limit.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include "exporter/base/fd.h"
#include "exporter/probes/cuda/launches/cuda_kernel_name.h"
#include "exporter/probes/functions/select/exit_strategy.h"
#include "exporter/symbols/demangle/function_name.h"
#include "exporter/symbols/elf/elf_file.h"

using namespace gpusnoop;
using namespace gpusnoop::symbols;

namespace {

template <typename T>
bool answered(const Result<T> &result) {
    if (!result && (result.error().code == ETIMEDOUT || result.error().message.empty())) {
        std::abort();
    }
    return result.has_value();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    const Fd fd(::memfd_create("elf-fuzz", MFD_CLOEXEC));
    if (!fd || ::pwrite(fd.get(), data, size, 0) != static_cast<ssize_t>(size)) {
        return 0;
    }
    auto file = ElfFile::open(fd.get());
    if (!answered(file)) {
        return 0;
    }
    constexpr std::array<std::string_view, 4> names{"one", "three", "main", "cudaMalloc"};
    if (const auto found = file->find_functions(names); answered(found)) {
        for (const FoundFunction &function : *found) {
            if (function.file_offset >= size || function.name >= names.size()) {
                std::abort();
            }
        }
    }
    const std::array<UsdtName, 2> probes_of{{{"fuzz", "begin"}, {"python", "gc__start"}}};
    if (const auto found = file->find_usdt_probes(probes_of); answered(found)) {
        for (const UsdtProbe &probe : *found) {
            for (const UsdtPlace &place : probe.places) {
                if (place.file_offset >= size || place.semaphore >= size) {
                    std::abort();
                }
            }
        }
    }
    constexpr std::array<std::uint64_t, 4> offsets{0x100, 0x1000, 0x4100, 0x5000};
    if (auto inside = file->debug_data(); answered(inside)) {
        file->use_debug_file(*std::move(inside));
        (void)answered(file->functions_at(offsets));
        (void)answered(file->list_functions([](auto) { return true; }));
    }
    // As its own debug file, too.
    (void)file->debug_link();
    if (auto debug = file->open_debug_file(Fd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0)))) {
        file->use_debug_file(*std::move(debug));
    }
    if (const auto found = file->functions_at(offsets); answered(found)) {
        for (const FoundSymbol &function : *found) {
            if (kernel_name(function.name).size() > max_kernel_name_bytes ||
                function_name(function.name).size() > max_function_name_bytes) {
                std::abort();
            }
        }
    }
    if (const auto found = file->find_by_suffix("e"); answered(found)) {
        for (const FoundSymbol &symbol : *found) {
            (void)kernel_of_launch_handle(symbol.name);
        }
    }
    // The first functions of the list, as the functions probe would take them: their code is
    // decoded.
    if (auto found = file->list_functions([](auto) { return true; }); answered(found)) {
        constexpr std::size_t decoded = 16;
        found->resize(std::min(found->size(), decoded));
        std::vector<probes::ExitQuestion> questions;
        for (const ListedFunction &function : *found) {
            questions.push_back({function});
        }
        for (const auto &ending : probes::find_exit_strategies(*file, fd.get(), questions)) {
            for (const FunctionExit &exit : ending.exits) {
                if (exit.address >= size) {
                    std::abort();
                }
            }
        }
    }
    (void)probes::is_go(*file);
    (void)file->build_id();
    (void)file->lowest_executable_vaddr();
    return 0;
}
