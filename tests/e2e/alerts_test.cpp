// The rules as an operator meets them: a real Prometheus that scrapes the real exporter, with the
// rules of dashboards/rules, and a real Alertmanager with the configuration of docker/alertmanager.
// What is different is how long everything takes.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/e2e/alertmanager.h"
#include "tests/e2e/prometheus.h"
#include "tests/e2e/webhook.h"
#include "tests/harness/calls_truth.h"
#include "tests/harness/exporter.h"
#include "tests/harness/machine/cgroup.h"

using namespace harness;

namespace {

const std::string source_dir = GPUSNOOP_SOURCE_DIR;

const Process::Environment no_memory_limit = {{"STANDIN_MEMORY_LIMIT", "1000000000000"}};

Process workload(const std::string &name, const std::string &leak) {
    return Process(
        {standin("workload"), "--rate", "100", "--seconds", "600", "--leak", leak, "--name", name},
        no_memory_limit);
}

// The probes of CUDA, of one function and of calls that hang.
std::string config() {
    const std::string groups = only_groups("auto");
    return groups.substr(groups.find("functions:")) + R"(
    sleepers:
      libraries: ["libcalls.so*"]
      slow_threshold: 50ms
      functions: [{symbol: calls_sleep, errors: nonzero}]
in_flight: {min_age: 1s}
)";
}

// Each alert's page is where it says, in this repository.
void check_annotations(const e2e::Notified &alert) {
    const std::string url = alert.annotations.at("runbook_url");
    const std::string page = url.substr(url.find("/docs/"));
    INFO(url);
    CHECK(std::filesystem::exists(source_dir + page));
    CHECK_FALSE(alert.annotations.at("summary").empty());
    CHECK(alert.annotations.at("description").find(alert.labels.at("comm")) != std::string::npos);
    CHECK(alert.annotations.at("description").find("error") == std::string::npos);
}

void check_rules_run(const e2e::Prometheus &prometheus) {
    const auto answer = nlohmann::json::parse(e2e::get(prometheus.port(), "/api/v1/rules"));
    std::size_t rules = 0;
    for (const auto &group : answer["data"]["groups"]) {
        for (const auto &rule : group["rules"]) {
            INFO(rule.dump());
            CHECK(rule["health"] == "ok");
            rules++;
        }
    }
    CHECK(rules > 60);
}

}  // namespace

