#include "tests/e2e/web/browser.h"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/harness/exporter.h"
#include "tests/harness/process.h"

namespace e2e {

using namespace harness;
using nlohmann::json;

std::vector<std::string> browser(const TemporaryDirectory &directory) {
    if (run({"sh", "-c", "command -v chromium"}).code != 0) {
        missing("chromium: run scripts/setup.sh --tests");
    }
    return {"chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            "--user-data-dir=" + (directory / "profile").string()};
}

Seen look_at(const std::string &url, const std::vector<std::string> &more) {
    const TemporaryDirectory directory;
    auto command = browser(directory);
    const std::string net_log = directory / "net.json";
    command.insert(command.begin(),
                   {"sh", "-c", R"(dom=$1; shift; exec "$@" >"$dom")", "sh", directory / "dom"});
    command.insert(command.end(), more.begin(), more.end());
    command.insert(command.end(),
                   {"--enable-logging=stderr", "--log-net-log=" + net_log, "--dump-dom", url});
    const Finished finished = run(std::move(command));
    INFO(finished.output);
    REQUIRE(finished.code == 0);
    Seen seen{read_file(directory / "dom"), {}, {}};
    static const std::regex of_console(R"(CONSOLE[:(]\d+[^\n]*)");
    for (std::sregex_iterator at(finished.output.begin(), finished.output.end(), of_console), end;
         at != end; ++at) {
        seen.console.push_back(at->str());
    }
    const json log = json::parse(read_file(net_log));
    bool loaded = false;
    for (const json &event : log["events"]) {
        const json params = event.value("params", json::object());
        loaded = loaded || params.value("url", "") == url;
        // The browser's own requests have no origin.
        if (params.contains("initiator") && params["initiator"] != "not an origin") {
            seen.requests.push_back(params.value("url", ""));
        }
    }
    REQUIRE(loaded);
    return seen;
}

}  // namespace e2e
