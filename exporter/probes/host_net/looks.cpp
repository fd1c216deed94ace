#include "exporter/probes/host_net/looks.h"

#include <bpf/bpf.h>

#include <cerrno>
#include <set>

#include "exporter/ebpf/libbpf.h"
#include "exporter/ebpf/mappings/iterator.h"
#include "exporter/ebpf/maps/record.h"
#include "host_net.skel.h"

namespace gpusnoop::probes {

NetLooks::NetLooks(host_net_bpf &skeleton)
    : skeleton_(skeleton), walks_one_process_(ebpf::has_member("bpf_iter_aux_info", "task")) {}

Result<> NetLooks::look(const std::vector<FollowedProcesses::Entry> &processes,
                        const std::function<void(const net_connection &)> &use) {
    skeleton_.bss->net_look_number++;
    if (auto done = read(processes, use); !done) {
        return done;
    }
    forget_gone(processes);
    for (const auto &process : processes) {
        note(process.key);
    }
    return {};
}

Result<> NetLooks::read(const std::vector<FollowedProcesses::Entry> &processes,
                        const std::function<void(const net_connection &)> &use) {
    const int program = bpf_program__fd(skeleton_.progs.net_look);
    const auto read_through = [&](const Fd &link) {
        return ebpf::read_iterator(link.get(), sizeof(net_connection),
                                   [&](auto bytes) { use(*ebpf::decode<net_connection>(bytes)); });
    };
    if (!walks_one_process_) {
        const auto link = ebpf::link_iterator(program);
        return link ? read_through(*link) : tl::unexpected(link.error());
    }
    for (const auto &process : processes) {
        const auto link = ebpf::link_iterator_of(program, process.key.tgid);
        if (!link && link.error().code == ESRCH) {
            continue;
        }
        if (!link) {
            return tl::unexpected(link.error());
        }
        if (auto done = read_through(*link); !done && done.error().code != ESRCH) {
            return done;
        }
    }
    return {};
}

void NetLooks::note(const ProcessKey &process) {
    std::uint64_t &since_ns = looked_[process.tgid];
    if (since_ns != process.since_ns) {
        since_ns = process.since_ns;
        bpf_map_update_elem(bpf_map__fd(skeleton_.maps.net_looked), &process.tgid, &since_ns,
                            BPF_ANY);
    }
}

void NetLooks::forget_gone(const std::vector<FollowedProcesses::Entry> &processes) {
    std::set<std::uint32_t> running;
    for (const auto &process : processes) {
        running.insert(process.key.tgid);
    }
    std::erase_if(looked_, [&](const auto &one) {
        const bool is_gone = !running.contains(one.first);
        if (is_gone) {
            bpf_map_delete_elem(bpf_map__fd(skeleton_.maps.net_looked), &one.first);
        }
        return is_gone;
    });
}

}  // namespace gpusnoop::probes
