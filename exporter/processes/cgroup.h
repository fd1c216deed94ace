// Which container and which pod a cgroup belongs to, from its names alone: no API, no runtime
// socket.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace gpusnoop::processes {

struct ContainerIdentity {
    std::string container_id;  // all 64 hex digits, as the runtime, kubelet and cAdvisor write it
    std::string pod_uid;       // as the Kubernetes API writes it, with dashes

    [[nodiscard]] bool empty() const { return container_id.empty() && pod_uid.empty(); }
    friend bool operator==(const ContainerIdentity &, const ContainerIdentity &) = default;
};

// The names of the path's directories, from the outermost to the innermost. This understands
// Docker, containerd, CRI-O and Podman under the cgroupfs and the systemd driver, for pods of every
// QoS class. A part that is not there is empty; both are empty on the host.
//
// A workload may make cgroups below its own, with names that it chooses: the outermost pod, and the
// outermost container in it, are the answer, so that it cannot pass as another pod. (A cluster in a
// container, like kind, is read as its pods, because the container around it is in no pod.)
[[nodiscard]] ContainerIdentity container_in(std::span<const std::string_view> path);

}  // namespace gpusnoop::processes
