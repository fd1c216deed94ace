// Whose GPU it is, where a device program of a cgroup (v2) allows to open some of them.
#include <bpf/bpf.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <signal.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "exporter/base/fd.h"
#include "tests/harness/device_program.h"
#include "tests/harness/exporter.h"
#include "tests/harness/gpu_node.h"
#include "tests/probes/identity.h"

using namespace harness;

namespace {

using Program = std::vector<bpf_insn>;

void cuda_device_cgroups_attach(const std::filesystem::path &cgroup, const Program &program) {
    const gpusnoop::Fd loaded(bpf_prog_load(BPF_PROG_TYPE_CGROUP_DEVICE, "gpus", "GPL",
                                            program.data(), program.size(), nullptr));
    REQUIRE(loaded);
    const gpusnoop::Fd directory(::open(cgroup.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(directory);
    REQUIRE(bpf_prog_attach(loaded.get(), directory.get(), BPF_CGROUP_DEVICE, BPF_F_ALLOW_MULTI) ==
            0);
}

// The GPU of the memory of a process with CUDA_VISIBLE_DEVICES=0, in a cgroup in which /dev/null
// may be opened, and what the program says.
std::string cuda_device_cgroups_gpu(const std::filesystem::path &root, const Program &program) {
    const Cgroup job(root, "gpusnoop_devices");
    const Cgroup step(root, "gpusnoop_devices/step");
    cuda_device_cgroups_attach(root / "gpusnoop_devices", program);
    const GpuNode node(4);
    const Exporter exporter(node.config() + "cuda:\n  attach: session\n");
    const Process holder({standin("workload"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    std::vector<std::string> command = step.enter();
    for (const std::string &word :
         {standin("steps"), std::string("name"), std::string("confined"), std::string("allocate"),
          std::string("1"), std::string("70"), std::string("wait")}) {
        command.push_back(word);
    }
    const Process confined(command, {{"CUDA_VISIBLE_DEVICES", "0"}});
    confined.wait_for_output("waiting 1");
    const Labels of_process = {{"comm", "confined"}, {"memory_kind", "device"}};
    const std::string family = "gpusnoop_cuda_memory_outstanding_bytes";
    const Page page = exporter.wait_for(family, of_process, 70);
    for (const char *const gpu : {"0", "1", "2", "3", "unknown"}) {
        Labels labels = of_process;
        labels["gpu"] = gpu;
        if (page.sum(family, labels) == 70) {
            return gpu;
        }
    }
    return "none";
}

}  // namespace

TEST_CASE("the GPU of a job is the one that its device program allows", "[kernel][core]") {
    require_bpf();
    const std::filesystem::path root = mounted(true);
    if (root.empty()) {
        missing("cgroups of version 2");
    }
    const std::vector<std::pair<std::uint32_t, std::uint32_t>> null = {{1, 3}};
    SECTION("one GPU, from the program of a cgroup above") {
        CHECK(cuda_device_cgroups_gpu(root, device_program(195, {3}, null)) == "3");
    }
    SECTION("some of them: the first of these") {
        CHECK(cuda_device_cgroups_gpu(root, device_program(195, {1, 2}, null)) == "1");
    }
    SECTION("nobody can say which") {
        CHECK(cuda_device_cgroups_gpu(root, opaque_device_program()) == "unknown");
    }
}

// The GPUs that Slurm has given to jobs of this machine, of which one uses none.

namespace {

constexpr const char *slurm_family = "gpusnoop_slurm_job_gpu_info";

// A process of a job's step that makes no CUDA call.
Process start_in_step(const Cgroup &step, const std::string &variable) {
    std::vector<std::string> command = step.enter();
    for (const std::string &word :
         {std::string("env"), variable, std::string("sleep"), std::string("1000")}) {
        command.push_back(word);
    }
    return Process(command);
}

}  // namespace

TEST_CASE("a job has the GPUs that Slurm gave it, used or not", "[kernel]") {
    require_bpf();
    const bool is_v1 = !mounted(false).empty();
    if (!is_v1 && mounted(true).empty()) {
        missing("a mounted hierarchy of cgroups");
    }
    const std::string scope = is_v1 ? "slurm/uid_0" : "system.slice/slurmstepd.scope";
    const Cgroup script(mounted(!is_v1), scope + "/job_31/step_batch/task_0");
    const Cgroup task(mounted(!is_v1), scope + "/job_32/step_0/task_0");
    Process idle = start_in_step(script, "SLURM_JOB_GPUS=0,2");
    Process other = start_in_step(task, "SLURM_STEP_GPUS=1");
    const GpuNode node(4);
    const Exporter exporter(node.config());
    const Page page = exporter.wait_for(slurm_family, {{"slurm_job_id", "32"}}, 1);
    CHECK(page.sum(slurm_family, {{"slurm_job_id", "31"}}) == 2);
    CHECK(page.sum(slurm_family, {{"slurm_job_id", "31"}, {"gpu", "0"}}) == 1);
    CHECK(page.sum(slurm_family, {{"slurm_job_id", "31"}, {"gpu", "2"}}) == 1);
    CHECK(page.sum(slurm_family, {{"slurm_job_id", "32"}, {"gpu", "1"}}) == 1);
    for (Process *const process : {&idle, &other}) {
        process->signal(SIGKILL);
        (void)process->wait();
    }
}
