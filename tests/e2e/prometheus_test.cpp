// A real Prometheus on the exporter: what a user's queries answer, against what the library
// counted.
#include <signal.h>
#include <yaml-cpp/yaml.h>
#include <zlib.h>

#include <array>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "exporter/metrics/page.h"
#include "exporter/metrics/reference.h"
#include "exporter/probes/cuda/launches/cuda_kernel_name.h"
#include "exporter/symbols/names/cuda_errors.h"
#include "tests/e2e/prometheus.h"
#include "tests/harness/counting.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;
using Catch::Approx;

namespace {

const std::string prometheus_comm = "queried";

truth::Copies copied(const truth::TruthSnapshot &truth, std::size_t kind) {
    const auto of = static_cast<truth::CopyKind>(kind);
    const truth::Copies sync = truth.of(of, truth::CopyMode::sync);
    const truth::Copies async = truth.of(of, truth::CopyMode::async);
    return {sync.calls + async.calls, sync.bytes + async.bytes};
}

std::map<std::string, double> launches_by_kernel(const truth::TruthSnapshot &truth) {
    std::map<std::string, double> launches;
    for (const auto &[launch, count] : truth.launch_table) {
        launches[gpusnoop::symbols::kernel_name(launch.kernel)] += number(count);
    }
    return launches;
}

// A workload that has made all its calls and still runs.
Process finished_workload(const TemporaryDirectory &directory, const std::string &seed,
                          const std::string &iterations) {
    Process workload(
        {standin("workload"), "--threads", "2", "--iterations", iterations, "--failures", "--leak",
         "1000", "--seed", seed, "--name", prometheus_comm, "--hold"},
        {{"STANDIN_TRUTH_DIR", (directory / seed).string()}});
    std::filesystem::create_directory(directory / seed);
    workload.wait_for_output("holding");
    return workload;
}

std::string gunzip(const std::string &compressed) {
    z_stream stream{};
    REQUIRE(inflateInit2(&stream, 16 + MAX_WBITS) == Z_OK);
    stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(compressed.data()));
    stream.avail_in = static_cast<uInt>(compressed.size());
    std::string text;
    std::array<char, 65536> part;
    int result = Z_OK;
    while (result == Z_OK) {
        stream.next_out = reinterpret_cast<Bytef *>(part.data());
        stream.avail_out = part.size();
        result = inflate(&stream, Z_NO_FLUSH);
        text.append(part.data(), part.size() - stream.avail_out);
    }
    inflateEnd(&stream);
    CHECK(result == Z_STREAM_END);
    return text;
}

// The totals are those of both workloads; the rates cover only the second, because the counters
// begin with what the first had done. rate() and increase() extrapolate, but all counters by the
// same factor, so the ratios are exact.
void check_copies(const e2e::Prometheus &prometheus, const truth::TruthSnapshot &all,
                  const truth::TruthSnapshot &second) {
    constexpr std::array kinds = {"h2h", "h2d", "d2h", "d2d"};
    const std::string of = "{comm=\"" + prometheus_comm + "\"}";
    const std::string sync = "{comm=\"" + prometheus_comm + "\",mode=\"sync\"}";
    for (std::size_t kind = 0; kind < kinds.size(); kind++) {
        INFO(kinds[kind]);
        const Labels labels = {{"direction", kinds[kind]}};
        CHECK(prometheus.value("sum by (direction) (gpusnoop_cuda_memcpy_bytes_total" + of + ")",
                               labels) == number(copied(all, kind).bytes));
        CHECK(prometheus.value("sum by (direction) (gpusnoop_cuda_memcpy_total" + of + ")",
                               labels) == number(copied(all, kind).calls));
        const double mean = prometheus.value(
            "sum by (direction) (increase(gpusnoop_cuda_memcpy_bytes_total" + of +
                "[10m])) / sum by (direction) (increase(gpusnoop_cuda_memcpy_total" + of +
                "[10m]))",
            labels);
        const truth::Copies copies = copied(second, kind);
        CHECK(mean == Approx(number(copies.bytes) / number(copies.calls)).epsilon(1e-9));

        const double seconds = prometheus.value(
            "sum by (direction) (gpusnoop_cuda_memcpy_seconds_total" + sync +
                " - min_over_time(gpusnoop_cuda_memcpy_seconds_total" + sync + "[10m]))",
            labels);
        const double bandwidth = prometheus.value(
            "sum by (direction) (rate(gpusnoop_cuda_memcpy_bytes_total" + sync +
                "[10m])) / sum by (direction) (rate(gpusnoop_cuda_memcpy_seconds_total" + sync +
                "[10m]))",
            labels);
        CHECK(seconds > 0);
        const truth::Copies synchronous =
            second.of(static_cast<truth::CopyKind>(kind), truth::CopyMode::sync);
        CHECK(bandwidth == Approx(number(synchronous.bytes) / seconds).epsilon(1e-6));
    }
    CHECK(prometheus.query("gpusnoop_cuda_memcpy_total{direction=\"unknown\"}").empty());
}

