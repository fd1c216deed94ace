#include "exporter/processes/cgroup_owner.h"

#include <catch2/catch_test_macros.hpp>
#include <random>
#include <string>
#include <vector>

using namespace gpusnoop::processes;

namespace {

const std::string kId = "4f3c0a9be1d25678aa00bb11cc22dd33ee44ff5566778899a0b1c2d3e4f5a6b7";
const std::string kOther = "b" + std::string(63, '1');
const std::string kUid = "0f9a1b2c-3d4e-5f60-7182-93a4b5c6d7e8";
const std::string kUidSystemd = "0f9a1b2c_3d4e_5f60_7182_93a4b5c6d7e8";
const std::string kStaticUid = "8f2e1d0c9b8a7f6e5d4c3b2a19080706";

struct Case {
    std::string content;
    ContainerIdentity expected;
};

ContainerIdentity parse_cgroup_file(const std::string &content) {
    return parse_cgroup_owner(content).container;
}

}  // namespace

TEST_CASE("cgroup files of containers", "[cgroup]") {
    const std::vector<Case> cases{
        // Docker, cgroup v2 and v1, both drivers
        {"0::/system.slice/docker-" + kId + ".scope\n", {kId, ""}},
        {"0::/docker/" + kId + "\n", {kId, ""}},
        {"12:pids:/docker/" + kId + "\n11:cpu,cpuacct:/docker/" + kId + "\n0::/\n", {kId, ""}},
        {"0::/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" + kId + ".scope",
         {kId, ""}},
        {"2:cpu:/docker/" + kId + "\n1:pids:/docker/" + kOther + "\n", {kId, ""}},
        // Podman, with crun's group below it, and its monitor, which is not the container
        {"0::/machine.slice/libpod-" + kId + ".scope\n", {kId, ""}},
        {"0::/machine.slice/libpod-" + kId + ".scope/container\n", {kId, ""}},
        {"0::/machine.slice/libpod-conmon-" + kId + ".scope\n", {"", ""}},
        // Kubernetes with the systemd driver, each QoS class
        {"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + kUidSystemd +
             ".slice/cri-containerd-" + kId + ".scope\n",
         {kId, kUid}},
        {"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + kUidSystemd +
             ".slice/crio-" + kId + ".scope\n",
         {kId, kUid}},
        {"0::/kubepods.slice/kubepods-pod" + kUidSystemd + ".slice/docker-" + kId + ".scope\n",
         {kId, kUid}},
        {"0::/kubepods.slice/kubepods-pod" + kUidSystemd + ".slice/crio-conmon-" + kId + ".scope\n",
         {"", kUid}},
        {"0::/kubepods.slice/kubepods-pod" + kUidSystemd + ".slice\n", {"", kUid}},
        {"0::/system.slice/containerd.service/kubepods-burstable-pod" + kUidSystemd +
             ".slice:cri-containerd:" + kId + "\n",
         {kId, kUid}},
        // Kubernetes with cgroupfs
        {"0::/kubepods/burstable/pod" + kUid + "/" + kId + "\n", {kId, kUid}},
        {"0::/kubepods/besteffort/pod" + kUid + "/" + kId + "\n", {kId, kUid}},
        {"0::/kubepods/pod" + kUid + "/" + kId + "\n", {kId, kUid}},
        {"0::/kubepods/pod" + kUid + "/crio-" + kId + "\n", {kId, kUid}},
        {"11:memory:/kubepods/burstable/pod" + kUid + "/" + kId + "\n1:name=systemd:/\n0::/\n",
         {kId, kUid}},
        {"0::/kubepods/burstable/pod" + kStaticUid + "/" + kId + "\n", {kId, kStaticUid}},
        // Groups that the container made below its own
        {"0::/kubepods/pod" + kUid + "/" + kId + "/init.scope\n", {kId, kUid}},
        {"0::/system.slice/docker-" + kId + ".scope/system.slice/ssh.service\n", {kId, ""}},
        // From inside a cgroup namespace
        {"0::/../cri-containerd-" + kId + ".scope\n", {kId, ""}},
        {"0::/../../kubepods-pod" + kUidSystemd + ".slice/cri-containerd-" + kId + ".scope\n",
         {kId, kUid}},
        {"0::/../../pod" + kUid + "/" + kId + "\n", {kId, kUid}},
        // A cluster in a container
        {"0::/docker/" + kOther + "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" +
             kUidSystemd + ".slice/cri-containerd-" + kId + ".scope\n",
         {kId, kUid}},
        {"0::/system.slice/docker-" + kOther + ".scope/kubelet/kubepods/pod" + kUid + "/" + kId,
         {kId, kUid}},
        // Names that a workload chose itself
        {"0::/docker/" + kId + "/docker/" + kOther + "\n", {kId, ""}},
        {"0::/kubepods/pod" + kUid + "/" + kId + "/kubepods/pod" + kStaticUid + "/" + kOther + "\n",
         {kId, kUid}},
    };
    for (const Case &test : cases) {
        INFO(test.content);
        CHECK(parse_cgroup_file(test.content) == test.expected);
    }
}

