// The page at / as a person sees it: from the real exporter beside programs that hold memory, call
// slowly and map what is no library, in a real browser.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "exporter/http/server.h"
#include "exporter/processes/user_names.h"
#include "exporter/symbols/elf/elf_file.h"
#include "tests/e2e/browser.h"
#include "tests/e2e/child.h"
#include "tests/harness/calls_truth.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"
#include "tests/harness/probe_state.h"

using namespace harness;
using nlohmann::json;

namespace {

const std::string slow_group = R"(
    sleepers:
      libraries: ["libcalls.so*", "libbroken.so"]
      slow_threshold: 50ms
      functions:
        - {symbol: calls_sleep, errors: nonzero}
        - {name: "calls::sleep", symbol: _ZN5calls5sleepElllllPl}
)";

// More than other programs of the machine are likely to hold, so that it is among the first.
constexpr std::uint64_t leaked = std::uint64_t{1} << 36U;

std::string without_markup(const std::string &html) {
    std::string text = std::regex_replace(html, std::regex("<[^>]*>"), "");
    for (const auto &[escape, character] : std::map<std::string, std::string>{
             {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}}) {
        for (auto at = text.find(escape); at != std::string::npos; at = text.find(escape)) {
            text.replace(at, escape.size(), character);
        }
    }
    return text;
}

// A cell of a process that the user of this test runs.
std::string with_user(const std::string &process) {
    const std::string user = gpusnoop::processes::UserNames().of(::getuid());
    return user.empty() ? process : process + "of " + user;
}

struct Cell {
    std::string text;
    std::string value;  // the number that the text stands for; empty if it is none
};
using Row = std::vector<Cell>;

// The table below the heading of this id.
std::vector<Row> table(const std::string &dom, const std::string &id) {
    const std::size_t heading = dom.find("<h2 id=\"" + id + "\">");
    REQUIRE(heading != std::string::npos);
    const std::string section =
        dom.substr(heading, std::min(dom.find("<h2", heading + 1), dom.size()) - heading);
    static const std::regex rows("<tr><th scope=\"row\"[^]*?</tr>");
    static const std::regex cells("<t[hd][^>]*>([^]*?)</t[hd]>");
    static const std::regex data("<data value=\"([^\"]*)\">");
    std::vector<Row> all;
    for (std::sregex_iterator row(section.begin(), section.end(), rows), end; row != end; ++row) {
        const std::string html = row->str();
        Row &one = all.emplace_back();
        for (std::sregex_iterator cell(html.begin(), html.end(), cells); cell != end; ++cell) {
            const std::string content = (*cell)[1];
            std::smatch value;
            one.push_back({without_markup(content),
                           std::regex_search(content, value, data) ? value[1].str() : ""});
        }
    }
    return all;
}

// The row whose cell contains this; fails the test if there is not exactly one.
Row row_with(const std::vector<Row> &rows, std::size_t column, const std::string &text) {
    std::vector<Row> found;
    for (const Row &row : rows) {
        if (row.at(column).text.find(text) != std::string::npos) {
            found.push_back(row);
        }
    }
    INFO(text);
    REQUIRE(found.size() == 1);
    return found.front();
}

std::string build_id_of(const std::string &path) {
    const gpusnoop::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    const auto elf = gpusnoop::symbols::ElfFile::open(file.get());
    REQUIRE(elf.has_value());
    return elf->build_id().value_or("");
}

// The exporter, with programs to show.
struct StatusPageNode {
    // `more`: what the configuration has besides.
    explicit StatusPageNode(const std::string &more = "")
        : exporter(more + own_groups("auto") + slow_group) {
        exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
        exporter.wait_until_attached_to(standin("libcalls.so.1"));
        write_file(directory / "go", "");
        leaky.wait_for_output("holding");
    }

    TemporaryDirectory directory;
    Exporter exporter;
    Process leaky{{standin("leaky"), "--bytes", std::to_string(leaked), "--times", "3",
                   "--wait-for-file", directory / "go", "--hold"},
                  {{"STANDIN_TRUTH_DIR", directory.path().string()},
                   {"STANDIN_MEMORY_LIMIT", std::to_string(64 * leaked)}}};
    Process calls{{standin("calls"), "--iterations", "0", "--hold", "--name", "holder"}};

