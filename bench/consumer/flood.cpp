#include "bench/consumer/flood.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <utility>

#include "bench/bpf/flood.h"
#include "exporter/probes/cuda/attach/functions.h"
#include "exporter/probes/cuda/settings.h"
#include "exporter/processes/proc.h"
#include "exporter/system/machine.h"
#include "flood.skel.h"

namespace gpusnoop::bench {

namespace {

using std::chrono::nanoseconds;

constexpr std::chrono::milliseconds step{1};

constexpr std::array<std::string_view, FLOOD_KINDS> symbols = {
    "cudaLaunchKernel",      "cudaMemcpyAsync", "cudaMemcpy",
    "cudaDeviceSynchronize", "cudaMalloc",      "cudaFree"};

// Of FLOOD_CYCLE calls 52 are launches. Where the others are is known to bench/bpf/flood.bpf.c,
// too: an allocation and a free in each half.
void choose_kinds(unsigned char *kinds) {
    std::fill_n(kinds, FLOOD_CYCLE, FLOOD_LAUNCH);
    for (const int half : {0, FLOOD_CYCLE / 2}) {
        kinds[half + 4] = kinds[half + 20] = FLOOD_ASYNC_COPY;
        kinds[half + 10] = FLOOD_COPY;
        kinds[half + 12] = FLOOD_WAIT;
        kinds[half + 16] = FLOOD_ALLOCATE;
        kinds[half + 30] = FLOOD_FREE;
    }
}

Result<> choose_functions(unsigned short *functions) {
    const auto all = probes::cuda_functions();
    for (std::size_t kind = 0; kind < symbols.size(); kind++) {
        const auto found = std::ranges::find(all, symbols[kind], &probes::CudaFunction::symbol);
        if (found == all.end()) {
            return fail(std::string(symbols[kind]) + " is not traced any more");
        }
        functions[kind] = static_cast<unsigned short>(found - all.begin());
    }
    return {};
}

}  // namespace

Flood::Flood(ebpf::Skeleton<flood_bpf> programs) : programs_(std::move(programs)) {}
Flood::~Flood() = default;
Flood::Flood(Flood &&) noexcept = default;

Result<Flood> Flood::into(const Rings &rings) {
    return load(&rings);
}

Result<Flood> Flood::alone() {
    return load(nullptr);
}

Result<Flood> Flood::load(const Rings *rings) {
    ebpf::Skeleton<flood_bpf> programs(flood_bpf::open());
    if (!programs) {
        return fail_errno("open the programs that write");
    }
    choose_kinds(programs->rodata->kinds);
    if (auto chosen = choose_functions(programs->rodata->functions); !chosen) {
        return tl::unexpected(chosen.error());
    }
    auto &maps = programs->maps;
    if (rings != nullptr) {
        for (const auto &[map, fd] : {std::pair{maps.flood_mem, rings->allocations},
                                      std::pair{maps.flood_events, rings->calls},
                                      std::pair{maps.flood_account, rings->account}}) {
            if (const int error = bpf_map__reuse_fd(map, fd); error != 0) {
                return fail_errno("use a map of the probe", -error);
            }
        }
    } else {
        const probes::CudaConfig config;
        bpf_map__set_max_entries(maps.flood_mem, config.allocation_ring_bytes);
        bpf_map__set_max_entries(maps.flood_events, config.call_ring_bytes);
    }
    if (const int error = flood_bpf::load(programs.get()); error != 0) {
        return fail_errno("load the programs that write", -error);
    }
    return Flood(std::move(programs));
}

Rings Flood::rings() const {
    return {bpf_map__fd(programs_->maps.flood_mem), bpf_map__fd(programs_->maps.flood_events),
            bpf_map__fd(programs_->maps.flood_account)};
}

Result<> Flood::run(int program) const {
    LIBBPF_OPTS(bpf_test_run_opts, options);
    const int error = bpf_prog_test_run_opts(program, &options);
    if (error != 0) {
        return fail_errno("run a program that writes", -error);
    }
    return options.retval == 0 ? Result<>{} : fail("a process cannot be introduced: no room");
}

Result<> Flood::introduce(std::size_t index, pid_t process) {
    const auto started = processes::start_time(static_cast<std::uint32_t>(process));
    if (!started) {
        return fail("a process that was to be traced has ended");
    }
    flood_process writer{};
    writer.since_ns = static_cast<std::uint64_t>(now_on(CLOCK_MONOTONIC).count());
    writer.tgid = static_cast<std::uint32_t>(process);
    const auto key = static_cast<std::uint32_t>(index);
    if (bpf_map_update_elem(bpf_map__fd(programs_->maps.flood_writers), &key, &writer, BPF_ANY) !=
        0) {
        return fail_errno("note a process");
    }
    cuda_record head{};
    head.since_ns = head.ended_ns = writer.since_ns;
    head.tgid = writer.tgid;
    head.function = CUDA_NO_FUNCTION;
    head.device = CUDA_DEVICE_UNCHOSEN;

    cuda_process_record &identity = programs_->bss->process;
    identity = {};
    identity.head = head;
    identity.head.type = CUDA_RECORD_PROCESS;
    identity.identity.start_boottime_ns = static_cast<std::uint64_t>(started->count());
    std::strncpy(identity.identity.comm, "flood", sizeof(identity.identity.comm) - 1);
    if (auto sent = run(bpf_program__fd(programs_->progs.flood_process)); !sent) {
        return sent;
    }
    for (unsigned number = 0; number < FLOOD_KERNELS; number++) {
        cuda_name_record &name = programs_->bss->name;
        name = {};
        name.head = head;
        name.head.type = CUDA_RECORD_NAME;
        name.handle = FLOOD_KERNEL(number);
        fmt::format_to_n(name.name, sizeof(name.name) - 1, "kernel_{}", number);
        if (auto sent = run(bpf_program__fd(programs_->progs.flood_name)); !sent) {
            return sent;
        }
    }
    return {};
}

Result<> Flood::use(const std::vector<pid_t> &processes) {
    for (; introduced_ < processes.size(); introduced_++) {
        if (auto introduced = introduce(introduced_, processes[introduced_]); !introduced) {
            return introduced;
        }
    }
    used_ = static_cast<std::uint32_t>(processes.size());
    return {};
}

Result<> Flood::write_batch(std::uint32_t events, Written &written) {
    flood_request request{};
    request.first = next_;
    request.count = events;
    request.processes = used_;
    // The kernel writes the answers back to where it has read the request.
    LIBBPF_OPTS(bpf_test_run_opts, options, .ctx_in = &request, .ctx_size_in = sizeof(request));
    const int error =
        bpf_prog_test_run_opts(bpf_program__fd(programs_->progs.flood_write), &options);
    if (error != 0) {
        return fail_errno("run a program that writes", -error);
    }
    if (request.written + request.lost != events) {
        return fail("the program has written something else than it was told to");
    }
    next_ += events;
    written.events += request.written;
    launches_ += request.launches;
    written.lost += request.lost;
    return {};
}

Result<Written> Flood::write(double per_second, nanoseconds time) {
    Written written;
    const auto all =
        static_cast<std::uint64_t>(per_second * std::chrono::duration<double>(time).count());
    const nanoseconds began = now_on(CLOCK_MONOTONIC);
    for (nanoseconds now = began; written.events + written.lost < all;
         now = now_on(CLOCK_MONOTONIC)) {
        const auto due = static_cast<std::uint64_t>(
            per_second * std::chrono::duration<double>(now - began + step).count());
        while (written.events + written.lost < std::min(all, due)) {
            const std::uint64_t left = std::min(all, due) - written.events - written.lost;
            if (auto wrote = write_batch(
                    static_cast<std::uint32_t>(std::min<std::uint64_t>(left, FLOOD_BATCH)),
                    written);
                !wrote) {
                return tl::unexpected(wrote.error());
            }
        }
        std::this_thread::sleep_for(step);
    }
    written.took = now_on(CLOCK_MONOTONIC) - began;
    return written;
}

}  // namespace gpusnoop::bench
