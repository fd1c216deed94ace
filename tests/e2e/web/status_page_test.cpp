// The page at / as a person sees it: from the real exporter beside programs that hold memory, call
// slowly and map what is no library, in a real browser.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exporter/base/text/quantity_text.h"
#include "exporter/processes/user_names.h"
#include "exporter/status/assets.h"
#include "exporter/status/parts.h"
#include "exporter/symbols/elf/elf_file.h"
#include "tests/e2e/child.h"
#include "tests/e2e/web/browser.h"
#include "tests/e2e/web/status_assets.h"
#include "tests/harness/calls_truth.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"
#include "tests/harness/probe_state.h"

using namespace harness;
using nlohmann::json;
namespace fs = std::filesystem;

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

using Row = std::vector<std::string>;  // texts of cells

// "1,234,567".
double number_of(const std::string &text) {
    return std::stod(std::regex_replace(text, std::regex(","), ""));
}

// The table below the heading of this id.
std::vector<Row> table(const std::string &dom, const std::string &id) {
    const std::size_t heading = dom.find("<h2 id=\"" + id + "\">");
    REQUIRE(heading != std::string::npos);
    const std::string section =
        dom.substr(heading, std::min(dom.find("<h2", heading + 1), dom.size()) - heading);
    static const std::regex rows("<tr><th>[^]*?</tr>");
    static const std::regex cells("<t[hd][^>]*>([^]*?)</t[hd]>");
    std::vector<Row> all;
    for (std::sregex_iterator row(section.begin(), section.end(), rows), end; row != end; ++row) {
        const std::string html = row->str();
        Row &one = all.emplace_back();
        for (std::sregex_iterator cell(html.begin(), html.end(), cells); cell != end; ++cell) {
            std::string text = without_markup((*cell)[1]);
            text.erase(text.find_last_not_of('\n') + 1);
            one.push_back(text);
        }
    }
    return all;
}

