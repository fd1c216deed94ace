#include <string_view>
#include <utility>
#include <vector>

#include "bench/call_cost/drained.h"
#include "bench/call_cost/programs.h"
#include "exporter/probes/functions/attach/programs.h"
#include "exporter/symbols/elf/elf_file.h"
#include "exporter/symbols/exits/entry_probe.h"

namespace gpusnoop::bench {

namespace {

// As a group of the configuration would select them: C functions, slow from 10 ms on.
Result<std::vector<probes::SelectedFunction>> select(const Library &library) {
    const auto elf = symbols::ElfFile::open(library.found().file.get());
    if (!elf) {
        return tl::unexpected(elf.error());
    }
    const std::vector<std::string_view> names(library.traced().begin(), library.traced().end());
    const auto places = elf->find_functions(names);
    if (!places) {
        return tl::unexpected(places.error());
    }
    auto options = std::make_shared<probes::FunctionOptions>();
    options->slow_threshold = std::chrono::milliseconds(10);
    options->errors = probes::ErrorKind::nonzero;
    const auto entries = symbols::find_entry_probes(*elf, library.found().file.get(), *places);
    std::vector<probes::SelectedFunction> functions;
    for (std::size_t i = 0; i < places->size(); ++i) {
        const std::string name(names[(*places)[i].name]);
        functions.push_back({.group = "bench",
                             .name = name,
                             .symbol = name,
                             .options = options,
                             .entry = (*places)[i].file_offset,
                             .entry_probe = entries[i],
                             .ending = probes::ExitStrategy::return_probe});
    }
    return functions;
}

// The numbers of the functions are discarded with the programs.
struct Programs {
    std::unique_ptr<probes::FunctionPrograms> loaded;
    probes::FunctionIds table{};

    [[nodiscard]] int account_map() const { return loaded->account_map(); }
};

}  // namespace

TracingResult trace_with_functions(ebpf::AttachMode mode, const Library &library) {
    const auto functions = select(library);
    if (!functions) {
        return tl::unexpected(functions.error());
    }
    probes::FunctionsConfig config;
    config.attach = attach_as(mode);
    config.max_calls_per_second = no_throttling;
    auto programs = probes::FunctionPrograms::load(config, {.slow_calls = true}, {});
    if (!programs) {
        return tl::unexpected(programs.error());
    }
    const int lifecycle = (*programs)->lifecycle_ring();
    const int calls = (*programs)->calls_ring();
    const int slow = (*programs)->slow_ring();
    auto owner = std::make_unique<Programs>();
    owner->loaded = std::move(*programs);
    auto tracing = Drained<Programs>::start(std::move(owner), {lifecycle, calls, slow});
    if (!tracing) {
        return tl::unexpected(tracing.error());
    }
    Programs &running = (*tracing)->programs();
    auto attached = running.loaded->attach(library.found(), *functions, running.table);
    if (!attached) {
        return tl::unexpected(attached.error());
    }
    (*tracing)->keep(std::move(attached->probes));
    return std::move(*tracing);
}

}  // namespace gpusnoop::bench
