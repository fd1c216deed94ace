#include "exporter/metrics/self.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <sstream>
#include <string>

#include "exporter/ebpf/maps/counters.h"
#include "exporter/metrics/page.h"
#include "exporter/metrics/reference.h"
#include "exporter/probes/frame/budget.h"
#include "exporter/probes/frame/probe.h"
#include "exporter/probes/frame/registry.h"
#include "exporter/series/family.h"
#include "exporter/series/family_set.h"

using namespace gpusnoop;

namespace {

probes::Health probe_with(probe_account account) {
    probes::Health probe;
    probe.name = "cuda";
    probe.state = probes::ProbeState::up;
    probe.account = account;
    return probe;
}

bool has_line(const std::string &text, const std::string &line) {
    return text.find("\n" + line + "\n") != std::string::npos;
}

}  // namespace

TEST_CASE("what was entered and is in no other column is in flight") {
    probe_account account{};
    account.entered = 100;
    account.events = 80;
    account.stale = 5;
    account.lost[LOST_ring_full] = 3;
    account.lost[LOST_fault] = 2;
    CHECK(ebpf::in_flight(account) == 10);
    account.events = 95;  // read a moment later than entered
    CHECK(ebpf::in_flight(account) == 0);
}

TEST_CASE("what is lost of slow calls is on the page") {
    auto probe = probe_with({});
    const std::string without = metrics::to_text(metrics::probe_families({probe}));
    CHECK(without.find("gpusnoop_slow_call") == std::string::npos);
    probe.lost_details = {.slow = {{"busy", 2}, {"ring_full", 3}}, .slow_not_logged = 4};
    const std::string text = "\n" + metrics::to_text(metrics::probe_families({probe}));
    CHECK(has_line(text, "gpusnoop_slow_call_details_lost_total{reason=\"busy\"} 2"));
    CHECK(has_line(text, "gpusnoop_slow_call_details_lost_total{reason=\"ring_full\"} 3"));
    CHECK(has_line(text, "gpusnoop_slow_calls_not_logged_total 4"));
}

TEST_CASE("what sinks have sent and lost is on the page") {
    CHECK(metrics::to_text(metrics::sink_families({})).find("gpusnoop_sink") == std::string::npos);
    const std::string text =
        "\n" + metrics::to_text(metrics::sink_families(
                   {{"file:/a\"", 5, {{"queue_full", 6}}}, {"b", 0, {{"queue_full", 0}}}}));
    CHECK(has_line(text, R"(gpusnoop_sink_events_total{sink="file:/a\""} 5)"));
    CHECK(has_line(text,
                   R"(gpusnoop_sink_events_lost_total{sink="file:/a\"",reason="queue_full"} 6)"));
    CHECK(has_line(text, "gpusnoop_sink_events_total{sink=\"b\"} 0"));
}

TEST_CASE("the account of a probe is on the page, reason by reason") {
    probe_account account{};
    account.entered = 7;
    account.events = 4;
    account.lost[LOST_throttled] = 3;
    account.deaths[DEATH_SIGTRAP] = 2;
    auto probe = probe_with(account);
    probe.can_count = {.entries = true,
                       .in_flight = true,
                       .deaths = true,
                       .lost = probes::lost_for({LOST_ring_full, LOST_throttled})};
    probe.undecodable = 2;
    probe.runs.skipped = 5;
    probe.forgotten = 6;
    probe.attach_failures["elf"] = 1;
    const std::string text = "\n" + metrics::to_text(metrics::probe_families({probe}));
    CHECK(has_line(text, "gpusnoop_probe_up{probe=\"cuda\"} 1"));
    CHECK(has_line(text, "gpusnoop_probe_entries_total{probe=\"cuda\"} 7"));
    CHECK(
        has_line(text,
                 "gpusnoop_process_deaths_in_traced_calls_total{probe=\"cuda\",signal=\"SIGTRAP\"} "
                 "2"));
    CHECK(
        has_line(text,
                 "gpusnoop_process_deaths_in_traced_calls_total{probe=\"cuda\",signal=\"SIGILL\"} "
                 "0"));
    CHECK(has_line(text, "gpusnoop_probe_events_total{probe=\"cuda\"} 4"));
    CHECK(has_line(text, "gpusnoop_probe_in_flight_calls{probe=\"cuda\"} 0"));
    CHECK(
        has_line(text, "gpusnoop_probe_events_lost_total{probe=\"cuda\",reason=\"throttled\"} 3"));
    CHECK(
        has_line(text, "gpusnoop_probe_events_lost_total{probe=\"cuda\",reason=\"ring_full\"} 0"));
    CHECK(has_line(text,
                   "gpusnoop_probe_events_lost_total{probe=\"cuda\",reason=\"undecodable\"} 2"));
    CHECK(has_line(text, "gpusnoop_probe_events_lost_total{probe=\"cuda\",reason=\"skipped\"} 5"));
    CHECK(
        has_line(text, "gpusnoop_probe_events_lost_total{probe=\"cuda\",reason=\"forgotten\"} 6"));
    CHECK(has_line(text, "gpusnoop_probe_attach_failures_total{probe=\"cuda\",reason=\"elf\"} 1"));
    CHECK(text.find("probe_runs_total") == std::string::npos);  // the kernel does not count them
    // What it cannot have is not there; what it has against all expectation is.
    CHECK(text.find("reason=\"fault\"") == std::string::npos);
    CHECK(text.find("probe_stale_calls_total") == std::string::npos);
    CHECK(text.find("reason=\"slow\"") == std::string::npos);
    probe.account.lost[LOST_fault] = 1;
    probe.account.stale = 8;
    const std::string unexpected = "\n" + metrics::to_text(metrics::probe_families({probe}));
    CHECK(has_line(unexpected,
                   "gpusnoop_probe_events_lost_total{probe=\"cuda\",reason=\"fault\"} 1"));
    CHECK(has_line(unexpected, "gpusnoop_probe_stale_calls_total{probe=\"cuda\"} 8"));
    probe.runs.count = 9;
    probe.runs.nanoseconds = 2'000'000'000;
    const std::string counted = "\n" + metrics::to_text(metrics::probe_families({probe}));
    CHECK(has_line(counted, "gpusnoop_probe_runs_total{probe=\"cuda\"} 9"));
    CHECK(has_line(counted, "gpusnoop_probe_run_seconds_total{probe=\"cuda\"} 2"));
}

