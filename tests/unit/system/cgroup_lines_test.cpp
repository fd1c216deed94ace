// The text of /proc/PID/cgroup.
#include "exporter/system/cgroup_limits.h"

#include <catch2/catch_test_macros.hpp>
#include <string_view>
#include <vector>

using namespace gpusnoop;

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
