#include <linux/capability.h>
#include <sys/resource.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "exporter/cli/doctor/checks.h"
#include "exporter/cli/doctor/doctor.h"
#include "exporter/probes/cuda/settings.h"
#include "exporter/probes/frame/registry.h"
#include "exporter/probes/functions/settings.h"

using namespace gpusnoop;
using namespace gpusnoop::doctor;

namespace {

ebpf::Features features_with(const std::vector<std::string> &available) {
    ebpf::Features features;
    for (const std::string name :
         {"btf", "ring_buffer", "kernel_reads", "uprobe_session", "uprobe_multi", "uprobe_perf"}) {
        const bool has = std::ranges::find(available, name) != available.end();
        features.list.push_back({name, has, has ? "" : "attach: Invalid argument"});
    }
    return features;
}

Verdict verdict_of(const std::vector<Finding> &findings, const std::string &check) {
    const auto found = std::ranges::find(findings, check, &Finding::check);
    INFO(check);
    REQUIRE(found != findings.end());
    // What is not as it should be has its price.
    CHECK((found->verdict == Verdict::ok) == found->costs.empty());
    return found->verdict;
}

std::vector<Finding> judged(const std::vector<std::string> &available,
                            const config::Config &config = {}) {
    return judge_features(features_with(available), config);
}

}  // namespace

TEST_CASE("one way to attach is enough, and a worse one than the best is said") {
    auto findings = judged({"btf", "ring_buffer", "kernel_reads", "uprobe_session"});
    CHECK(overall(findings) == Verdict::ok);
    CHECK(verdict_of(findings, "uprobe_session") == Verdict::ok);
    CHECK(verdict_of(findings, "uprobe_multi") == Verdict::ok);  // not needed
    CHECK(verdict_of(findings, "uprobe_perf") == Verdict::ok);

    findings = judged({"btf", "ring_buffer", "kernel_reads", "uprobe_multi"});
    CHECK(overall(findings) == Verdict::warn);
    CHECK(verdict_of(findings, "uprobe_session") == Verdict::warn);
    CHECK(verdict_of(findings, "uprobe_multi") == Verdict::ok);
    CHECK(verdict_of(findings, "uprobe_perf") == Verdict::ok);

    findings = judged({"btf", "ring_buffer", "kernel_reads", "uprobe_perf"});
    CHECK(overall(findings) == Verdict::warn);
    CHECK(verdict_of(findings, "uprobe_multi") == Verdict::warn);
    CHECK(verdict_of(findings, "uprobe_perf") == Verdict::ok);

    findings = judged({"btf", "ring_buffer", "kernel_reads"});
    CHECK(overall(findings) == Verdict::fail);
    CHECK(verdict_of(findings, "attach") == Verdict::fail);
    CHECK(verdict_of(judged({"ring_buffer", "kernel_reads", "uprobe_session"}), "btf") ==
          Verdict::fail);
    CHECK(verdict_of(judged({"btf", "kernel_reads", "uprobe_session"}), "ring_buffer") ==
          Verdict::fail);
    CHECK(verdict_of(judged({"btf", "ring_buffer", "uprobe_session"}), "kernel_reads") ==
          Verdict::fail);
}

TEST_CASE("a way to attach that the configuration names must work") {
    config::Config config;
    probes::CudaConfig cuda;
    cuda.attach = ebpf::Attach::session;
    config.set(cuda);
    CHECK(verdict_of(judged({"btf", "ring_buffer", "kernel_reads", "uprobe_multi"}, config),
                     "cuda.attach") == Verdict::fail);
    CHECK(verdict_of(judged({"btf", "ring_buffer", "kernel_reads", "uprobe_session"}, config),
                     "cuda.attach") == Verdict::ok);
    cuda.enabled = false;
    config.set(cuda);
    probes::FunctionsConfig functions;
    functions.attach = ebpf::Attach::perf;
    config.set(functions);
    const auto findings = judged({"btf", "ring_buffer", "kernel_reads", "uprobe_session"}, config);
    CHECK(verdict_of(findings, "functions.attach") == Verdict::fail);
    CHECK(std::ranges::find(findings, "cuda.attach", &Finding::check) == findings.end());
}