TEST_CASE("each probe is in one state, and only one that is up has counts of 0") {
    using probes::ProbeState;
    std::vector<probes::Health> all;
    for (const ProbeState state :
         {ProbeState::up, ProbeState::unsupported, ProbeState::failed, ProbeState::disabled}) {
        all.push_back(probe_with({}));
        all.back().can_count = {.entries = true, .attach_failures = probes::library_failures};
        all.back().name = "is_" + std::string(to_string(state));
        all.back().state = state;
    }
    const std::string text = "\n" + metrics::to_text(metrics::probe_families(all));
    for (const auto &probe : probes::probe_state_names) {
        const std::string name = "is_" + std::string(probe);
        for (const auto &state : probes::probe_state_names) {
            CHECK(has_line(text, "gpusnoop_probe_state{probe=\"" + name + "\",state=\"" +
                                     std::string(state) + "\"} 1") == (state == probe));
        }
        CHECK(has_line(text, "gpusnoop_probe_up{probe=\"" + name + "\"} " +
                                 (probe == "up" ? "1" : "0")) == (probe != "disabled"));
        // One that cannot run counts nothing.
        for (const std::string family :
             {"entries_total", "events_lost_total", "attach_failures_total"}) {
            CHECK((text.find("gpusnoop_probe_" + family + "{probe=\"" + name) !=
                   std::string::npos) == (probe == "up"));
        }
    }
}