    [[nodiscard]] std::string url() const {
        return "http://127.0.0.1:" + std::to_string(exporter.port()) + "/";
    }
    // Until all that is shown of what has happened is known by name.
    void wait_until_named() const {
        eventually("the names on the page: " + exporter.log(), [&] {
            const std::string page = http(exporter.port(), "/").body;
            std::size_t stacks = 0;
            for (auto at = page.find("<details>"); at != std::string::npos;
                 at = page.find("<details>", at + 1)) {
                stacks++;
            }
            return stacks == 10 && page.find("leak_big &lt; main") != std::string::npos;
        });
    }
};

}  // namespace

TEST_CASE("what looks at a page in the browser sees what it requests and what goes wrong",
          "[e2e]") {
    const auto page = [](const std::string &html) {
        return [html](const gpusnoop::http::Request &) {
            auto response = gpusnoop::http::text_response(200, html);
            response.content_type = "text/html";
            return response;
        };
    };
    const auto server = gpusnoop::http::Server::listen(
        "127.0.0.1:0", {{"/", page("<!DOCTYPE html><title>bad</title><p>there</p>"
                                   "<img src='/picture'><script>nothing()</script>")}});
    REQUIRE(server.has_value());
    const std::string url = "http://127.0.0.1:" + std::to_string((*server)->port()) + "/";
    const e2e::Seen seen = e2e::look_at(url);
    CHECK(seen.dom.find("<p>there</p>") != std::string::npos);
    CHECK(std::ranges::find(seen.requests, url + "picture") != seen.requests.end());
    REQUIRE_FALSE(seen.console.empty());
    CHECK(seen.console.back().find("nothing is not defined") != std::string::npos);
}

