// The lists of the API: what all have in common, and the one that says who has allocated what and
// where, of a program that leaks.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "exporter/probes/frame/registry.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;
using nlohmann::json;

namespace {

constexpr const char *allocations_path = "/api/v1/allocations";
const std::vector<std::string> leaks = {"leak_small", "leak_big", "leak_through_many_frames"};

// The page's entry for one process; null while there is none.
json entry_of(const Exporter &exporter, pid_t pid) {
    const HttpAnswer answer =
        http(exporter.port(), allocations_path + std::string("?pid=") + std::to_string(pid));
    REQUIRE(answer.status == 200);
    const json document = json::parse(answer.body);
    CHECK(document["truncated"] == false);
    REQUIRE(document["processes"].size() <= 1);
    return document["processes"].empty() ? json() : document["processes"][0];
}

bool is_in(const json &site, const std::string &function) {
    return std::ranges::any_of(site["frames"],
                               [&](const json &frame) { return frame["function"] == function; });
}

bool has_site_in(const json &process, const std::string &function) {
    return std::ranges::any_of(process["sites"],
                               [&](const json &site) { return is_in(site, function); });
}

std::uint64_t allocations_api_sum(const json &sites, const std::string &member) {
    std::uint64_t allocations_api_sum = 0;
    for (const json &site : sites) {
        allocations_api_sum += site[member].get<std::uint64_t>();
    }
    return allocations_api_sum;
}

struct FoldedLine {
    std::string stack;
    std::uint64_t bytes;
};

// As flamegraph.pl reads it.
std::vector<FoldedLine> read_folded(const std::string &text) {
    static const std::regex whole("([^ ;]+(?:;[^ ;]+)*) ([0-9]+)");
    std::vector<FoldedLine> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
        std::smatch parts;
        CAPTURE(line);
        REQUIRE(std::regex_match(line, parts, whole));
        lines.push_back({parts[1], std::stoull(parts[2])});
    }
    return lines;
}

// The exporter, and a program that has leaked from all of its places, with their names found.
struct Leaking {
    TemporaryDirectory directory;
    Exporter exporter;
    Process program{{standin("leaky"), "--bytes", "4096", "--times", "3", "--wait-for-file",
                     directory / "go", "--hold"},
                    {{"STANDIN_TRUTH_DIR", directory.path().string()}}};

    Leaking() {
        exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
        write_file(directory / "go", "");
        program.wait_for_output("holding");
        eventually("the names of the call sites", [&] {
            const json process = entry_of(exporter, program.pid());
            return !process.is_null() && std::ranges::all_of(leaks, [&](const auto &function) {
                return has_site_in(process, function);
            });
        });
    }
};

}  // namespace

TEST_CASE("the allocations page agrees with the metrics and with the truth", "[e2e][core]") {
    require_bpf();
    const Leaking leaking;
    const pid_t pid = leaking.program.pid();
    const std::string pid_label = std::to_string(pid);
    const auto truth = truth::sum(truth::read_truth(leaking.directory.path()));
    const truth::Memory &memory = truth.of(truth::MemoryKind::device);
    const Page page =
        leaking.exporter.wait_for("gpusnoop_cuda_memory_outstanding_bytes", {{"pid", pid_label}},
                                  static_cast<double>(memory.outstanding_bytes));
    check_outstanding(page, truth);
    const json process = entry_of(leaking.exporter, pid);
    CHECK(process["outstanding_bytes"] == memory.outstanding_bytes);
    CHECK(process["outstanding_allocations"] == memory.outstanding_allocations);
    CHECK(process["comm"] == "leaky");
    CHECK(process["pid"] == pid);
    CHECK(memory.outstanding_bytes > 0);
    CHECK(process["exe"].get<std::string>().ends_with("leaky"));
    CHECK(allocations_api_sum(process["sites"], "bytes") == process["outstanding_bytes"]);
    CHECK(allocations_api_sum(process["sites"], "allocations") ==
          process["outstanding_allocations"]);
    CHECK(process["left_out"] == 0);
    CHECK(std::ranges::is_sorted(process["sites"], [](const json &a, const json &b) {
        return a["bytes"].get<std::uint64_t>() > b["bytes"].get<std::uint64_t>();
    }));
    for (const json &site : process["sites"]) {
        CHECK(leaking.exporter.scrape().sum("gpusnoop_cuda_memory_site_outstanding_bytes",
                                            {{"pid", pid_label}, {"site", site["site"]}}) >=
              site["bytes"]);
        for (const json &frame : site["frames"]) {
            // Of a file or a function, and so less than any address of a process.
            CHECK((frame["offset"].is_null() || frame["offset"] < 0x10000000));
        }
    }
}