TEST_CASE("each missing capability has its price, and two of them are needed") {
    const auto without = [](Capability missing, bool by_perf = false) {
        return judge_capabilities([missing](Capability one) { return one != missing; }, by_perf);
    };
    CHECK(overall(without(-1)) == Verdict::ok);
    CHECK(verdict_of(without(CAP_BPF), "CAP_BPF") == Verdict::fail);
    CHECK(verdict_of(without(CAP_PERFMON), "CAP_PERFMON") == Verdict::fail);
    CHECK(verdict_of(without(CAP_SYS_PTRACE), "CAP_SYS_PTRACE") == Verdict::warn);
    CHECK(verdict_of(without(CAP_DAC_READ_SEARCH), "CAP_DAC_READ_SEARCH") == Verdict::warn);
    CHECK(verdict_of(without(CAP_CHECKPOINT_RESTORE), "CAP_CHECKPOINT_RESTORE") == Verdict::warn);
    CHECK(overall(without(CAP_SYS_ADMIN)) == Verdict::ok);
    CHECK(verdict_of(without(CAP_SYS_ADMIN, true), "CAP_SYS_ADMIN") == Verdict::fail);
    CHECK(verdict_of(without(-1, true), "CAP_SYS_ADMIN") == Verdict::ok);
}

TEST_CASE("lockdown matters where it hides the kernel's memory") {
    CHECK(judge_lockdown("[none] integrity confidentiality").verdict == Verdict::ok);
    CHECK(judge_lockdown("none [integrity] confidentiality").verdict == Verdict::ok);
    CHECK(judge_lockdown("none [integrity] confidentiality").found == "integrity");
    CHECK(judge_lockdown("none integrity [confidentiality]").verdict == Verdict::fail);
    CHECK(judge_lockdown(std::nullopt).verdict == Verdict::ok);
    CHECK(judge_lockdown("garbage]").found == "garbage]");
    CHECK(judge_lockdown("gar[bage").found == "gar[bage");
}

TEST_CASE("the kernel's settings matter without the capability only") {
    CHECK(judge_perf_paranoid("3", true, true).verdict == Verdict::ok);
    CHECK(judge_perf_paranoid("3", true, false).verdict == Verdict::warn);
    CHECK(judge_perf_paranoid("2", true, false).verdict == Verdict::ok);
    CHECK(judge_perf_paranoid("2", false, false).verdict == Verdict::warn);
    CHECK(judge_perf_paranoid("-1", false, false).verdict == Verdict::ok);
    CHECK(judge_perf_paranoid(std::nullopt, false, false).verdict == Verdict::warn);
    CHECK(judge_unprivileged_bpf("2", true).verdict == Verdict::ok);
    CHECK(judge_unprivileged_bpf("2", true).found.starts_with("2"));
}

TEST_CASE("limits matter where they are counted") {
    constexpr std::uint64_t mebi = 1U << 20U;
    CHECK(judge_memlock(8 * mebi, 16 * mebi, true).verdict == Verdict::fail);
    CHECK(judge_memlock(16 * mebi, 16 * mebi, true).verdict == Verdict::ok);
    CHECK(judge_memlock(RLIM_INFINITY, 16 * mebi, true).verdict == Verdict::ok);
    CHECK(judge_memlock(64 * 1024, 16 * mebi, false).verdict == Verdict::ok);
    CHECK(judge_memlock(64 * 1024, 16 * mebi, true).found == "64 KiB");
    CHECK(judge_files(1024, false).verdict == Verdict::ok);
    CHECK(judge_files(1024, true).verdict == Verdict::warn);
    CHECK(judge_files(256, false).verdict == Verdict::warn);
    CHECK(judge_files(RLIM_INFINITY, true).verdict == Verdict::ok);
}

TEST_CASE("the precedence of the thread that counts is told, and its lack is no problem") {
    CHECK(judge_priority(true).costs.empty());
    CHECK(judge_priority(true).verdict == Verdict::ok);
    CHECK(judge_priority(false).verdict == Verdict::ok);
    CHECK(judge_priority(false).costs.find("LimitNICE=-15") != std::string::npos);
}

TEST_CASE("libraries that cannot be opened are warned of, and none is no problem") {
    CHECK(overall(judge_libraries({})) == Verdict::ok);
    const auto findings = judge_libraries(
        {{"libcudart.so.12", {1, 2}, ""}, {"libcuda.so.1", {3}, "open: Permission denied"}});
    REQUIRE(findings.size() == 2);
    CHECK(findings[0].verdict == Verdict::ok);
    CHECK(findings[0].found == "libcudart.so.12 in 2 processes");
    CHECK(findings[1].verdict == Verdict::warn);
    CHECK(findings[1].found ==
          "libcuda.so.1 in one process cannot be opened (open: Permission denied)");
    CHECK_FALSE(findings[1].costs.empty());
    CHECK(judge_libraries({{"libcuda.so.1", {3}, "", "", {180, 20}}})[0].found.starts_with(
        "libcuda.so.1 in one process: 20 of its 180 traced functions begin with"));
    // Two files of one name are told apart.
    CHECK(judge_libraries({{"libcudart.so.12", {1}, "", "/opt/a/libcudart.so.12"}})[0].found ==
          "/opt/a/libcudart.so.12 in one process");
    const auto locked = judge_libraries(
        {{"libcudart.so.12", {1}, "", "", {}, "process 7 maps it and keeps its mappings locked"}});
    REQUIRE(locked.size() == 2);
    CHECK(locked[1].verdict == Verdict::warn);
    CHECK(locked[1].found == "libcudart.so.12: process 7 maps it and keeps its mappings locked");
}

