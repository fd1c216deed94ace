#include "exporter/probes/host_time/reader.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sched.h>

#include <charconv>
#include <filesystem>
#include <set>
#include <string>
#include <utility>

#include "exporter/ebpf/libbpf.h"
#include "exporter/ebpf/mappings/iterator.h"
#include "exporter/ebpf/maps/hash_map.h"
#include "exporter/ebpf/maps/ring.h"

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
std::vector<std::uint32_t> read_nodes(std::size_t cpus) {
    std::vector<std::uint32_t> nodes(cpus, 0);
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

// The entries whose process `of` chooses.
template <typename Key, typename Value>
void delete_if(int map, const std::function<bool(const ProcessKey &)> &of) {
    std::vector<Key> keys;
    (void)ebpf::for_each<Key, Value>(map, [&](const Key &key, const Value & /*value*/) {
        if (of({key.tgid, key.since_ns})) {
            keys.push_back(key);
        }
    });
    for (const Key &key : keys) {
        bpf_map_delete_elem(map, &key);
    }
}

}  // namespace

Result<std::unique_ptr<HostTimeReader>> HostTimeReader::open(const Sources &sources) {
    const auto cpus = ebpf::possible_cpus();
    if (!cpus) {
        return tl::unexpected(cpus.error());
    }
    auto threads = ebpf::link_iterator(bpf_program__fd(sources.threads));
    if (!threads) {
        return tl::unexpected(threads.error());
    }
    auto waiters = ebpf::link_iterator(bpf_program__fd(sources.waiters));
    if (!waiters) {
        return tl::unexpected(waiters.error());
    }
    return std::unique_ptr<HostTimeReader>(
        new HostTimeReader(sources, std::move(*threads), std::move(*waiters), read_nodes(*cpus)));
}

HostTimeReader::HostTimeReader(const Sources &sources, Fd threads, Fd waiters,
                               std::vector<std::uint32_t> nodes)
    : sources_(sources),
      threads_(std::move(threads)),
      waiters_(std::move(waiters)),
      nodes_(std::move(nodes)) {}

Result<> HostTimeReader::read_ended(HostTimeReading &reading) const {
    auto read = ebpf::for_each_lookup<host_process, host_times>(
        sources_.past, max_past, [&](const host_process &process, const host_times &times) {
            reading.past.emplace_back(process, times);
        });
    if (read) {
        read = ebpf::for_each<host_device_key, host_device_times>(
            sources_.devices, [&](const host_device_key &key, const host_device_times &times) {
                reading.devices.emplace_back(key, times);
            });
    }
    if (read) {
        read = ebpf::for_each<host_waiter, host_waits>(
            sources_.waits_past, [&](const host_waiter &waiter, const host_waits &waits) {
                reading.ended_waits.push_back({.waiter = waiter, .waits = waits});
            });
    }
    return read;
}

Result<> HostTimeReader::read_running(HostTimeReading &reading) const {
    // The clock of this CPU's run queue, by which the programs see how long a thread has been
    // waiting, goes on when the CPU chooses its next thread.
    ::sched_yield();
    auto read = ebpf::read_iterator(
        threads_.get(), sizeof(host_thread_record), [&](std::span<const std::byte> bytes) {
            reading.threads.push_back(*ebpf::decode<host_thread_record>(bytes));
        });
    if (read) {
        read = ebpf::read_iterator(
            waiters_.get(), sizeof(host_waits_record), [&](std::span<const std::byte> bytes) {
                reading.waits.push_back(*ebpf::decode<host_waits_record>(bytes));
            });
    }
    return read;
}

Result<HostTimeReading> HostTimeReader::read() const {
    HostTimeReading reading;
    reading.nodes = nodes_;
    auto read = read_ended(reading);
    if (read) {
        read = read_running(reading);
    }
    if (read) {
        read = ebpf::for_each<host_file_key, host_file_waits>(
            sources_.file_waits, [&](const host_file_key &key, const host_file_waits &waits) {
                reading.file_waits.emplace_back(key, waits);
            });
    }
    return read ? Result<HostTimeReading>(std::move(reading)) : tl::unexpected(read.error());
}

void HostTimeReader::forget(std::span<const ProcessKey> processes) const {
    std::set<ProcessKey> gone;
    for (const ProcessKey &key : processes) {
        gone.insert(key);
        const host_process process{.since_ns = key.since_ns, .tgid = key.tgid, .reserved = 0};
        bpf_map_delete_elem(sources_.past, &process);
    }
    if (!gone.empty()) {
        forget_parts([&](const ProcessKey &key) { return gone.contains(key); });
    }
}

void HostTimeReader::forget_all() const {
    std::vector<ProcessKey> all;
    (void)ebpf::for_each_lookup<host_process, host_times>(
        sources_.past, max_past, [&](const host_process &process, const host_times & /*times*/) {
            all.push_back({process.tgid, process.since_ns});
        });
    forget(all);
    forget_parts([](const ProcessKey & /*key*/) { return true; });
}

// Of the tables that have several entries of a process.
void HostTimeReader::forget_parts(const std::function<bool(const ProcessKey &)> &of) const {
    delete_if<host_file_key, host_file_waits>(sources_.file_waits, of);
    delete_if<host_device_key, host_device_times>(sources_.devices, of);
    delete_if<host_waiter, host_waits>(sources_.waits_past, of);
}

}  // namespace gpusnoop::probes
