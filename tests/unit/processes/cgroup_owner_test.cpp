// Which job and which unit a cgroup belongs to.
#include "exporter/processes/cgroup_owner.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace gpusnoop::processes;

namespace {

CgroupOwner v2(const std::string &path) {
    return parse_cgroup_owner("0::" + path + "\n");
}

CgroupOwner owner(std::string job, std::string step, std::string unit = "") {
    return {{}, {std::move(job), std::move(step)}, std::move(unit)};
}

}  // namespace

TEST_CASE("cgroups of Slurm's jobs") {
    const std::string scope = "/system.slice/slurmstepd.scope";
    CHECK(v2(scope + "/job_12/step_0/user/task_0") == owner("12", "0", "slurmstepd.scope"));
    CHECK(v2(scope + "/job_12/step_batch/user/task_0") == owner("12", "batch", "slurmstepd.scope"));
    CHECK(v2(scope + "/job_12/step_extern/slurm") == owner("12", "extern", "slurmstepd.scope"));
    CHECK(v2(scope + "/job_12") == owner("12", "", "slurmstepd.scope"));
    // Several slurmd on a node.
    CHECK(v2(scope + "/gpu-7/job_12/step_0/user/task_0") == owner("12", "0", "slurmstepd.scope"));
    CHECK(v2("/system.slice/gpu-7_slurmstepd.scope/job_3/step_interactive/user/task_0") ==
          owner("3", "interactive", "gpu-7_slurmstepd.scope"));
    // v1, where not every hierarchy has the job's directories.
    CHECK(parse_cgroup_owner("9:name=systemd:/system.slice/slurmd.service\n"
                             "6:freezer:/slurm/uid_1000/job_12/step_0\n"
                             "4:memory:/slurm/uid_1000/job_12/step_0/task_0\n"
                             "1:cpu:/\n0::/\n") == owner("12", "0", "slurmd.service"));
    CHECK(parse_cgroup_owner("6:freezer:/slurm_gpu-7/uid_0/job_4294967295/step_extern/task_1") ==
          owner("4294967295", "extern"));
    // A container in a job.
    CHECK(
        v2(scope + "/job_12/step_0/user/task_0/libpod-" + std::string(64, 'a') + ".scope").slurm ==
        SlurmStep{"12", "0"});
}

TEST_CASE("cgroups of jobs that Slurm names by SLUID") {
    const std::string scope = "/system.slice/slurmstepd.scope";
    CHECK(v2(scope + "/s7QX2M9TABCD00/step_0/user/task_0") ==
          owner("s7QX2M9TABCD00", "0", "slurmstepd.scope"));
    CHECK(v2(scope + "/gpu-7/s7QX2M9TABCD00/step_batch").slurm ==
          SlurmStep{"s7QX2M9TABCD00", "batch"});
    CHECK(v2("/slurm/uid_1000/s7QX2M9TABCD00/step_extern").slurm ==
          SlurmStep{"s7QX2M9TABCD00", "extern"});
    for (const std::string name : {"s7QX2M9TABCD0", "s7QX2M9TABCD000", "S7QX2M9TABCD00",
                                   "s7qx2m9tabcd00", "s7QX2M9TABCDIL", "system.slices1"}) {
        INFO(name);
        CHECK(v2(scope + "/" + name + "/step_0").slurm == SlurmStep{});
    }
    CHECK(v2("/user.slice/s7QX2M9TABCD00/step_0").slurm == SlurmStep{});
}

TEST_CASE("a job's number in the environment") {
    CHECK(slurm_job_id_in("SLURM_JOB_ID=4711") == "4711");
    CHECK(slurm_job_id_in("SLURM_JOB_ID=4294967295") == "4294967295");
    for (const std::string_view wrong : {"", "SLURM_JOB_ID", "SLURM_JOB_ID=", "SLURM_JOB_ID=12a",
                                         "SLURM_JOB_ID=12345678901", "SLURM_JOB_IDS=1"}) {
        INFO(wrong);
        CHECK(slurm_job_id_in(wrong).empty());
    }
}