TEST_CASE("the allocations page as folded stacks", "[e2e]") {
    require_bpf();
    const Leaking leaking;
    const pid_t pid = leaking.program.pid();
    const std::string query = "?format=folded&pid=" + std::to_string(pid);
    const HttpAnswer answer = http(leaking.exporter.port(), allocations_path + query);
    REQUIRE(answer.status == 200);
    CHECK(answer.headers.find("Content-Type: text/plain; charset=utf-8") != std::string::npos);
    const auto lines = read_folded(answer.body);
    std::uint64_t bytes = 0;
    for (const FoldedLine &line : lines) {
        CHECK(line.stack.starts_with("leaky;"));
        bytes += line.bytes;
    }
    CHECK(bytes == entry_of(leaking.exporter, pid)["outstanding_bytes"]);
    for (const std::string &function : leaks) {
        INFO(function);
        CHECK(std::ranges::any_of(lines, [&](const FoldedLine &line) {
            return (line.stack + ';').find(';' + function + ';') != std::string::npos;
        }));
    }
    // From the outermost call to the innermost.
    CHECK(std::ranges::any_of(
        lines, [](const FoldedLine &line) { return line.stack.ends_with(";main;leak_big"); }));
}

TEST_CASE("the allocations page to clients of all kinds", "[e2e]") {
    require_bpf();
    const Leaking leaking;
    const std::uint16_t port = leaking.exporter.port();
    const HttpAnswer answer = http(port, allocations_path);
    REQUIRE(answer.status == 200);
    CHECK(answer.headers.find("Content-Type: application/json") != std::string::npos);
    CHECK(answer.headers.find("Cache-Control: no-store") != std::string::npos);
    CHECK(http(port, "/").body.find(allocations_path) != std::string::npos);
    CHECK(http(port, allocations_path, "HEAD").body.empty());
    CHECK(http(port, allocations_path, "POST", "Content-Length: 0\r\n").status == 405);

    const std::string url = "http://127.0.0.1:" + std::to_string(port) + allocations_path;
    const Finished curl = run({"curl", "-s", "-S", "--compressed", "--get", "--data-urlencode",
                               "comm=leaky", "--data", "limit=1", url});
    CHECK(curl.code == 0);
    const json document = json::parse(curl.output);
    REQUIRE_FALSE(document["processes"].empty());
    CHECK(document["truncated"] == true);
    for (const json &process : document["processes"]) {
        CHECK(process["comm"] == "leaky");
        CHECK(process["sites"].size() == 1);
        CHECK(process["left_out"].get<int>() >= 2);
    }
    CHECK(http(port, allocations_path, "GET", "Accept-Encoding: gzip\r\n")
              .headers.find("Content-Encoding: gzip") != std::string::npos);

    CHECK(json::parse(http(port, allocations_path + std::string("?comm=nobody")).body)["processes"]
              .empty());
    for (const std::string query :
         {"?pid=0", "?pid=x", "?format=xml", "?limit=-1", "?pids=1", "?pid=1&pid=2", "?comm=%zz"}) {
        INFO(query);
        const HttpAnswer refusal = http(port, allocations_path + query);
        CHECK(refusal.status == 400);
        CHECK(refusal.body.ends_with('\n'));
        CHECK(std::ranges::count(refusal.body, '\n') == 1);
    }
}

TEST_CASE("the allocations page without the CUDA probe says so", "[e2e]") {
    require_bpf();
    const Exporter exporter("cuda:\n  enabled: false\n");
    const HttpAnswer answer = http(exporter.port(), allocations_path);
    CHECK(answer.status == 503);
    CHECK(answer.body == "The probe of this page is not up: / says why.\n");
}

TEST_CASE("all lists of the API choose processes and say what they lack in the same way", "[e2e]") {
    require_bpf();
    const Exporter exporter(
        "functions: {enabled: true}\ntorch: {enabled: true}\nin_flight: {enabled: true}\nhost: "
        "{time: {enabled: true}, life: "
        "{enabled: true}, net: {enabled: true}}\n");
    for (const std::string_view name : gpusnoop::probes::api_page_names()) {
        CAPTURE(name);
        const std::string path = "/api/v1/" + std::string(name);
        const std::string by = name == "functions" ? "&by=process" : "";
        const HttpAnswer answer =
            http(exporter.port(), path + "?pid=1&comm=*nobody*&script=no?e&limit=0" + by);
        if (name == "xids" && answer.status == 503) {
            continue;  // no /dev/kmsg
        }
        REQUIRE(answer.status == 200);
        const json document = json::parse(answer.body);
        CHECK(document.at("left_out") == 0);
        CHECK(document.at("truncated") == false);
        const HttpAnswer refused = http(exporter.port(), path + "?command=x");
        CHECK(refused.status == 400);
        CHECK(refused.body.starts_with("\"command\" is not a parameter of this page; it has "));
        CHECK(refused.body.ends_with("pid, comm, script and limit\n"));
    }
}