TEST_CASE("cgroup files of the host", "[cgroup]") {
    const std::vector<std::string> contents{
        "",
        "0::/\n",
        "0::/init.scope\n",
        "0::/user.slice/user-1000.slice/session-3.scope\n",
        "0::/system.slice/slurmstepd.scope/job_12/step_0\n",
        "0::/system.slice/docker-" + kId.substr(1) + ".scope\n",  // 63 digits
        "0::/system.slice/docker-0" + kId + ".scope\n",           // 65
        "0::/system.slice/snapd-" + kId + ".scope\n",
        "0::/system.slice/docker-" + kId.substr(1) + "G.scope\n",
        "0::/kubepods/pod" + kUid.substr(1) + "\n",
        "0::/kubepods/podcast\n",
        "0::/my-pod" + kUidSystemd + ".slice\n",
        "no colons",
        ":::::",
        "\n\n\n",
        std::string(1000, '/')};
    for (const std::string &content : contents) {
        INFO(content);
        CHECK(parse_cgroup_file(content).empty());
    }
}

TEST_CASE("a container is known by directories that no user could make", "[cgroup]") {
    const std::string container = "docker-" + kId + ".scope";
    const std::vector<std::string_view> path = {"user.slice", "user-1000.slice",
                                                "user@1000.service", container};
    CHECK(owner_of(path).container.container_id == kId);
    // The directory of his own that root gave him has the name that root chose.
    CHECK(owner_of(path, [](std::size_t i) { return i >= 3; }).container.container_id == kId);
    CHECK(owner_of(path, [](std::size_t i) { return i >= 2; }).container.empty());
    // What root has made below a user's directory may lie anywhere.
    CHECK(owner_of(path, [](std::size_t i) { return i == 1; }).container.empty());
    const std::string content = "3:freezer:/docker/" + kId + "\n0::/a/docker/" + kOther + "\n";
    const auto of_user = [](std::string_view controllers, auto directories) {
        return controllers.empty() && directories.size() == 1 && directories[0] == "a";
    };
    CHECK(parse_cgroup_owner(content, of_user).container == ContainerIdentity{kId, ""});
    CHECK(parse_cgroup_owner("0::/a/docker/" + kOther, of_user).container.empty());
}

TEST_CASE("hostile cgroup files", "[cgroup]") {
    CHECK(parse_cgroup_file(std::string(10'000'000, 'a')).empty());
    CHECK(parse_cgroup_file("0::/" + std::string(200'000, 'x') + "/docker/" + kId).empty());
    std::mt19937 random(3);
    const std::string original = "0::/kubepods/pod" + kUid + "/docker-" + kId + ".scope\n";
    for (int round = 0; round < 50'000; ++round) {
        std::string content = original;
        for (auto changes = random() % 4; changes > 0; --changes) {
            content[random() % content.size()] = static_cast<char>(random() % 256);
        }
        content.resize(random() % (content.size() + 1));
        const auto found = parse_cgroup_file(content);
        const bool good =
            (found.container_id.empty() || found.container_id.size() == 64) &&
            (found.pod_uid.empty() || found.pod_uid.size() == 36 || found.pod_uid.size() == 32);
        if (!good) {
            FAIL_CHECK(content);
        }
    }
}