TEST_CASE("the page says how the last reading of the configuration went, and when one went well") {
    const auto text = [](const metrics::LastReload &reload) {
        return "\n" + metrics::to_text(metrics::reload_families(reload));
    };
    const std::string good = text({.successful = true, .last_success = 1'700'000'000.5});
    CHECK(has_line(good, "gpusnoop_config_last_reload_successful 1"));
    CHECK(has_line(good, "gpusnoop_config_last_reload_success_timestamp_seconds 1700000000.5"));
    const std::string bad = text({.successful = false, .last_success = 1'700'000'000.5});
    CHECK(has_line(bad, "gpusnoop_config_last_reload_successful 0"));
    CHECK(has_line(bad, "gpusnoop_config_last_reload_success_timestamp_seconds 1700000000.5"));
}

TEST_CASE("only families with label sets, and those that were folded, are counted") {
    series::Family empty({.name = "a_total", .help = "A.", .labels = {{"comm"}}}, 10);
    series::Family one({.name = "b_total", .help = "B.", .labels = {{"comm"}}}, 10);
    (void)one.slot(1, {"x"});
    CHECK(metrics::to_text(metrics::series_families({empty.snapshot(), one.snapshot()},
                                                    {{"a_total", 0}, {"b_total", 0}})) ==
          "# HELP gpusnoop_series Current number of label sets in each metric family on the page.\n"
          "# TYPE gpusnoop_series gauge\n"
          "gpusnoop_series{metric=\"b_total\"} 1\n");
    const std::string folded = "\n" + metrics::to_text(metrics::series_families(
                                          {one.snapshot()}, {{"a_total", 0}, {"b_total", 3}}));
    CHECK(has_line(folded, "gpusnoop_series_folded_total{metric=\"b_total\"} 3"));
    CHECK(folded.find("a_total") == std::string::npos);
}

TEST_CASE("the reference says which histograms are off by default") {
    std::istringstream lines(metrics::metrics_reference());
    std::set<std::string> on;
    std::size_t histograms = 0;
    for (std::string line; std::getline(lines, line);) {
        const bool is_histogram = line.find("` | histogram | ") != std::string::npos;
        const bool is_off = line.find(" Off by default. |") != std::string::npos;
        CHECK((is_histogram || !is_off));
        histograms += is_histogram ? 1 : 0;
        if (is_histogram && !is_off) {
            on.insert(line.substr(3, line.find('`', 3) - 3));
        }
    }
    const auto names = probes::HistogramsConfig().names;
    CHECK(on == std::set<std::string>(names.begin(), names.end()));
    CHECK(histograms == probes::all_histograms().size());
}

TEST_CASE("the reference names every family once, with its labels") {
    const std::string text = metrics::metrics_reference();
    const std::string row =
        "| `gpusnoop_cuda_kernel_launches_total` | counter | `comm`, `script`, `container_id`, "
        "`slurm_job_id`, `kernel`, `grid`, `block`, `via`, `gpu` |";
    const std::size_t first = text.find(row);
    REQUIRE(first != std::string::npos);
    CHECK(text.find(row, first + 1) == std::string::npos);
    CHECK(text.find("gpusnoop_probe_run_seconds_total") != std::string::npos);
    CHECK(text.find("process_resident_memory_bytes") != std::string::npos);
}

TEST_CASE("no family has a label that Prometheus gives the target, so honor_labels is not needed") {
    const std::string text = metrics::metrics_reference();
    for (const std::string label : {"job", "instance", "cluster", "namespace", "pod", "container",
                                    "endpoint", "service", "node"}) {
        INFO(label);
        CHECK(text.find('`' + label + '`') == std::string::npos);
    }
}

TEST_CASE("every family of a probe says whose calls it counts") {
    const std::string identity = "`comm`, `script`, `container_id`, `slurm_job_id`";
    // What is of the node, of a cgroup, or of all processes that map a file.
    const std::set<std::string> of_no_program = {"gpu_info",
                                                 "gpu_numa_node",
                                                 "function_unobserved_seconds_total",
                                                 "nvswitch_sxid_total",
                                                 "slurm_job_gpu_info",
                                                 "cuda_memory_owner_peak_bytes",
                                                 "xid_lines_ignored_total",
                                                 "host_pressure_seconds_total",
                                                 "host_cpu_throttled_seconds_total",
                                                 "host_cpu_periods_total",
                                                 "host_cpu_throttled_periods_total",
                                                 "host_cpu_idle_seconds_total",
                                                 "host_memory_numa_bytes",
                                                 "host_udp_receive_drops_total"};
    std::set<std::string> of_a_program;
    for (const probes::ProbeKind *const kind : probes::all_probes()) {
        for (series::FamilySet &set : kind->declare()) {
            for (const series::Family &family : set.families()) {
                of_a_program.insert("| `" + family.description().name + "` |");
            }
        }
    }
    CHECK(of_a_program.size() > 80);
    for (const std::string &name : of_no_program) {
        INFO(name);
        CHECK(of_a_program.erase("| `gpusnoop_" + name + "` |") == 1);
    }
    std::istringstream lines(metrics::metrics_reference());
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with("| `")) {
            continue;
        }
        const bool is_of_program = of_a_program.contains(line.substr(0, line.find(" |") + 2));
        INFO(line);
        CHECK((line.find(identity) != std::string::npos) == is_of_program);
        CHECK((line.find("`comm`") != std::string::npos) == is_of_program);
    }
}

TEST_CASE("in the reference, a family has the names that it has elsewhere") {
    const std::string text = metrics::metrics_reference();
    const auto ends_with = [&](const std::string &family, const std::string &end) {
        const std::size_t row = text.find("| `gpusnoop_" + family + "` |");
        REQUIRE(row != std::string::npos);
        const std::string line = text.substr(row, text.find('\n', row) - row);
        INFO(line);
        CHECK(line.ends_with(" | " + end + " |"));
    };
    ends_with("cuda_memory_allocated_bytes_total", "OBI `gpu.cuda.memory.allocations`");
    ends_with("cuda_memory_outstanding_bytes", "DCGM `DCGM_FI_DEV_FB_USED`");
    ends_with("cuda_graph_launches_total",
              "OBI `gpu.cuda.graph.launch.calls`; DCGM `DCGM_FI_DEV_GPU_UTIL, "
              "DCGM_FI_PROF_GR_ENGINE_ACTIVE`");
    ends_with("cuda_memory_frees_total", "");
    // As many rows as the table of names has: no name is for a family that is gone.
    std::istringstream lines(text);
    int rows = 0;
    for (std::string line; std::getline(lines, line);) {
        rows += line.starts_with("| `") && (line.find("OBI `") != std::string::npos ||
                                            line.find("DCGM `") != std::string::npos)
                    ? 1
                    : 0;
    }
    CHECK(rows == 11);
}
