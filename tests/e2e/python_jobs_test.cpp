// Five jobs of Python: a list that grows, a cache that grows on a second thread, an asyncio server,
// a call that hangs, and one that is refused memory which another holds. Wherever somebody looks,
// they are at the file, the function and the line that they say themselves.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/alertmanager.h"
#include "tests/e2e/prometheus.h"
#include "tests/e2e/webhook.h"
#include "tests/harness/exporter.h"
#include "tests/harness/gpu_node.h"
#include "tests/harness/machine/directory.h"
#include "tests/harness/page.h"
#include "tests/harness/process.h"
#include "tests/harness/python_programs.h"
#include "tests/harness/pythons.h"

using namespace harness;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr std::uint64_t jobs_mib = 1U << 20U;

std::string bytes_of_mib(std::uint64_t count) {
    return std::to_string(count * jobs_mib);
}

// Each of the interpreters in turn.
std::string jobs_python(std::size_t job) {
    const std::vector<std::string> all = python_commands();
    return all[job % all.size()];
}

// An exporter that traces in that mode, and a program that keeps the library in use.
struct JobsNode {
    explicit JobsNode(const std::string &mode)
        : exporter(attached_by(mode) +
                   "log: {level: debug}\nin_flight: {min_age: 1s}\n"
                   "discovery: {rescan_interval: 1s, " +
                   node.setting() + "}\n"),
          holder({standin("workload"), "--iterations", "0", "--hold", "--name", "holder"}) {
        exporter.wait_until_attached_to(standin(cudart_of_python));
    }
    [[nodiscard]] std::string page() const { return http(exporter.port(), "/").body; }
    // What the command says of this exporter.
    [[nodiscard]] std::string said_by(std::vector<std::string> command) const {
        command.insert(command.begin(), exporter_binary());
        command.push_back("--address=http://127.0.0.1:" + std::to_string(exporter.port()));
        const Finished finished = run(std::move(command));
        INFO(finished.output);
        CHECK(finished.code == 0);
        return finished.output;
    }

    GpuNode node{1};
    Exporter exporter;
    Process holder;
};

std::string label_of(const LeakingProgram &program) {
    return program.sites().begin()->first;
}

// The jobs that grow: they say where.
struct GrowingJobs {
    explicit GrowingJobs(const JobsNode &node) {
        std::size_t number = 0;
        for (const std::string way : {"list", "thread", "server"}) {
            const LeakingProgram &job = *all.emplace_back(std::make_unique<LeakingProgram>(
                jobs_python(number++), way,
                Process::Environment{{"STANDIN_MEMORY_LIMIT", "1000000000000"}},
                std::vector<std::string>{"forever"}));
            job.call(node.exporter);
            job.allocate();
            job.go_on("allocated again\n");
        }
    }
    void grow() const {
        for (const auto &job : all) {
            job->process().signal(SIGUSR1);
        }
    }
    std::vector<std::unique_ptr<LeakingProgram>> all;
};

struct HangingJob {
    HangingJob() : process(python_program(jobs_python(1), "hangs/hangs.py", "callback")) {
        process.wait_for_output("waiting");
        process.signal(SIGUSR1);
        process.wait_for_output("hanging");
    }
    [[nodiscard]] std::string site() const { return site_in(process.output()); }
    [[nodiscard]] std::string pid() const { return std::to_string(process.pid()); }

    Process process;
};

