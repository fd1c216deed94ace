#include "exporter/ebpf/maps/counters.h"

#include <bpf/bpf.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "exporter/ebpf/libbpf.h"

namespace gpusnoop::ebpf {

Result<probe_account> read_account(int map_fd) {
    const auto cpus = possible_cpus();
    if (!cpus) {
        return tl::unexpected(cpus.error());
    }
    std::vector<probe_account> per_cpu(*cpus);
    const std::uint32_t zero = 0;
    if (bpf_map_lookup_elem(map_fd, &zero, per_cpu.data()) != 0) {
        return fail_errno("read a probe's account");
    }
    probe_account sum{};
    for (const probe_account &one : per_cpu) {
        sum.entered += one.entered + one.counted;
        sum.nested += one.nested;
        sum.events += one.events + one.counted;
        sum.unmatched += one.unmatched;
        sum.stale += one.stale;
        for (std::size_t reason = 0; reason < LOST_REASON_COUNT; reason++) {
            sum.lost[reason] += one.lost[reason];
        }
        for (std::size_t signal = 0; signal < DEATH_SIGNAL_COUNT; signal++) {
            sum.deaths[signal] += one.deaths[signal];
        }
    }
    return sum;
}

std::uint64_t in_flight(const probe_account &account) {
    const std::uint64_t done = account.events + account.stale + lost_calls(account);
    return account.entered > done ? account.entered - done : 0;
}

std::uint64_t lost_calls(const probe_account &account) {
    return std::accumulate(std::begin(account.lost), std::end(account.lost), std::uint64_t{0});
}

}  // namespace gpusnoop::ebpf