TEST_CASE("GPUs are listed by index and model, and none costs the label") {
    discovery::Gpu gpu;
    gpu.index = 1;
    CHECK(judge_gpus({gpu}, "/proc/driver/nvidia").found == "1 of an unknown model");
    gpu.name = "NVIDIA H200";
    CHECK(judge_gpus({gpu, gpu}, "/x").found == "1 NVIDIA H200, 1 NVIDIA H200");
    CHECK(judge_gpus({}, "/elsewhere").verdict == Verdict::warn);
    CHECK(judge_gpus({}, "/elsewhere").found.find("/elsewhere") != std::string::npos);
}

TEST_CASE("the worst finding decides, and the exit code says which") {
    const Finding good{"a", Verdict::ok, "works", ""};
    const Finding poor{"b", Verdict::warn, "missing", "something"};
    const Finding bad{"c", Verdict::fail, "broken", "everything"};
    CHECK(exit_code(overall(std::vector<Finding>{})) == 0);
    CHECK(exit_code(overall(std::vector{good})) == 0);
    CHECK(exit_code(overall(std::vector{poor, good})) == 1);
    CHECK(exit_code(overall(std::vector{good, bad, poor})) == 2);
}

TEST_CASE("the text has a line for each, whatever is in them") {
    const std::vector<Finding> findings = {
        {"btf", Verdict::ok, "works", ""},
        {"long_check", Verdict::warn, "a\x1b[2Jb\nc", "cost"},
    };
    CHECK(to_text(findings) ==
          "ok    btf         works\n"
          "warn  long_check  a\xEF\xBF\xBD[2Jb c: cost\n"
          "\n"
          "The exporter runs; 1 of 2 checks found something missing.\n");
    CHECK(to_text(std::vector{findings[0]}).ends_with("\nEverything works.\n"));
    CHECK(to_text(std::vector<Finding>{{"x", Verdict::fail, "y", "z"}})
              .ends_with("\nThe exporter cannot work like this: 1 of 1 checks failed.\n"));
    CHECK(to_text(std::vector<Finding>{{"x", Verdict::warn, "y", "z", "mount\nit"},
                                       {"longer", Verdict::ok, "y", "", "nothing"}})
              .ends_with("1 of 2 checks found something missing.\n"
                         "What to do:\n  x       mount it\n"));
}

TEST_CASE("the JSON says the same") {
    const std::vector<Finding> findings = {
        {"btf", Verdict::ok, "works", ""},
        {"library", Verdict::fail, "\xff\"\n", "cost", "open\nit"},
    };
    const auto parsed = nlohmann::json::parse(to_json(findings));
    CHECK(parsed["verdict"] == "fail");
    REQUIRE(parsed["checks"].size() == 2);
    CHECK(parsed["checks"][0]["check"] == "btf");
    CHECK(parsed["checks"][0]["verdict"] == "ok");
    CHECK(parsed["checks"][1]["found"] == "\xEF\xBF\xBD\" ");
    CHECK(parsed["checks"][1]["costs"] == "cost");
    CHECK(parsed["checks"][1]["remedy"] == "open it");
    CHECK_FALSE(parsed["checks"][0].contains("remedy"));
}