TEST_CASE(
    "a leak, idle memory, refused memory, slow calls, a call that hangs and a dead exporter become "
    "messages, and their end too",
    "[e2e][long][beside]") {
    require_bpf();
    e2e::require_prometheus();
    const TemporaryDirectory rules;
    e2e::render_rules(rules.path());
    Exporter exporter(config());
    const Process holder({standin("workload"), "--iterations", "0", "--hold", "--name", "holder"});
    const Process calls_holder(
        {standin("calls"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    exporter.wait_until_attached_to(standin("libcalls.so.1"));

    const e2e::Webhook webhook;
    const auto wait_for = [&](const std::string &status, const Labels &labels) {
        eventually(
            "an alert to be " + status + ": " + labels.at("alertname"),
            [&] { return !webhook.notified(status, labels).empty(); }, 2 * patience);
        return webhook.notified(status, labels).front();
    };
    const e2e::Alertmanager alertmanager(webhook.port());
    const e2e::Prometheus prometheus(
        exporter.port(), {"500ms", (rules / "gpusnoop_*.yaml").string(), alertmanager.port()});
    prometheus.wait_for_scrapes(2);

    if (mounted(false).empty() && mounted(true).empty()) {
        missing("a mounted hierarchy of cgroups");
    }
    const Process steady = workload("steady", "0");
    auto leaky = std::make_unique<Process>(workload("leaky", "2097152"));
    const std::string leaky_pid = std::to_string(leaky->pid());
    // A notebook in a job, whose user went home.
    const bool is_v1 = !mounted(false).empty();
    const Cgroup of_job(mounted(!is_v1),
                        is_v1 ? "slurm/uid_1000/job_77/step_0/task_0"
                              : "system.slice/slurmstepd.scope/job_77/step_0/user/task_0");
    std::vector<std::string> in_job = of_job.enter();
    in_job.insert(in_job.end(), {standin("workload"), "--threads", "1", "--iterations", "1",
                                 "--leak", "3221225472", "--hold", "--name", "notebook"});
    auto notebook = std::make_unique<Process>(in_job, no_memory_limit);
    const Process sleeping({standin("calls"), "--scenario", "sleep", "--hold", "--name", "sleepy"});

    const Labels slow = {{"alertname", "GpusnoopSlowCalls"}, {"function", "calls_sleep"}};
    const e2e::Notified slow_alert = wait_for("firing", slow);
    CHECK(slow_alert.receiver == "owners");
    CHECK(slow_alert.labels.at("comm") == "sleepy");
    CHECK(slow_alert.labels.at("severity") == "warning");
    CHECK(slow_alert.labels.at("library") == "libcalls.so.1");
    check_annotations(slow_alert);
    // It sleeps no more, but still runs.
    (void)wait_for("resolved", slow);

    const Labels leak = {{"alertname", "GpusnoopDeviceMemoryLeak"}, {"pid", leaky_pid}};
    const e2e::Notified leak_alert = wait_for("firing", leak);
    CHECK(leak_alert.receiver == "owners");
    CHECK(leak_alert.labels.at("comm") == "leaky");
    check_annotations(leak_alert);
    CHECK(webhook.notified("resolved", leak).empty());
    check_rules_run(prometheus);

    const Labels idle = {{"alertname", "GpusnoopGpuMemoryIdle"}};
    const e2e::Notified idle_alert = wait_for("firing", idle);
    CHECK(idle_alert.receiver == "owners");
    CHECK(idle_alert.labels.at("comm") == "notebook");
    CHECK(idle_alert.labels.at("slurm_job_id") == "77");
    check_annotations(idle_alert);
    CHECK(idle_alert.annotations.at("description").find("holds 3GiB of GPU") != std::string::npos);
    notebook.reset();
    (void)wait_for("resolved", idle);

    // Refused memory, and ended: with who held it.
    auto victim = std::make_unique<Process>(
        std::vector<std::string>{standin("steps"), "name", "victim", "allocate", "1", "250000000",
                                 "info", "wait", "refuse", "200000000", "wait"},
        Process::Environment{{"STANDIN_MEMORY_LIMIT", "300000000"}});
    victim->wait_for_output("waiting 1");
    const auto scraped = [&](const std::string &family) {
        eventually("Prometheus to have " + family,
                   [&] { return !prometheus.query(family + "{comm=\"victim\"}").empty(); });
    };
    scraped("gpusnoop_process_info");
    victim->signal(SIGUSR1);
    scraped("gpusnoop_cuda_out_of_memory_total");
    victim.reset();
    const Labels out_of_memory = {{"alertname", "GpusnoopCudaOutOfMemory"}, {"comm", "victim"}};
    const e2e::Notified refused_alert = wait_for("firing", out_of_memory);
    CHECK(refused_alert.receiver == "owners");
    CHECK(refused_alert.labels.at("verdict") == "own_use");
    check_annotations(refused_alert);
    CHECK(refused_alert.annotations.at("description").find("The program itself held most") !=
          std::string::npos);
    (void)wait_for("resolved", out_of_memory);

    const Process hanging({standin("hangs"), "--threads", "1", "--name", "stuck"});
    hanging.wait_for_output("hanging");
    const Labels hang = {{"alertname", "GpusnoopProcessHangs"},
                         {"pid", std::to_string(hanging.pid())}};
    const e2e::Notified hang_alert = wait_for("firing", hang);
    CHECK(hang_alert.receiver == "owners");
    CHECK(hang_alert.labels.at("comm") == "stuck");
    CHECK(hang_alert.labels.at("function") == "cudaMalloc");
    CHECK(hang_alert.labels.at("library") == "libcudart");
    check_annotations(hang_alert);
    hanging.signal(SIGUSR1);
    (void)wait_for("resolved", hang);

    leaky.reset();
    const Process fixed = workload("leaky", "0");
    (void)wait_for("resolved", leak);

    exporter.process().signal(SIGTERM);
    const Labels down = {{"alertname", "GpusnoopExporterDown"}};
    CHECK(wait_for("firing", down).receiver == "tickets");

    // There was one leak, of one process.
    INFO(webhook.text());
    CHECK(webhook.notified("firing", {{"alertname", "GpusnoopDeviceMemoryLeak"}}).size() ==
          webhook.notified("firing", leak).size());
    CHECK(webhook.notified("firing", {{"comm", "steady"}}).empty());
}
