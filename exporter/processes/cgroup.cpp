#include "exporter/processes/cgroup.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace gpusnoop::processes {
namespace {

constexpr std::size_t container_id_digits = 64;

bool is_lower_hex(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

bool all_lower_hex(std::string_view text) {
    return std::all_of(text.begin(), text.end(), is_lower_hex);
}

// The container id of one directory name, empty if it is not a container's:
//   <id>  docker-<id>.scope  cri-containerd-<id>.scope  crio-<id>.scope  crio-<id>
//   libpod-<id>.scope kubepods-pod<uid>.slice:cri-containerd:<id>
// conmon's own cgroups (crio-conmon-<id>.scope) are not the container: their prefix is not known
// here.
std::string_view container_id_in(std::string_view name) {
    constexpr std::array<std::string_view, 6> prefixes{"docker-", "cri-containerd-", "containerd-",
                                                       "crio-",   "libpod-",         "nerdctl-"};
    if (name.ends_with(".scope")) {
        name.remove_suffix(6);
    }
    if (name.size() < container_id_digits) {
        return {};
    }
    const std::string_view id = name.substr(name.size() - container_id_digits);
    const std::string_view before = name.substr(0, name.size() - container_id_digits);
    const bool known = before.empty() || before.ends_with(':') ||
                       std::find(prefixes.begin(), prefixes.end(), before) != prefixes.end();
    return known && all_lower_hex(id) ? id : std::string_view();
}

// A pod's uid with dashes: a UUID, or the 32 hex digits that the kubelet gives a static pod.
std::string as_pod_uid(std::string_view text) {
    constexpr std::array<std::size_t, 4> dashes{8, 13, 18, 23};
    if (text.size() == 32 && all_lower_hex(text)) {
        return std::string(text);
    }
    if (text.size() != 36) {
        return {};
    }
    std::string uid(text);
    for (std::size_t i = 0; i < uid.size(); ++i) {
        const bool dash = std::find(dashes.begin(), dashes.end(), i) != dashes.end();
        if (dash && (uid[i] == '_' || uid[i] == '-')) {
            uid[i] = '-';  // the systemd driver writes underscores: a dash means a parent slice
        } else if (dash || !is_lower_hex(uid[i])) {
            return {};
        }
    }
    return uid;
}

// The pod uid of one directory name, empty if it is not a pod's:
//   pod<uid>  [kubelet-]kubepods[-burstable|-besteffort]-pod<uid>.slice
std::string pod_uid_in(std::string_view name) {
    name = name.substr(0, name.find(':'));
    if (name.ends_with(".slice")) {
        name.remove_suffix(6);
        const std::size_t pod = name.rfind("-pod");
        if (pod == std::string_view::npos || name.find("kubepods") >= pod) {
            return {};
        }
        return as_pod_uid(name.substr(pod + 4));
    }
    return name.starts_with("pod") ? as_pod_uid(name.substr(3)) : std::string();
}

}  // namespace

ContainerIdentity container_in(std::span<const std::string_view> path) {
    ContainerIdentity found;
    for (const std::string_view name : path) {
        if (found.pod_uid.empty()) {
            found.pod_uid = pod_uid_in(name);
            if (!found.pod_uid.empty()) {
                found.container_id.clear();  // that of a container around the cluster
            }
        }
        if (found.container_id.empty()) {
            found.container_id = container_id_in(name);
        }
    }
    return found;
}

}  // namespace gpusnoop::processes
