// What tracing adds to a call: functions that do nothing, called untraced, with empty programs at
// both ends, and with ours, in turns, so that what the machine does meanwhile meets all of them.
// Prints a table; it has no opinion.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "empty.skel.h"
#include "exporter/kernel/ring.h"
#include "exporter/kernel/skeleton.h"
#include "exporter/probes/cuda_functions.h"
#include "exporter/probes/cuda_programs.h"
#include "exporter/symbols/elf_file.h"

using namespace gpusnoop;
using Clock = std::chrono::steady_clock;

namespace {

struct Shape {
    unsigned x, y, z;
};

// The functions of bench/library.c.
struct Calls {
    int (*allocate)(void **, std::size_t);
    int (*free)(void *);
    int (*copy)(void *, const void *, std::size_t, int);
    int (*launch)(const void *, Shape, Shape, void **, std::size_t, void *);
    int (*launch_driver)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         unsigned, void *, void **, void **);
};

[[noreturn]] void give_up(const std::string &why) {
    std::fprintf(stderr, "call_cost: %s\n", why.c_str());
    std::exit(1);
}

template <typename Function>
void look_up(void *library, const char *name, Function *&function) {
    function = reinterpret_cast<Function *>(::dlsym(library, name));
    if (function == nullptr) {
        give_up(std::string("no ") + name);
    }
}

struct Workload {
    std::string name;
    std::function<void()> call;
};

double nanoseconds_per_call(const Workload &workload, unsigned calls) {
    const auto began = Clock::now();
    for (unsigned i = 0; i < calls; i++) {
        workload.call();
    }
    return std::chrono::duration<double, std::nano>(Clock::now() - began).count() / calls;
}

// A way to trace, in force while it lives.
struct Tracing {
    std::shared_ptr<void> programs;
    kernel::UprobeSet probes;
};

Tracing trace_with_nothing(kernel::AttachMode mode, const discovery::Library &library,
                           const std::set<std::string> &without) {
    auto skeleton = std::make_shared<kernel::Skeleton<empty_bpf>>();
    skeleton->reset(empty_bpf::open());
    auto &programs = (*skeleton)->progs;
    bpf_program__set_autoload(programs.session, mode == kernel::AttachMode::session);
    kernel::expect_session(programs.session);
    if (empty_bpf::load(skeleton->get()) != 0) {
        give_up("cannot load the empty programs");
    }
    std::vector<std::string_view> names;
    for (const auto &function : probes::cuda_functions()) {
        names.push_back(function.symbol);
    }
    const auto elf = symbols::ElfFile::open(library.file.get());
    std::vector<kernel::AttachPoint> points;
    for (const auto &place : *elf->find_functions(names)) {
        if (!without.contains(std::string(names[place.name]))) {
            points.push_back({place.file_offset, 0});
        }
    }
    const kernel::CallPrograms pair = {mode,
                                       mode == kernel::AttachMode::session ? programs.session
                                       : mode == kernel::AttachMode::multi ? programs.multi_enter
                                                                           : programs.perf_enter,
                                       mode == kernel::AttachMode::session ? nullptr
                                       : mode == kernel::AttachMode::multi ? programs.multi_leave
                                                                           : programs.perf_leave};
    auto probes = kernel::UprobeSet::attach(pair, library.file.get(), points);
    if (!probes) {
        give_up(probes.error().message);
    }
    return {skeleton, std::move(*probes)};
}

// Our programs, and a thread that empties their rings as the exporter does.
struct Ours {
    std::unique_ptr<probes::CudaPrograms> programs;
    std::unique_ptr<kernel::Ring> allocations, calls;
    std::jthread drain;
};