void check_launches(const e2e::Prometheus &prometheus, const truth::TruthSnapshot &all,
                    const truth::TruthSnapshot &second) {
    const std::string launches =
        "gpusnoop_cuda_kernel_launches_total{comm=\"" + prometheus_comm + "\"}";
    const auto shares = launches_by_kernel(second);
    REQUIRE(shares.size() > 3);
    CHECK(prometheus.value("sum(" + launches + ")") == number(all.launches));
    const std::string rate = "rate(" + launches + "[10m])";
    // Extrapolated to where the window ends, by less than the distance of two scrapes.
    const double launched = prometheus.value("sum(" + rate + ")") * 600;
    CHECK(launched >= number(second.launches) * (1 - 1e-9));
    CHECK(launched < number(second.launches) * 2);
    for (const auto &[kernel, count] : shares) {
        INFO(kernel);
        CHECK(prometheus.value("sum by (kernel) (" + rate + ") / on() group_left sum(" + rate + ")",
                               {{"kernel", kernel}}) ==
              Approx(count / number(second.launches)).epsilon(1e-9));
    }
    CHECK(prometheus.query("sum by (kernel) (" + launches + ")").size() ==
          launches_by_kernel(all).size());
    for (const auto *quantile : {"0.5", "0.99"}) {
        const double duration = prometheus.value(
            "histogram_quantile(" + std::string(quantile) +
            ", sum by (le) (rate(gpusnoop_cuda_kernel_launch_duration_seconds_bucket[10m])))");
        CHECK(std::isfinite(duration));
        CHECK(duration > 0);
    }
}

void check_errors(const e2e::Prometheus &prometheus, const truth::TruthSnapshot &all) {
    const std::string query = "sum by (function, error) (gpusnoop_cuda_api_errors_total{comm=\"" +
                              prometheus_comm + "\"})";
    std::map<std::pair<std::string, std::string>, double> expected;
    for (const auto *function :
         {"cudaMalloc", "cudaFree", "cudaMemcpy", "cudaLaunchKernel", "cudaSetDevice"}) {
        for (const auto &[result, count] : all.results) {
            if (result.first == function && result.second != 0) {
                expected[{function,
                          std::string(gpusnoop::probes::cuda_error_name(result.second))}] +=
                    number(count);
            }
        }
    }
    REQUIRE(expected.size() >= 4);
    for (const auto &[error, count] : expected) {
        CHECK(prometheus.value(query, {{"function", error.first}, {"error", error.second}}) ==
              count);
    }
    CHECK(prometheus.query(query).size() == expected.size());
}

}  // namespace