TEST_CASE(
    "what the kernel lacks for each host probe is named, with its price where the probe is on") {
    const auto config = [](bool enabled) {
        const std::string on = enabled ? "true" : "false";
        return *config::parse("host: {cgroup_path: /cgroups, time: {enabled: " + on +
                                  "}, tasks: {enabled: " + on + "}, pressure: {enabled: " + on +
                                  "}, life: {enabled: " + on + "}, memory: {enabled: " + on +
                                  "}, net: {enabled: " + on + "}, block: {enabled: " + on +
                                  "}, irq: {enabled: " + on + "}, kvm: {enabled: " + on +
                                  "}}\ntargets: {comms: [qemu]}",
                              "c", probes::setting_blocks());
    };
    // Of a machine that has all but these.
    const auto judged_without = [&](const std::set<std::string> &missing, bool enabled = true) {
        const auto has = [missing](const std::string &one) { return !missing.contains(one); };
        return judge_probes(
            {.has_member = [has](const auto &type,
                                 const auto &member) { return has(type + "." + member); },
             .has_tracepoint = has,
             .has_file = has},
            config(enabled));
    };
    const std::vector<Finding> all = judged_without({});
    for (const probes::ProbeKind *const kind : probes::all_probes()) {
        if (!kind->kernel_needs.empty()) {
            CHECK(verdict_of(all, std::string(kind->name)) == Verdict::ok);
        }
    }
    const struct {
        std::set<std::string> missing;
        std::string probe, found, costs;
    } cases[] = {
        {{"sched_info.run_delay"}, "host_time", "CONFIG_SCHEDSTATS", "unsupported"},
        {{"cfs_rq.rq"}, "host_time", "CONFIG_FAIR_GROUP_SCHED", "unsupported"},
        {{"cfs_bandwidth.throttled_time"}, "host_time", "CONFIG_CFS_BANDWIDTH", "throttled"},
        {{"sched_info.run_delay"}, "host_tasks", "CONFIG_TASK_DELAY_ACCT", "runqueue_wait"},
        {{"task_io_accounting.read_bytes"}, "host_tasks", "CONFIG_TASK_IO_ACCOUNTING", "io_bytes"},
        {{"signal_generate"}, "host_life", "signal_generate", "fails"},
        {{"mm_vmscan_direct_reclaim_begin"}, "host_memory", "direct_reclaim", "`direct`"},
        {{"mm_vmscan_memcg_reclaim_begin"}, "host_memory", "CONFIG_MEMCG", "`memcg`"},
        {{"mm_compaction_begin"}, "host_memory", "CONFIG_COMPACTION", "`compaction`"},
        {{"block_rq_issue"}, "host_block", "CONFIG_BLOCK", "fails"},
        {{"block_rq_complete"}, "host_block", "CONFIG_BLOCK", "fails"},
        {{"irq_handler_entry"}, "host_irq", "irq_handler_entry", "fails"},
        {{"softirq_exit"}, "host_irq", "softirq_entry", "fails"},
        {{"kvm:kvm_exit"}, "host_kvm", "module kvm is not loaded", "fails"},
        {{"inet_sock_set_state"}, "host_net", "inet_sock_set_state", "fails"},
        {{"udp_fail_queue_rcv_skb"}, "host_net", "udp_fail_queue_rcv_skb", "udp_receive_drops"},
        {{"sock_cgroup_data.cgroup"}, "host_net", "CONFIG_CGROUPS", "udp_receive_drops"},
        {{"/proc/pressure/cpu"}, "host_pressure", "CONFIG_PSI", "pressure_seconds"},
        {{"cfs_bandwidth.throttled_time"}, "host_pressure", "CFS_BANDWIDTH", "throttled_seconds"},
        {{"/cgroups/cgroup.controllers", "/cgroups/unified/cgroup.controllers"},
         "host_pressure",
         "cgroups of version 2",
         "pressure_seconds"},
        {{"/cgroups/memory.numa_stat", "/cgroups/unified/memory.numa_stat",
          "/cgroups/memory/memory.numa_stat"},
         "host_pressure",
         "CONFIG_NUMA",
         "numa_bytes"},
    };
    for (const auto &one : cases) {
        CAPTURE(one.probe, one.found);
        const auto findings = judged_without(one.missing);
        CHECK(verdict_of(findings, one.probe) == Verdict::warn);
        const auto finding = std::ranges::find(findings, one.probe, &Finding::check);
        CHECK(finding->found.find(one.found) != std::string::npos);
        CHECK(finding->costs.find(one.costs) != std::string::npos);
        const auto off = judged_without(one.missing, false);
        CHECK(verdict_of(off, one.probe) == Verdict::ok);
        CHECK(std::ranges::find(off, one.probe, &Finding::check)->found.find(one.found) !=
              std::string::npos);
    }
    // One of several files is enough.
    CHECK(verdict_of(judged_without({"/cgroups/cgroup.controllers", "/cgroups/memory.numa_stat"}),
                     "host_pressure") == Verdict::ok);
    const auto has_all = [](const auto &...) { return true; };
    const auto nameless =
        judge_probes({.has_member = has_all, .has_tracepoint = has_all, .has_file = has_all},
                     *config::parse("host: {kvm: {enabled: true}}", "c", probes::setting_blocks()));
    CHECK(verdict_of(nameless, "host_kvm") == Verdict::warn);
    CHECK(std::ranges::find(nameless, "host_kvm", &Finding::check)->costs == "nothing is counted");
    // Two things with one price.
    const auto both = judged_without({"sched_info.run_delay", "cfs_rq.rq"});
    const auto time = std::ranges::find(both, "host_time", &Finding::check);
    CHECK(time->costs == "the probe is unsupported");
    CHECK(time->found.find("CONFIG_SCHEDSTATS") < time->found.find("CONFIG_FAIR_GROUP_SCHED"));
}
