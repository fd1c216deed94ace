// Which container and which pod a cgroup belongs to, from its names alone: no API, no runtime
// socket.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gpusnoop::processes {

// Of /proc/<pid>/cgroup, no more is read.
constexpr std::size_t max_cgroup_file_bytes = 64 * 1024;

struct ContainerIdentity {
    std::string container_id;  // all 64 hex digits, as the runtime, kubelet and cAdvisor write it
    std::string pod_uid;       // as the Kubernetes API writes it, with dashes

    [[nodiscard]] bool empty() const { return container_id.empty() && pod_uid.empty(); }
    friend bool operator==(const ContainerIdentity &, const ContainerIdentity &) = default;
};

// Both functions understand Docker, containerd, CRI-O and Podman under the cgroupfs and the systemd
// driver, for pods of every QoS class. A part that is not there is empty; both are empty on the
// host.
//
// A workload may make cgroups below its own, with names that it chooses: the outermost pod, and the
// outermost container in it, are the answer, so that it cannot pass as another pod. (A cluster in a
// container, like kind, is read as its pods, because the container around it is in no pod.)

// `content` is that of /proc/<pid>/cgroup: cgroup v2, v1 or both, and paths with ".." as seen from
// inside a cgroup namespace. Reads at most 64 KiB of it.
[[nodiscard]] ContainerIdentity parse_cgroup_file(std::string_view content);

// The names of a cgroup v2 directory and of its parent, as a BPF program saw them; each may be
// padded with NULs or empty.
[[nodiscard]] ContainerIdentity parse_cgroup_names(std::string_view leaf, std::string_view parent);

}  // namespace gpusnoop::processes