TEST_CASE("Prometheus scrapes without complaint, and users' queries give the right numbers",
          "[e2e][core]") {
    require_bpf();
    e2e::require_prometheus();
    const Exporter exporter;
    const Process holder({standin("workload"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    const TemporaryDirectory directory;
    // Much more than the second, or else a counter's window could be cut where it would be zero.
    Process first = finished_workload(directory, "1", "2000");
    const auto first_truth = truth::sum(truth::read_truth(directory / "1"));
    (void)exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", prometheus_comm}},
                            number(first_truth.launches));
    const e2e::Prometheus prometheus(exporter.port());
    prometheus.wait_for_scrapes(2);

    const Process second = finished_workload(directory, "2", "200");
    const auto second_truth = truth::sum(truth::read_truth(directory / "2"));
    const auto all = truth::sum({first_truth, second_truth});
    const Page page = exporter.wait_for("gpusnoop_cuda_kernel_launches_total",
                                        {{"comm", prometheus_comm}}, number(all.launches));
    check_counters(page, all, prometheus_comm);
    prometheus.wait_for_scrapes(2);

    check_copies(prometheus, all, second_truth);
    check_launches(prometheus, all, second_truth);
    check_errors(prometheus, all);
    for (const auto &truth : {first_truth, second_truth}) {
        CHECK(prometheus.value("sum by (pid) (gpusnoop_cuda_memory_outstanding_bytes)",
                               {{"pid", std::to_string(truth.pid)}}) ==
              number(truth.of(truth::MemoryKind::device).outstanding_bytes));
    }

    // A process that has ended has no outstanding memory, and what it left is counted.
    first.signal(SIGTERM);
    CHECK(first.wait() == 0);
    prometheus.wait_for_scrapes(2);
    CHECK(prometheus
              .query("gpusnoop_cuda_memory_outstanding_bytes{pid=\"" + std::to_string(first.pid()) +
                     "\"}")
              .empty());
    CHECK(prometheus.value("sum(gpusnoop_cuda_memory_unfreed_at_exit_bytes_total{comm=\"" +
                           prometheus_comm + "\"})") ==
          number(first_truth.of(truth::MemoryKind::device).outstanding_bytes));

    CHECK(prometheus.value("min_over_time(up[10m])") == 1);
    CHECK(prometheus.value("scrape_samples_scraped") > 100);
    CHECK(prometheus.value("scrape_samples_scraped - scrape_samples_post_metric_relabeling") == 0);
    const YAML::Node targets =
        YAML::Load(e2e::get(prometheus.port(), "/api/v1/targets"))["data"]["activeTargets"];
    REQUIRE(targets.size() == 1);
    CHECK(targets[0]["health"].as<std::string>() == "up");
    CHECK(targets[0]["lastError"].as<std::string>().empty());
    // It logs duplicate and out-of-order samples, and timestamps that it does not like.
    INFO(prometheus.log());
    CHECK(prometheus.log().find("level=warn") == std::string::npos);
    CHECK(prometheus.log().find("level=error") == std::string::npos);
    const YAML::Node metadata = YAML::Load(e2e::get(prometheus.port(), "/api/v1/metadata"))["data"];
    // As OpenMetrics has it, a counter's family is named without "_total".
    CHECK(metadata["gpusnoop_cuda_memcpy_bytes"][0]["type"].as<std::string>() == "counter");
    CHECK(metadata["gpusnoop_cuda_memcpy_bytes"][0]["unit"].as<std::string>() == "bytes");
    CHECK(metadata["gpusnoop_cuda_memory_outstanding_bytes"][0]["type"].as<std::string>() ==
          "gauge");
    CHECK(metadata["gpusnoop_cuda_memcpy_duration_seconds"][0]["type"].as<std::string>() ==
          "histogram");
}

TEST_CASE("the page is right for promtool, with GET, with HEAD and compressed", "[e2e][core]") {
    require_bpf();
    const Exporter exporter;
    const TemporaryDirectory directory;
    const Process holder({standin("workload"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    const Process workload = finished_workload(directory, "1", "500");
    const auto truth = truth::sum(truth::read_truth(directory / "1"));
    (void)exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", prometheus_comm}},
                            number(truth.launches));

    const HttpAnswer plain = http(exporter.port(), "/metrics");
    CHECK(plain.status == 200);
    CHECK(plain.headers.find("Content-Type: text/plain; version=0.0.4") != std::string::npos);
    CHECK(plain.headers.find("Content-Length: " + std::to_string(plain.body.size())) !=
          std::string::npos);
    CHECK(plain.headers.find("Content-Encoding") == std::string::npos);
    check_counters(Page(plain.body), truth, prometheus_comm);

    const HttpAnswer head = http(exporter.port(), "/metrics", "HEAD");
    CHECK(head.status == 200);
    CHECK(head.body.empty());
    CHECK(head.headers.find("Content-Length: ") != std::string::npos);

    const HttpAnswer compressed =
        http(exporter.port(), "/metrics", "GET", "Accept-Encoding: gzip\r\n");
    CHECK(compressed.status == 200);
    CHECK(compressed.headers.find("Content-Encoding: gzip") != std::string::npos);
    CHECK(compressed.body.size() < plain.body.size() / 2);
    check_counters(Page(gunzip(compressed.body)), truth, prometheus_comm);

    e2e::require_prometheus();
    const Finished verdict = e2e::promtool(plain.body);
    CHECK(verdict.output.empty());
    CHECK(verdict.code == 0);
    CHECK(e2e::promtool("# TYPE a counter\na 1\na 2\n").code != 0);
}

TEST_CASE("promtool has no complaint about any family of list-metrics", "[e2e]") {
    e2e::require_prometheus();
    const auto every = gpusnoop::metrics::every_family();
    const auto page_of = [](const auto &families, const auto &own) {
        return gpusnoop::metrics::write_page(gpusnoop::metrics::Format::text, families, own);
    };
    const std::string text = page_of(every.snapshots(), every.own);
    INFO(text);
    const Page page(text);
    const Finished listed = run({exporter_binary(), "list-metrics"});
    REQUIRE(listed.code == 0);
    std::size_t families = 0;
    std::istringstream rows(listed.output);
    for (std::string row; std::getline(rows, row);) {
        if (!row.starts_with("| `")) {
            continue;
        }
        std::istringstream cells(row);
        std::string bar;
        std::string name;
        std::string type;
        cells >> bar >> name >> bar >> type;
        name = name.substr(1, name.size() - 2);
        INFO(row);
        CHECK(text.find("# HELP " + name + " ") != std::string::npos);
        CHECK(text.find("# TYPE " + name + " " + type + "\n") != std::string::npos);
        CHECK(page.has(type == "histogram" ? name + "_bucket" : name));
        families++;
    }
    CHECK(families > 80);
    const Finished verdict = e2e::promtool(text);
    CHECK(verdict.output.empty());
    CHECK(verdict.code == 0);
    // It does look at names and texts.
    gpusnoop::series::Family bad({.name = "gpusnoop_calls", .help = "", .labels = {}}, 1);
    (void)bad.slot(1, {});
    const Finished complaint =
        e2e::promtool(page_of(std::vector{bad.snapshot()}, decltype(every.own){}));
    CHECK(complaint.output.find("_total") != std::string::npos);
    CHECK(complaint.code != 0);
}

TEST_CASE("Prometheus reads OpenMetrics, and stores who was slow", "[e2e]") {
    require_bpf();
    e2e::require_prometheus();
    const Exporter exporter(
        "cuda: {enabled: false}\nfunctions:\n  groups:\n    sleepers:\n"
        "      libraries: [\"libcalls.so*\"]\n      slow_threshold: 50ms\n"
        "      functions: [calls_sleep]\n");
    const Process holder({standin("calls"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("libcalls.so.1"));
    const Process program({standin("calls"), "--scenario", "sleep", "--hold", "--name", "sleeper"});
    program.wait_for_output("holding");
    const std::string name = "gpusnoop_function_slow_calls_total";
    // All of them are counted when all have ended, and the list is as long.
    YAML::Node last;
    eventually("the slow calls to be counted: " + exporter.log(), [&] {
        const YAML::Node calls =
            YAML::Load(e2e::get(exporter.port(), "/api/v1/slow_calls?comm=sleeper"))["slow_calls"];
        last = calls.size() == 0 ? YAML::Node() : calls[0];  // the newest
        return calls.size() >= 8 && exporter.scrape().sum(name, {{"comm", "sleeper"}}) ==
                                        static_cast<double>(calls.size());
    });
    const auto page = [&](const std::string &accept) {
        return http(exporter.port(), "/metrics", "GET", accept);
    };
    const HttpAnswer openmetrics = page("Accept: application/openmetrics-text; version=1.0.0\r\n");
    CHECK(openmetrics.headers.find(
              "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n") !=
          std::string::npos);
    CHECK(openmetrics.headers.find("Vary: Accept-Encoding, Accept\r\n") != std::string::npos);
    CHECK(openmetrics.body.ends_with("\n# EOF\n"));
    const std::string wanted = " # {pid=\"" + std::to_string(program.pid()) +
                               "\",comm=\"sleeper\"} " +
                               last["duration_seconds"].as<std::string>() + " ";
    INFO(wanted << openmetrics.body);
    CHECK(openmetrics.body.find(wanted) != std::string::npos);
    const HttpAnswer text = page("");
    CHECK(text.headers.find("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n") !=
          std::string::npos);
    CHECK(text.body.find("# {") == std::string::npos);
    CHECK(text.body.find("# EOF") == std::string::npos);
    const Finished checked = e2e::promtool(text.body);
    CHECK(checked.output.empty());
    CHECK(checked.code == 0);
    // The same samples, whatever they are called by.
    CHECK(count(text.body, "\n") - count(text.body, "\n# ") ==
          count(openmetrics.body, "\n") - count(openmetrics.body, "\n# "));

    const e2e::Prometheus prometheus(exporter.port(),
                                     {.flags = {"--enable-feature=exemplar-storage"}});
    prometheus.wait_for_scrapes(1);
    CHECK(prometheus.value("up{job=\"gpusnoop\"}") == 1);
    CHECK(prometheus.value(name, {{"comm", "sleeper"}}) >= 8);
    // Beside the number of slow calls, and in the bucket of the call's duration.
    for (const std::string &of : {name, std::string("gpusnoop_function_duration_seconds_bucket")}) {
        CAPTURE(of);
        const YAML::Node stored = YAML::Load(e2e::get(
            prometheus.port(), "/api/v1/query_exemplars?query=" + of + "&start=0&end=9999999999"));
        REQUIRE(stored["data"].size() == 1);
        const YAML::Node labels = stored["data"][0]["seriesLabels"];
        CHECK(labels["function"].as<std::string>() == "calls_sleep");
        // One call was the last: it is one exemplar, however often it is scraped.
        REQUIRE(stored["data"][0]["exemplars"].size() == 1);
        const YAML::Node exemplar = stored["data"][0]["exemplars"][0];
        CHECK(exemplar["labels"]["pid"].as<int>() == program.pid());
        CHECK(exemplar["labels"]["comm"].as<std::string>() == "sleeper");
        const auto seconds = exemplar["value"].as<double>();
        CHECK(seconds == last["duration_seconds"].as<double>());
        CHECK((of == name || seconds <= labels["le"].as<double>()));
        CHECK(exemplar["timestamp"].as<double>() > 1.6e9);
    }
}
