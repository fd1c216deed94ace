// What control groups allow, from files as the kernel has them.
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/system/cgroup_limits.h"
#include "tests/harness/machine/directory.h"

using namespace gpusnoop;

// The text of /proc/PID/cgroup.

TEST_CASE("each hierarchy of a process is a line with its controllers and its path") {
    const auto lines = cgroup_lines(
        "12:cpu,cpuacct:/slurm/job_1\n4:name=systemd:/a:b.service\nnonsense\n5:memory:\n0::/x");
    REQUIRE(lines.size() == 3);
    CHECK(lines[0].path == "/slurm/job_1");
    CHECK(lines[0].has("cpu"));
    CHECK(lines[0].has("cpuacct"));
    CHECK_FALSE(lines[0].has("cpu,cpuacct"));
    CHECK_FALSE(lines[0].has("acct"));
    CHECK_FALSE(lines[0].is_v2());
    CHECK(lines[1].path == "/a:b.service");
    CHECK(lines[2].is_v2());
    CHECK_FALSE(lines[2].has(""));
    CHECK(cgroup_lines("").empty());
    CHECK(cgroup_lines("::\n:\n").empty());
}

TEST_CASE("a path has a directory where it can be seen from here") {
    CHECK(cgroup_directories("/a//b/") == std::vector<std::string_view>{"a", "b"});
    CHECK(cgroup_directory("/cg", "/a/b") == "/cg/a/b");
    CHECK(cgroup_directory("/cg", "/").empty());
    CHECK(cgroup_directory("/cg", "").empty());
    CHECK(cgroup_directory("/cg", "/../b").empty());
    // A user may give such a name to a directory.
    CHECK(cgroup_directory("/cg", "/..b/c..") == "/cg/..b/c..");
    CHECK(leads_out("/../../b"));
    CHECK_FALSE(leads_out("/..b"));
}

namespace fs = std::filesystem;

namespace {

struct Mount {
    harness::TemporaryDirectory directory;

    void put(const std::string &file, const std::string &text) const {
        fs::create_directories((directory / file).parent_path());
        std::ofstream(directory / file) << text;
    }
    [[nodiscard]] CgroupLimits limits(const std::string &groups) const {
        return cgroup_limits(groups, directory.path().string());
    }
};

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;

}  // namespace

TEST_CASE("limits of version 2 are the least of the group and those around it") {
    const Mount mount;
    mount.put("pods/pod/container/memory.max", "max\n");
    mount.put("pods/pod/container/cpu.max", "20000 100000\n");
    mount.put("pods/pod/memory.max", "67108864\n");
    mount.put("pods/pod/cpu.max", "max 100000\n");
    mount.put("pods/memory.max", "1073741824\n");
    mount.put("other/memory.max", "4096\n");
    CHECK(mount.limits("0::/pods/pod/container\n") == CgroupLimits{64 * mebibyte, 0.2});
    CHECK(mount.limits("0::/pods\n") == CgroupLimits{1024 * mebibyte, std::nullopt});
    CHECK(mount.limits("0::/\n") == CgroupLimits{});
}

TEST_CASE("limits of version 2 in a container are those at the top of what it sees") {
    const Mount mount;
    mount.put("memory.max", "67108864\n");
    mount.put("cpu.max", "1000 100000\n");
    const CgroupLimits expected{64 * mebibyte, 0.01};
    CHECK(mount.limits("0::/\n") == expected);
    CHECK(mount.limits("0::/../../elsewhere\n") == expected);
    CHECK(mount.limits("0::/a/path/of/the/host\n") == expected);
}

TEST_CASE("limits of version 1 are read where its controllers are mounted") {
    const Mount mount;
    mount.put("memory/docker/memory.limit_in_bytes", "100663296\n");
    mount.put("memory/memory.limit_in_bytes", "9223372036854771712\n");
    mount.put("cpu,cpuacct/docker/cpu.cfs_quota_us", "5000\n");
    mount.put("cpu,cpuacct/docker/cpu.cfs_period_us", "100000\n");
    mount.put("cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    mount.put("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    const std::string groups =
        "9:name=systemd:/docker\n5:cpu,cpuacct:/docker\n4:memory:/docker\n0::/\n";
    CHECK(mount.limits(groups) == CgroupLimits{96 * mebibyte, 0.05});
    CHECK(mount.limits("5:cpu,cpuacct:/\n4:memory:/\n") == CgroupLimits{});
}

TEST_CASE("what is no list of groups, and files that are none of limits, are no limits") {
    const Mount mount;
    mount.put("memory.max", "much\n");
    mount.put("cpu.max", "1000\n");
    for (const char *groups : {"", "0:", "::", "\n\n", "0::", "0::/"}) {
        CHECK(mount.limits(groups) == CgroupLimits{});
    }
    mount.put("cpu.max", "1000 0\n");
    CHECK(mount.limits("0::/") == CgroupLimits{});
}

TEST_CASE("limits below what the exporter needs are named, and others are not") {
    CHECK(limits_below_need({}).empty());
    CHECK(limits_below_need({needed_memory_bytes, needed_cpus}).empty());
    CHECK(limits_below_need({64 * mebibyte, std::nullopt}) == "memory: 64 MiB, it needs 128 MiB");
    CHECK(limits_below_need({64 * mebibyte, 0.01}) ==
          "memory: 64 MiB, it needs 128 MiB; CPU time: 0.01 of one CPU, it needs 0.1");
    CHECK(limits_below_need({1024 * mebibyte, 0.05}) == "CPU time: 0.05 of one CPU, it needs 0.1");
}
