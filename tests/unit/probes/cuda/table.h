// The kernel's table of live allocations, as tests make it up.
#pragma once

#include "tests/unit/probes/cuda/fixture.h"

namespace gpusnoop::probes {

inline cuda_live_key key_of(const cuda_allocation_record &of) {
    return {of.address, of.head.since_ns, of.head.tgid,
            of.kind == MEMORY_vmm ? CUDA_LIVE_HANDLES : CUDA_LIVE_MEMORY};
}

struct Table : LiveTable {
    explicit Table(std::chrono::nanoseconds at = std::chrono::seconds(100)) { since = at; }

    Table &has_process(std::uint32_t pid = bench_pid, std::uint64_t since_ns = bench_since) {
        processes[pid].since_ns = since_ns;
        return *this;
    }
    Table &has(const cuda_allocation_record &of) {
        cuda_live live{};
        live.bytes = of.bytes;
        live.born_ns = of.born_ns;
        live.context = of.context;
        live.caller = of.caller;
        live.device = of.head.device;
        live.python = of.python;
        live.stack = of.stack;
        live.kind = of.kind;
        entries.emplace_back(key_of(of), live);
        return *this;
    }
};

inline void agree(Fixture &fixture, const Table &table) {
    fixture.aggregator->watch_ends();
    fixture.apply_all();
    fixture.aggregator->reconcile(table);
}

inline std::uint64_t outstanding(const Fixture &fixture) {
    return fixture.sum("cuda_memory_outstanding_bytes");
}

}  // namespace gpusnoop::probes