TEST_CASE("a job is known by directories that no user could make") {
    const std::vector<std::string_view> path = {"user.slice", "user@1000.service",
                                                "slurmstepd.scope", "job_4242", "step_0"};
    CHECK(owner_of(path).slurm == SlurmStep{"4242", "0"});
    CHECK(owner_of(path, [](std::size_t i) { return i == 1; }).slurm == SlurmStep{});
    CHECK(owner_of(path, [](std::size_t i) { return i == 3; }).slurm == SlurmStep{"4242", ""});
    CHECK(owner_of(path, [](std::size_t i) { return i == 1; }).systemd_unit == "slurmstepd.scope");
}

TEST_CASE("directories that are not Slurm's are no job's") {
    for (const std::string path :
         {"/", "", "/job_12", "/user.slice/job_12/step_0", "/slurm/job_12/step_0",
          "/system.slice/slurmstepd.scope", "/system.slice/slurmstepd.scope/system",
          "/system.slice/slurmstepd.scope/job_", "/system.slice/slurmstepd.scope/job_1a/step_0",
          "/slurm/uid_x/job_12", "/other/uid_1/job_12", "/uid_1/job_12"}) {
        INFO(path);
        CHECK(v2(path).slurm == SlurmStep{});
    }
    // A job makes directories that look like another job's.
    CHECK(v2("/slurm/uid_1/job_12/step_0/slurmstepd.scope/job_13/step_1").slurm ==
          SlurmStep{"12", "0"});
    CHECK(v2("/system.slice/slurmstepd.scope/job_12/job_13").slurm == SlurmStep{"12", ""});
}

TEST_CASE("cgroups of systemd's units") {
    CHECK(v2("/system.slice/train.service").systemd_unit == "train.service");
    CHECK(v2("/system.slice/train.service/worker").systemd_unit == "train.service");
    CHECK(v2("/user.slice/user-1000.slice/session-3.scope").systemd_unit == "session-3.scope");
    CHECK(v2("/user.slice/user-1000.slice/user@1000.service/app.slice/jupyter.service")
              .systemd_unit == "jupyter.service");
    CHECK(v2("/system.slice/a:b.service").systemd_unit == "a:b.service");
    CHECK(v2("/user.slice").systemd_unit.empty());
    CHECK(parse_cgroup_owner("") == CgroupOwner{});
    CHECK(parse_cgroup_owner("no colons\n::\n:\n") == CgroupOwner{});
}

TEST_CASE("the directories of a container and of a step are the outermost that are theirs") {
    const std::string id(64, 'a');
    const std::string other(64, 'b');
    const auto in = [&](const std::string &path) {
        return owner_directories("0::" + path + "\n", id);
    };
    const std::string scope = "/system.slice/docker-" + id + ".scope";
    CHECK(in(scope).container == scope);
    CHECK(in(scope + "/inner/docker-" + other + ".scope").container == scope);
    // The process's user may have made these.
    const std::string like_a_pod = "/kubepods/pod0d5f0d5f-1234-1234-1234-0123456789ab/" + other;
    CHECK(in(scope + like_a_pod).container == scope);
    CHECK(in(like_a_pod).container.empty());
    CHECK(in(scope).slurm_step.empty());
    const std::string step = "/system.slice/slurmstepd.scope/job_12/step_0";
    CHECK(in(step + "/user/task_3").slurm_step == step);
    CHECK(in(step + "/user/task_3").container.empty());
    CHECK(in("/system.slice/slurmstepd.scope/job_12").slurm_step.empty());
    // A cluster in a container: the pod's container.
    const std::string pod =
        "/docker/" + other + "/kubepods/pod0d5f0d5f-1234-1234-1234-0123456789ab/" + id;
    CHECK(in(pod + "/x").container == pod);
    // The first hierarchy that has it.
    const OwnerDirectories v1 = owner_directories(
        "3:cpu:/\n2:memory:/slurm/uid_7/job_5/step_batch/task_0\n"
        "1:name=systemd:/docker/" +
            id + "\n",
        id);
    CHECK(v1.slurm_step == "/slurm/uid_7/job_5/step_batch");
    CHECK(v1.container == "/docker/" + id);
    CHECK(in("/user.slice/session-1.scope").container.empty());
    CHECK(in("/../../docker/" + id).container.empty());  // it is not below what is mounted here
    std::string deep;
    for (int i = 0; i < 1'000; i++) {
        deep += "/d";
    }
    CHECK(in(deep + "/docker/" + id).container.empty());
}
