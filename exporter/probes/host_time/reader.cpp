#include "exporter/probes/host_time/reader.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string>
#include <utility>

#include "exporter/ebpf/hash_map.h"
#include "exporter/ebpf/iterator.h"
#include "exporter/ebpf/record.h"

namespace gpusnoop::probes {

namespace {

// The most entries of the table (bpf/host_time/accounts.bpf.h).
constexpr std::size_t max_past = 4'096;

// The number in "node3"; nothing: another name.
std::optional<std::uint32_t> node_of(const std::string &name) {
    constexpr std::string_view prefix = "node";
    std::uint32_t node = 0;
    if (!name.starts_with(prefix)) {
        return std::nullopt;
    }
    const char *const end = name.data() + name.size();
    const auto [at, wrong] = std::from_chars(name.data() + prefix.size(), end, node);
    return wrong == std::errc() && at == end ? std::optional(node) : std::nullopt;
}

// On a machine without nodes, all CPUs are on node 0.
std::vector<std::uint32_t> read_nodes() {
    std::vector<std::uint32_t> nodes(static_cast<std::size_t>(libbpf_num_possible_cpus()), 0);
    for (std::size_t cpu = 0; cpu < nodes.size(); cpu++) {
        std::error_code error;
        const std::string path = "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
        for (const auto &entry : std::filesystem::directory_iterator(path, error)) {
            if (const auto node = node_of(entry.path().filename())) {
                nodes[cpu] = *node;
            }
        }
    }
    return nodes;
}

}  // namespace

Result<std::unique_ptr<HostTimeReader>> HostTimeReader::open(const bpf_program *threads, int past) {
    auto of_threads = ebpf::link_iterator(bpf_program__fd(threads));
    if (!of_threads) {
        return tl::unexpected(of_threads.error());
    }
    return std::unique_ptr<HostTimeReader>(new HostTimeReader(std::move(*of_threads), past));
}

HostTimeReader::HostTimeReader(Fd threads, int past)
    : threads_(std::move(threads)), past_(past), nodes_(read_nodes()) {}

Result<HostTimeReading> HostTimeReader::read() const {
    HostTimeReading reading;
    reading.nodes = nodes_;
    auto read = ebpf::for_each_lookup<host_process, host_times>(
        past_, max_past, [&](const host_process &process, const host_times &times) {
            reading.past.emplace_back(process, times);
        });
    // The clock of this CPU's run queue, by which the programs see how long a thread has been
    // waiting, goes on when the CPU chooses its next thread.
    ::sched_yield();
    if (read) {
        read = ebpf::read_iterator(
            threads_.get(), sizeof(host_thread_record), [&](std::span<const std::byte> bytes) {
                reading.threads.push_back(*ebpf::decode<host_thread_record>(bytes));
            });
    }
    return read ? Result<HostTimeReading>(std::move(reading)) : tl::unexpected(read.error());
}

void HostTimeReader::forget(std::span<const ProcessKey> processes) const {
    for (const ProcessKey &key : processes) {
        const host_process process{.since_ns = key.since_ns, .tgid = key.tgid, .reserved = 0};
        bpf_map_delete_elem(past_, &process);
    }
}

}  // namespace gpusnoop::probes
