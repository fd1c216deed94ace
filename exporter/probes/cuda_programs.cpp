#include "exporter/probes/cuda_programs.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <array>
#include <set>
#include <string_view>

#include "bpf/cuda.h"
#include "cuda.skel.h"
#include "exporter/kernel/link.h"
#include "exporter/kernel/skeleton.h"
#include "exporter/symbols/elf_file.h"

namespace gpusnoop::probes {

using kernel::AttachMode;

struct CudaPrograms::Loaded {
    kernel::Skeleton<cuda_bpf> skeleton;
    std::vector<kernel::Link> tracepoints;  // detached before the skeleton goes
};

namespace {

constexpr std::array<std::string_view, CUDA_FUNCTION_COUNT> symbols_of_functions = {
#define FUNCTION(symbol, name, operation) #symbol,
    CUDA_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

constexpr std::array<std::uint64_t, CUDA_FUNCTION_COUNT> cookies_of_functions = {
#define FUNCTION(symbol, name, operation) CUDA_COOKIE(CUDA_FUNCTION_##symbol, operation),
    CUDA_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

std::vector<AttachMode> modes_to_try(config::Config::Cuda::Attach wanted,
                                     const kernel::Features &features) {
    using Attach = config::Config::Cuda::Attach;
    switch (wanted) {
        case Attach::session:
            return {AttachMode::session};
        case Attach::multi:
            return {AttachMode::multi};
        case Attach::perf:
            return {AttachMode::perf};
        case Attach::automatic:
            break;
    }
    return features.attach_modes();
}

}  // namespace

CudaPrograms::CudaPrograms(std::unique_ptr<Loaded> loaded, AttachMode mode)
    : loaded_(std::move(loaded)), mode_(mode) {}
CudaPrograms::~CudaPrograms() = default;

int CudaPrograms::allocations_ring() const {
    return bpf_map__fd(loaded_->skeleton->maps.allocations);
}
int CudaPrograms::calls_ring() const {
    return bpf_map__fd(loaded_->skeleton->maps.calls);
}
int CudaPrograms::account_map() const {
    return bpf_map__fd(loaded_->skeleton->maps.account);
}

Result<std::unique_ptr<CudaPrograms>> CudaPrograms::load(const config::Config::Cuda &config,
                                                         const kernel::Features &features) {
    Error last{"no way to attach to functions works on this machine"};
    for (const AttachMode mode : modes_to_try(config.attach, features)) {
        auto programs = load_as(mode, config);
        if (programs) {
            return programs;
        }
        last = programs.error();
    }
    return tl::unexpected(last);
}

Result<std::unique_ptr<CudaPrograms>> CudaPrograms::load_as(AttachMode mode,
                                                            const config::Config::Cuda &config) {
    auto loaded = std::make_unique<Loaded>();
    loaded->skeleton.reset(cuda_bpf::open());
    if (!loaded->skeleton) {
        return fail_errno("open the BPF programs");
    }
    auto &programs = loaded->skeleton->progs;
    bpf_program__set_autoload(programs.session, mode == AttachMode::session);
    bpf_program__set_autoload(programs.multi_enter, mode == AttachMode::multi);
    bpf_program__set_autoload(programs.multi_leave, mode == AttachMode::multi);
    bpf_program__set_autoload(programs.perf_enter, mode == AttachMode::perf);
    bpf_program__set_autoload(programs.perf_leave, mode == AttachMode::perf);
    kernel::expect_session(programs.session);
    bpf_map__set_max_entries(loaded->skeleton->maps.allocations, config.allocation_ring_bytes);
    bpf_map__set_max_entries(loaded->skeleton->maps.calls, config.call_ring_bytes);
    loaded->skeleton->rodata->max_calls_per_second = config.max_calls_per_second;
    if (const int error = cuda_bpf::load(loaded->skeleton.get()); error != 0) {
        return fail_errno("load the BPF programs (" + std::string(to_string(mode)) + ")", -error);
    }
    for (const bpf_program *program : {programs.thread_exit, programs.process_exec}) {
        kernel::Link link(bpf_program__attach(program));
        if (!link) {
            return fail_errno(std::string("attach to the tracepoint of ") +
                              bpf_program__name(program));
        }
        loaded->tracepoints.push_back(std::move(link));
    }
    return std::unique_ptr<CudaPrograms>(new CudaPrograms(std::move(loaded), mode));
}

kernel::CallPrograms CudaPrograms::call_programs() const {
    const auto &programs = loaded_->skeleton->progs;
    switch (mode_) {
        case AttachMode::session:
            return {mode_, programs.session, nullptr};
        case AttachMode::multi:
            return {mode_, programs.multi_enter, programs.multi_leave};
        case AttachMode::perf:
            break;
    }
    return {mode_, programs.perf_enter, programs.perf_leave};
}

tl::expected<kernel::UprobeSet, CudaPrograms::Failure> CudaPrograms::attach(
    const discovery::Library &library) const {
    const auto elf = symbols::ElfFile::open(library.file.get());
    if (!elf) {
        return tl::unexpected(Failure{"elf", elf.error()});
    }
    const auto found = elf->find_functions(symbols_of_functions);
    if (!found) {
        return tl::unexpected(Failure{"elf", found.error()});
    }
    std::vector<kernel::AttachPoint> points;
    std::set<std::uint64_t> taken;
    for (const symbols::FoundFunction &function : *found) {
        if (function.probeable && taken.insert(function.file_offset).second) {
            points.push_back({function.file_offset, cookies_of_functions.at(function.name)});
        }
    }
    if (points.empty()) {
        return tl::unexpected(
            Failure{"no_symbols", {"it has none of the functions that are traced"}});
    }
    auto set = kernel::UprobeSet::attach(call_programs(), library.file.get(), points);
    if (!set) {
        return tl::unexpected(Failure{"attach", set.error()});
    }
    return std::move(*set);
}

Runs CudaPrograms::runs() const {
    Runs sum;
    bpf_program *program = nullptr;
    while ((program = bpf_object__next_program(loaded_->skeleton->obj, program)) != nullptr) {
        bpf_prog_info info{};
        std::uint32_t size = sizeof(info);
        if (bpf_program__fd(program) >= 0 &&
            bpf_prog_get_info_by_fd(bpf_program__fd(program), &info, &size) == 0) {
            sum.count += info.run_cnt;
            sum.nanoseconds += info.run_time_ns;
        }
    }
    return sum;
}

}  // namespace gpusnoop::probes
