// The GPUs that Slurm has given to jobs of this machine, of which one uses none.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/harness/exporter.h"
#include "tests/harness/gpu_node.h"
#include "tests/probes/identity.h"

using namespace harness;

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