// The row whose cell contains this; fails the test if there is not exactly one.
Row row_with(const std::vector<Row> &rows, std::size_t column, const std::string &text) {
    std::vector<Row> found;
    for (const Row &row : rows) {
        if (row.at(column).find(text) != std::string::npos) {
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

// The exporter, with programs to show. Theirs are copies of the libraries, which nobody else uses:
// the demo and other tests may run beside this.
struct StatusPageNode {
    StatusPageNode()
        : exporter("discovery: {exclude: [\"" + standin("12/*") + "\", \"" +
                   standin("libcalls.so*") + "\"]}\n" + own_groups("auto") + slow_group) {
        exporter.wait_until_attached_to(runtime);
        exporter.wait_until_attached_to(library);
        write_file(directory / "go", "");
        leaky.wait_for_output("holding");
    }

    TemporaryDirectory directory;
    TemporaryDirectory libraries;
    fs::path runtime = copy_of("12/libcudart.so.12");
    fs::path library = copy_of("libcalls.so.1");
    Exporter exporter;
    Process leaky{{standin("leaky"), "--bytes", std::to_string(leaked), "--times", "3",
                   "--wait-for-file", directory / "go", "--hold"},
                  {{"LD_LIBRARY_PATH", libraries.path().string()},
                   {"STANDIN_TRUTH_DIR", directory.path().string()},
                   {"STANDIN_MEMORY_LIMIT", std::to_string(64 * leaked)}}};
    Process calls = of_calls({"--iterations", "0", "--hold", "--name", "holder"});

    [[nodiscard]] Process of_calls(std::vector<std::string> arguments) const {
        arguments.insert(arguments.begin(), standin("calls"));
        return Process(std::move(arguments), {{"LD_LIBRARY_PATH", libraries.path().string()}});
    }
    [[nodiscard]] fs::path copy_of(const std::string &name) const {
        const fs::path original = standin(name);
        fs::copy_file(original, libraries / original.filename().string());
        return libraries / original.filename().string();
    }

    [[nodiscard]] std::string url() const {
        return "http://127.0.0.1:" + std::to_string(exporter.port()) + "/";
    }
    // Until all that is shown of what has happened is known by name.
    void wait_until_named() const {
        eventually("the names on the page: " + exporter.log(), [&] {
            const std::string page = http(exporter.port(), "/").body;
            std::size_t stacks = 0;
            const std::string stack = "<details id=\"call-";
            for (auto at = page.find(stack); at != std::string::npos;
                 at = page.find(stack, at + 1)) {
                stacks++;
            }
            return stacks >= gpusnoop::status::slow_calls_list.max_rows &&
                   page.find("leak_big &lt; main") != std::string::npos;
        });
    }
};

}  // namespace

TEST_CASE("the page at / shows in a browser what the exporter and its node do", "[e2e]") {
    require_bpf();
    const StatusPageNode node;
    const TemporaryDirectory elsewhere;
    write_file(elsewhere / "libbroken.so", "this is no library");
    const e2e::MapsAsCode broken(elsewhere / "libbroken.so");
    const Process sleeper = node.of_calls({"--scenario", "sleep", "--hold", "--name", "sleeper"});
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

    CHECK(std::set(seen.requests.begin(), seen.requests.end()) == e2e::assets_at(node.url()));
    CHECK(seen.console.empty());
    CHECK(seen.dom.find("live, every 5 seconds") != std::string::npos);

    const auto probes = table(seen.dom, "probes");
    const Page metrics = node.exporter.scrape();
    std::smatch off;
    REQUIRE(
        std::regex_search(seen.dom, off, std::regex("Disabled by the configuration: ([^<]*)[.]<")));
    CHECK(probes.size() + static_cast<std::size_t>(std::ranges::count(off[1].str(), ',')) + 1 ==
          18);
    for (const Row &row : probes) {
        CHECK(row.at(1) == state_of(metrics, row.at(0)));
        CHECK(row.at(1) != "disabled");
    }
    for (const std::string probe : {"cuda", "functions"}) {
        const Row row = row_with(probes, 0, probe);
        CHECK(row.at(1) == "up");
        CHECK(row.at(7).starts_with("attached by "));
        const Labels labels = {{"probe", probe}};
        CHECK(row.at(2).starts_with(std::to_string(static_cast<int>(
                                        metrics.sum("gpusnoop_probe_attached_functions", labels))) +
                                    " function"));
        // The test's programs do not call any more. Others of the machine may.
        CHECK(number_of(row.at(4)) >= before.sum("gpusnoop_probe_events_total", labels));
        CHECK(number_of(row.at(4)) <= metrics.sum("gpusnoop_probe_events_total", labels));
        CHECK(number_of(row.at(4)) > 0);
        CHECK(row.at(6) == "0");
    }
    CHECK(off[1].str().find("fence") != std::string::npos);
    const double broken_files = metrics.sum("gpusnoop_probe_attach_failures_total",
                                            {{"probe", "functions"}, {"reason", "elf"}});
    CHECK(row_with(probes, 0, "functions")
              .at(7)
              .find("failed to attach: elf " + std::to_string(static_cast<int>(broken_files))) !=
          std::string::npos);

    const std::string pid = "pid " + std::to_string(node.leaky.pid());
    const Row process = row_with(table(seen.dom, "processes"), 0, pid);
    CHECK(process.at(0) == with_user("leaky " + pid) + standin("leaky") + "profile: CPU, waits");
    // Maybe after a sign that it may be more.
    CHECK(process.at(1).find(gpusnoop::bytes_text(memory.outstanding_bytes)) != std::string::npos);
    CHECK(process.at(1).ends_with(
        gpusnoop::status::counted(memory.outstanding_allocations, "allocation", "allocations")));

    // leak_big holds ten times what the others do, and is called three times.
    const Row top = row_with(table(seen.dom, "allocations"), 0, "leak_big < main");
    CHECK(top.at(1) == gpusnoop::bytes_text(3 * 10 * leaked));
    CHECK(top.at(2) == "3");
    CHECK(top.at(3) == with_user("leaky " + pid));

    const auto slow = table(seen.dom, "slow-calls");
    const json told = json::parse(http(node.exporter.port(), "/api/v1/slow_calls").body);
    REQUIRE(told["slow_calls"].size() > 10);
    REQUIRE(slow.size() == gpusnoop::status::slow_calls_list.max_rows);
    for (std::size_t i = 0; i < slow.size(); i++) {
        const json &call = told["slow_calls"][i];
        INFO(call.dump(1));
        CHECK(slow[i].at(0).substr(11, 8) == call["time"].get<std::string>().substr(11, 8));
        CHECK(slow[i].at(1) == gpusnoop::duration_text(call["duration_seconds"].get<double>()));
        CHECK(slow[i].at(2) == call["function"].get<std::string>() + "libcalls.so.1");
        CHECK(slow[i].at(3) == with_user("sleeper pid " + std::to_string(sleeper.pid())));
        CHECK(slow[i].at(5).find("scenario::sleep_inside") != std::string::npos);
    }
    CHECK(seen.dom.find("And " + std::to_string(told["slow_calls"].size() - slow.size()) +
                        " more before them") != std::string::npos);

    const auto libraries = table(seen.dom, "libraries");
    const Row runtime = row_with(libraries, 0, node.runtime.string());
    CHECK(runtime.at(1) == "1");
    CHECK(runtime.at(2).starts_with("attached by cuda, "));
    CHECK(runtime.at(3) == build_id_of(standin("12/libcudart.so.12")));
    const Row library = row_with(libraries, 0, node.library.string());
    CHECK(library.at(1) == "2");
    CHECK(library.at(2) == "attached by functions, 2 functions");
    CHECK(library.at(3).size() == 40);
    const Row refused = row_with(libraries, 0, (elsewhere / "libbroken.so").string());
    CHECK(refused.at(1) == "1");
    CHECK(refused.at(2).starts_with("not attached by functions: "));
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
    CHECK(answer.body.find("No running process has used CUDA yet.") != std::string::npos);
    CHECK(answer.body.find(
              "Not known: the probe <code>functions</code> is disabled by the configuration.") !=
          std::string::npos);

    exporter.configure("cuda: {nonsense: <b>1</b>}\n");
    CHECK(http(exporter.port(), "/-/reload", "POST", "Content-Length: 0\r\n").status == 500);
    const std::string failed = page().body;
    CHECK(failed.find("<b class=\"bad\">failed</b>") != std::string::npos);
    CHECK(failed.find("The configuration was rejected: <code>") != std::string::npos);
    CHECK(failed.find("cuda.nonsense: unknown key") != std::string::npos);
    exporter.configure(nowhere);
    CHECK(http(exporter.port(), "/-/reload", "POST", "Content-Length: 0\r\n").status == 200);
    CHECK(page().body.find("The configuration was rejected") == std::string::npos);

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