TEST_CASE("the page at / shows in a browser what the exporter and its node do", "[e2e]") {
    require_bpf();
    const StatusPageNode node;
    const TemporaryDirectory elsewhere;
    write_file(elsewhere / "libbroken.so", "this is no library");
    const e2e::MapsAsCode broken(elsewhere / "libbroken.so");
    const Process sleeper({standin("calls"), "--scenario", "sleep", "--hold", "--name", "sleeper"});
    sleeper.wait_for_output("holding");
    eventually("the broken file", [&] {
        return node.exporter.scrape().sum("gpusnoop_probe_attach_failures_total",
                                          {{"probe", "functions"}, {"reason", "elf"}}) > 0;
    });
    node.wait_until_named();
    const auto truth = truth::sum(truth::read_truth(node.directory.path()));
    const truth::Memory &memory = truth.of(truth::MemoryKind::device);
    const Page before = node.exporter.scrape();
    const e2e::Seen seen = e2e::look_at(node.url());
    INFO(seen.dom);

    CHECK(seen.requests.empty());
    CHECK(seen.console.empty());

    const auto probes = table(seen.dom, "probes");
    const Page metrics = node.exporter.scrape();
    REQUIRE(probes.size() == 18);
    for (const Row &row : probes) {
        CHECK(row.at(1).text == state_of(metrics, row.at(0).text));
    }
    for (const std::string probe : {"cuda", "functions"}) {
        const Row row = row_with(probes, 0, probe);
        CHECK(row.at(1).text == "up");
        CHECK(row.at(7).text.starts_with("attached by "));
        const Labels labels = {{"probe", probe}};
        CHECK(row.at(2).text.starts_with(std::to_string(static_cast<int>(metrics.sum(
                                             "gpusnoop_probe_attached_functions", labels))) +
                                         " function"));
        // The test's programs do not call any more. Others of the machine may.
        CHECK(std::stod(row.at(4).value) >= before.sum("gpusnoop_probe_events_total", labels));
        CHECK(std::stod(row.at(4).value) <= metrics.sum("gpusnoop_probe_events_total", labels));
        CHECK(std::stod(row.at(4).value) > 0);
        CHECK(row.at(6).value == "0");
    }
    CHECK(row_with(probes, 0, "fence").at(1).text == "disabled");
    const double broken_files = metrics.sum("gpusnoop_probe_attach_failures_total",
                                            {{"probe", "functions"}, {"reason", "elf"}});
    CHECK(row_with(probes, 0, "functions")
              .at(7)
              .text.find("failed to attach: elf " +
                         std::to_string(static_cast<int>(broken_files))) != std::string::npos);

    const std::string pid = "pid " + std::to_string(node.leaky.pid());
    const Row process = row_with(table(seen.dom, "processes"), 0, pid);
    CHECK(process.at(0).text == with_user("leaky " + pid) + "profile: CPU, waits, page faults");
    CHECK(process.at(1).value == std::to_string(memory.outstanding_bytes));
    CHECK(process.at(2).value == std::to_string(memory.outstanding_allocations));
    CHECK(process.at(5).text == standin("leaky"));

    // leak_big holds ten times what the others do, and is called three times.
    const auto allocations = table(seen.dom, "allocations");
    const Row top = row_with(allocations, 0, "leak_big < main");
    CHECK(top.at(1).value == std::to_string(3 * 10 * leaked));
    CHECK(top.at(2).value == "3");
    CHECK(top.at(3).text == with_user("leaky " + pid));
    std::uint64_t sum = 0;
    for (const Row &row : allocations) {
        sum += row.at(3).text == with_user("leaky " + pid) ? std::stoull(row.at(1).value) : 0;
    }
    CHECK(sum == memory.outstanding_bytes);

    const auto slow = table(seen.dom, "slow-calls");
    const json told = json::parse(http(node.exporter.port(), "/api/v1/slow_calls").body);
    REQUIRE(told["slow_calls"].size() > 10);
    REQUIRE(slow.size() == 10);
    for (std::size_t i = 0; i < slow.size(); i++) {
        const json &call = told["slow_calls"][i];
        INFO(call.dump(1));
        CHECK(slow[i].at(0).text.substr(11) == call["time"].get<std::string>().substr(11, 8));
        CHECK(std::stod(slow[i].at(1).value) == call["duration_seconds"].get<double>());
        CHECK(std::stod(slow[i].at(1).value) >= 0.05);
        CHECK(slow[i].at(2).text == call["function"].get<std::string>());
        CHECK(slow[i].at(3).text == "libcalls.so.1");
        CHECK(slow[i].at(4).text == with_user("sleeper pid " + std::to_string(sleeper.pid())));
        CHECK(slow[i].at(7).text.find("scenario::sleep_inside") != std::string::npos);
    }
    CHECK(seen.dom.find("And " + std::to_string(told["slow_calls"].size() - 10) +
                        " more before them") != std::string::npos);

    const auto libraries = table(seen.dom, "libraries");
    const Row runtime = row_with(libraries, 0, standin("12/libcudart.so.12"));
    CHECK(runtime.at(1).value == "1");
    CHECK(runtime.at(2).text.starts_with("attached by cuda, "));
    CHECK(runtime.at(3).text == build_id_of(standin("12/libcudart.so.12")));
    const Row library = row_with(libraries, 0, standin("libcalls.so.1"));
    CHECK(library.at(1).value == "2");
    CHECK(library.at(2).text == "attached by functions, 2 functions");
    CHECK(library.at(3).text.size() == 40);
    const Row refused = row_with(libraries, 0, (elsewhere / "libbroken.so").string());
    CHECK(refused.at(1).value == "1");
    CHECK(refused.at(2).text.starts_with("not attached by functions: "));
    CHECK(std::regex_search(
        seen.dom, std::regex("[0-9]+ files? that processes use could not be attached to")));
}