// One that holds memory, and one that asks for it in vain once it has made its first call.
struct CrowdedJobs {
    explicit CrowdedJobs(const JobsNode &node)
        : hog(jobs_python(0), "hog"),
          asker(jobs_python(1), "crowded",
                {{"STANDIN_MEMORY_LIMIT", bytes_of_mib(100)},
                 {"STANDIN_MEMORY_TOTAL", bytes_of_mib(1'000)},
                 {"STANDIN_MEMORY_FREE", bytes_of_mib(60)}}) {
        hog.call(node.exporter);
        hog.allocate();
        hog.go_on("allocated again\n");  // 600 MiB
        asker.call(node.exporter);
    }
    LeakingProgram hog, asker;
};

nlohmann::json refusal_of(const JobsNode &node, const LeakingProgram &asker) {
    nlohmann::json events;
    eventually("the refusal", [&] {
        const HttpAnswer answer =
            http(node.exporter.port(), "/api/v1/out_of_memory?pid=" + std::to_string(asker.pid()));
        REQUIRE(answer.status == 200);
        events = nlohmann::json::parse(answer.body).at("out_of_memory");
        return !events.empty();
    });
    return events[0];
}

}  // namespace

TEST_CASE("five jobs of Python are shown at the lines that they say themselves",
          "[e2e][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const JobsNode node(mode);

    const CrowdedJobs crowded(node);
    crowded.asker.allocate();
    const nlohmann::json refusal = refusal_of(node, crowded.asker);
    CAPTURE(refusal.dump(1));
    CHECK(refusal.at("verdict") == "neighbor");
    CHECK(refusal.at("site") == label_of(crowded.asker));
    CHECK(refusal.at("others")[0].at("pid") == crowded.hog.pid());
    CHECK(sizes_on(node.exporter.scrape(), crowded.hog.pid()) ==
          SiteSizes{{label_of(crowded.hog), 600.0 * jobs_mib}});
    CHECK_THAT(node.said_by({"why", "--oom"}), ContainsSubstring("leaks.py:Job.crowded:"));

    const GrowingJobs growing(node);
    const HangingJob hanging;
    const Labels of_hang = {{"pid", hanging.pid()}, {"function", "cudaDeviceSynchronize"}};
    eventually("the line of the call that hangs", [&] {
        const auto samples =
            node.exporter.scrape().samples("gpusnoop_oldest_call_site_info", of_hang);
        if (samples.empty()) {
            return false;
        }
        CHECK(samples[0].labels.at("site") == hanging.site());
        return true;
    });
    for (const auto &job : growing.all) {
        const std::string label = label_of(*job);
        CAPTURE(label);
        eventually("its line to be on the page of metrics",
                   [&] { return sizes_on(node.exporter.scrape(), job->pid()) == job->sites(); });
        CHECK_THAT(node.page(), ContainsSubstring(label.substr(0, label.find(" < "))));
    }
    const std::string innermost = hanging.site().substr(0, hanging.site().find(" < "));
    CHECK_THAT(node.page(), ContainsSubstring("<code>" + innermost + "</code>"));
    const std::string traced = node.said_by({"trace", "--in-flight"});
    for (const std::string &place : words_after(hanging.process.output(), "at")) {
        CHECK_THAT(traced, ContainsSubstring("    " + place + " hangs.py\n"));
    }

    growing.grow();
    const std::string top = node.said_by({"top", "--once", "--rows=100", "--interval=1s"});
    CAPTURE(top);
    for (const auto &job : growing.all) {
        CHECK_THAT(top, ContainsSubstring("iB at " + label_of(*job) + "\n"));
    }
    CHECK_THAT(top,
               ContainsSubstring("    hangs in cudaDeviceSynchronize at " + hanging.site() + "\n"));
}

// In the mode of the first of GPUSNOOP_TEST_MODES.
TEST_CASE("messages of alerts say the lines of Python that leak, hang, or hold the memory",
          "[e2e][long][beside]") {
    require_bpf();
    e2e::require_prometheus();
    const std::string mode = attach_modes().front();
    CAPTURE(mode);
    const TemporaryDirectory rules;
    e2e::render_rules(rules.path());
    const JobsNode node(mode);
    const e2e::Webhook webhook;
    const e2e::Alertmanager alertmanager(webhook.port());
    const e2e::Prometheus prometheus(
        node.exporter.port(), {"500ms", (rules / "gpusnoop_*.yaml").string(), alertmanager.port()});
    prometheus.wait_for_scrapes(2);
    const auto message_of = [&](const std::string &alert, Labels labels) {
        labels["alertname"] = alert;
        eventually(
            "the alert " + alert, [&] { return !webhook.notified("firing", labels).empty(); },
            2 * patience);
        return webhook.notified("firing", labels).front().annotations.at("description");
    };
    const auto scraped = [&](const std::string &family, pid_t pid) {
        const std::string series = family + "{pid=\"" + std::to_string(pid) + "\"}";
        eventually("Prometheus to have " + series,
                   [&] { return !prometheus.query(series).empty(); });
    };
    {
        auto crowded = std::make_unique<CrowdedJobs>(node);
        scraped("gpusnoop_process_info", crowded->asker.pid());
        scraped("gpusnoop_cuda_memory_site_outstanding_bytes", crowded->hog.pid());
        crowded->asker.allocate();
        eventually("Prometheus to have the refusal", [&] {
            return !prometheus.query("gpusnoop_cuda_out_of_memory_total{verdict=\"neighbor\"}")
                        .empty();
        });
        crowded->asker.process().signal(SIGKILL);
        const std::string message =
            message_of("GpusnoopCudaOutOfMemory", {{"verdict", "neighbor"}});
        CHECK_THAT(message, ContainsSubstring("Other processes held most of the memory."));
        CHECK_THAT(message, ContainsSubstring("(pid " + std::to_string(crowded->hog.pid()) +
                                              ") holds 600MiB there now, 600MiB of its memory "
                                              "come from " +
                                              label_of(crowded->hog) + "."));
    }
    const GrowingJobs growing(node);
    const HangingJob hanging;
    growing.grow();
    for (const auto &job : growing.all) {
        const std::string message =
            message_of("GpusnoopDeviceMemoryLeak", {{"pid", std::to_string(job->pid())}});
        CHECK_THAT(message, ContainsSubstring("B come from " + label_of(*job) + "."));
    }
    CHECK_THAT(message_of("GpusnoopProcessHangs", {{"pid", hanging.pid()}}),
               ContainsSubstring("It was called at " + hanging.site() + "."));
}