Tracing trace_with_ours(kernel::AttachMode mode, const config::Config::Cuda &config,
                        const discovery::Library &library) {
    using Attach = config::Config::Cuda::Attach;
    auto ours = std::make_shared<Ours>();
    config::Config::Cuda own = config;
    own.attach = mode == kernel::AttachMode::session ? Attach::session
                 : mode == kernel::AttachMode::multi ? Attach::multi
                                                     : Attach::perf;
    auto programs = probes::CudaPrograms::load(own, kernel::Features{});
    if (!programs) {
        give_up(programs.error().message);
    }
    ours->programs = std::move(*programs);
    ours->allocations =
        std::move(*kernel::Ring::open(ours->programs->allocations_ring(), [](auto) {}));
    ours->calls = std::move(*kernel::Ring::open(ours->programs->calls_ring(), [](auto) {}));
    ours->drain = std::jthread([self = ours.get()](const std::stop_token &stop) {
        while (!stop.stop_requested()) {
            self->allocations->drain_to(self->allocations->produced());
            self->calls->drain_to(self->calls->produced());
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
    });
    auto probes = ours->programs->attach(library);
    if (!probes) {
        give_up(probes.error().error.message);
    }
    return {ours, std::move(*probes)};
}

double median(std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
}

double quantile(std::vector<double> values, double part) {
    std::ranges::sort(values);
    return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 4) {
        give_up("usage: call_cost LIBRARY ROUNDS CALLS");
    }
    const unsigned rounds = static_cast<unsigned>(std::stoul(argv[2]));
    const unsigned calls = static_cast<unsigned>(std::stoul(argv[3]));
    void *opened = ::dlopen(argv[1], RTLD_NOW);
    if (opened == nullptr) {
        give_up(::dlerror());
    }
    Calls c{};
    look_up(opened, "cudaMalloc", c.allocate);
    look_up(opened, "cudaFree", c.free);
    look_up(opened, "cudaMemcpy", c.copy);
    look_up(opened, "cudaLaunchKernel", c.launch);
    look_up(opened, "cuLaunchKernel", c.launch_driver);
    void *memory = nullptr;
    const std::vector<Workload> workloads = {
        {"cudaMemcpy", [&] { c.copy(&memory, &memory, 8, 1); }},
        {"cudaLaunchKernel, driver called inside",
         [&] { c.launch(&memory, {1, 1, 1}, {32, 1, 1}, nullptr, 0, nullptr); }},
        {"cuLaunchKernel",
         [&] { c.launch_driver(&memory, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr); }},
        {"cudaMalloc and cudaFree, driver called inside",
         [&] {
             c.allocate(&memory, 64);
             c.free(memory);
         }},
    };
    struct stat status{};
    Fd file(::open(argv[1], O_RDONLY | O_CLOEXEC));
    if (!file || ::fstat(file.get(), &status) != 0) {
        give_up("cannot open the library");
    }
    const discovery::Library library{{status.st_ino, 0, 0, 0}, std::move(file), "libcudart.so"};
    const std::set<std::string> driver_calls = {"cuLaunchKernel", "cuMemAlloc_v2", "cuMemFree_v2"};
    config::Config::Cuda callers_only;
    callers_only.call_stacks = false;
    const auto mode = kernel::AttachMode::session;
    const std::vector<std::pair<std::string, std::function<Tracing()>>> ways = {
        {"untraced", [] { return Tracing{}; }},
        {"empty programs, runtime only",
         [&] { return trace_with_nothing(mode, library, driver_calls); }},
        {"empty programs, runtime and driver",
         [&] { return trace_with_nothing(mode, library, {}); }},
        {"ours, callers only", [&] { return trace_with_ours(mode, callers_only, library); }},
        {"ours", [&] { return trace_with_ours(mode, {}, library); }},
    };
    std::map<std::pair<std::size_t, std::size_t>, std::vector<double>> costs;
    for (unsigned round = 0; round < rounds; round++) {
        for (std::size_t way = 0; way < ways.size(); way++) {
            const Tracing tracing = ways[way].second();
            for (std::size_t workload = 0; workload < workloads.size(); workload++) {
                (void)nanoseconds_per_call(workloads[workload], calls / 10);
                costs[{workload, way}].push_back(nanoseconds_per_call(workloads[workload], calls));
            }
        }
    }
    std::printf(
        "| call | traced by | ns a call, median | from 10 %% to 90 %% | added, over empty |\n");
    std::printf("|---|---|---|---|---|\n");
    for (std::size_t workload = 0; workload < workloads.size(); workload++) {
        const double untraced = median(costs[{workload, 0}]);
        for (std::size_t way = 0; way < ways.size(); way++) {
            const auto &all = costs[{workload, way}];
            std::vector<double> ratios;
            for (std::size_t i = 0; i < all.size(); i++) {
                ratios.push_back((all[i] - untraced) / (costs[{workload, 2}][i] - untraced));
            }
            std::printf("| %s | %s | %.0f | %.0f to %.0f |", workloads[workload].name.c_str(),
                        ways[way].first.c_str(), median(all), quantile(all, 0.1),
                        quantile(all, 0.9));
            if (way == 0) {
                std::printf(" |\n");
            } else {
                std::printf(" %.2f |\n", median(ratios));
            }
        }
    }
}