TEST_CASE("the page at / says what the configuration is and what became of a reload", "[e2e]") {
    require_bpf();
    // No library has this name, so that it does not matter what else runs here.
    const std::string nowhere = "cuda: {libraries: [libcudart-nowhere.so]}\n";
    const Exporter exporter(nowhere);
    const auto page = [&](const std::string &query = "") {
        return http(exporter.port(), "/" + query);
    };
    const HttpAnswer answer = page();
    CHECK(answer.status == 200);
    CHECK(answer.headers.find("Content-Type: text/html; charset=utf-8") != std::string::npos);
    CHECK(answer.headers.find("Content-Security-Policy: default-src 'none'; ") !=
          std::string::npos);
    CHECK(answer.body.find("/config.yaml</code>") != std::string::npos);
    CHECK(answer.body.find("read without errors") != std::string::npos);
    CHECK(answer.body.find("No process that runs has used CUDA yet.") != std::string::npos);
    CHECK(
        answer.body.find(
            "Not known: the probe <code>functions</code> is switched off by the configuration.") !=
        std::string::npos);

    exporter.configure("cuda: {nonsense: <b>1</b>}\n");
    CHECK(http(exporter.port(), "/-/reload", "POST", "Content-Length: 0\r\n").status == 500);
    const std::string failed = page().body;
    CHECK(failed.find("<b class=\"bad\">failed</b>") != std::string::npos);
    CHECK(failed.find("The configuration was not taken over: <code>") != std::string::npos);
    CHECK(failed.find("cuda.nonsense: unknown key") != std::string::npos);
    exporter.configure(nowhere);
    CHECK(http(exporter.port(), "/-/reload", "POST", "Content-Length: 0\r\n").status == 200);
    CHECK(page().body.find("The configuration was not taken over") == std::string::npos);

    CHECK(page("?refresh=5").body.find("<meta http-equiv=\"refresh\" content=\"5\">") !=
          std::string::npos);
    CHECK(page("?refresh=4000000000").body.find("content=\"3600\">") != std::string::npos);
    CHECK(page("?theme=dark").status == 200);
    for (const std::string query :
         {"?refresh=0", "?refresh=x", "?refresh=", "?refresh=1&refresh=2", "?refresh=%zz"}) {
        INFO(query);
        CHECK(page(query).status == 400);
    }
    CHECK(http(exporter.port(), "/", "HEAD").body.empty());
    CHECK(http(exporter.port(), "/", "POST", "Content-Length: 0\r\n").status == 405);
}

// Where this machine has its build and its files is nothing that a picture is for.
static std::string without_places(std::string html) {
    std::array<char, 256> host{};
    REQUIRE(::gethostname(host.data(), host.size() - 1) == 0);
    html = std::regex_replace(html, std::regex("<b>" + std::string(host.data()) + "</b>"),
                              "<b>gpu-a01</b>");
    html = std::regex_replace(html, std::regex(R"([\w./-]*/standin/)"), "/opt/demo/");
    return std::regex_replace(html, std::regex(R"([\w./-]*/config\.yaml)"),
                              "/etc/gpusnoop_exporter/config.yaml");
}

TEST_CASE("a picture of the page at /", "[.picture]") {
    require_bpf();
    const char *picture = std::getenv("GPUSNOOP_PICTURE");
    REQUIRE(picture != nullptr);
    const StatusPageNode node("in_flight: {min_age: 1s}\nxid: {enabled: true}\n");
    const Process hanging({standin("hangs"), "--threads", "1", "--name", "eval.py"});
    const Process workload(
        {standin("workload"), "--iterations", "100000000", "--rate", "2000", "--name", "train.py"});
    const Process sleeper({standin("calls"), "--scenario", "sleep", "--hold", "--name", "sleeper"});
    sleeper.wait_for_output("holding");
    node.wait_until_named();
    ::sleep(6);  // until rates are of whole windows
    const TemporaryDirectory directory;
    write_file(directory / "page.html", without_places(http(node.exporter.port(), "/").body));
    auto command = e2e::browser(directory);
    const char *size = std::getenv("GPUSNOOP_PICTURE_SIZE");
    command.insert(command.end(), {"--hide-scrollbars", "--screenshot=" + std::string(picture),
                                   "--window-size=" + std::string(size ? size : "1280,1750"),
                                   "file://" + (directory / "page.html").string()});
    if (std::getenv("GPUSNOOP_PICTURE_DARK") != nullptr) {
        command.insert(command.begin() + 1, "--blink-settings=preferredColorScheme=0");
    }
    const Finished finished = run(std::move(command));
    INFO(finished.output);
    CHECK(finished.code == 0);
    CHECK(std::filesystem::file_size(picture) > 10'000);
}
