// The page at / in a real browser: it renews itself, and fits on screens of every width. The facts
// are given, so that nothing is traced.
#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/http/route.h"
#include "exporter/http/server.h"
#include "exporter/status/assets.h"
#include "exporter/status/facts.h"
#include "exporter/status/status_page.h"
#include "tests/e2e/web/browser.h"
#include "tests/e2e/web/status_assets.h"
#include "tests/harness/busy_node.h"
#include "tests/harness/exporter.h"
#include "tests/harness/full_page.h"
#include "tests/harness/machine/directory.h"
#include "tests/harness/process.h"

using namespace harness;

namespace {

gpusnoop::http::Response response_of(const gpusnoop::status::Facts &facts,
                                     std::string_view policy) {
    auto response = gpusnoop::http::text_response(200, gpusnoop::status::page(facts));
    response.content_type = "text/html";
    response.more_head = "Content-Security-Policy: " + std::string(policy) + "\r\n";
    return response;
}

// These pages, and what the page at / loads.
std::unique_ptr<gpusnoop::http::Server> serve(
    std::map<std::string, gpusnoop::http::Handler> pages) {
    for (const auto *asset : {&gpusnoop::status::stylesheet(), &gpusnoop::status::script()}) {
        pages[std::string(asset->path)] = gpusnoop::status::StatusPage::asset;
    }
    auto server = gpusnoop::http::Server::listen("127.0.0.1:0", std::move(pages));
    REQUIRE(server.has_value());
    return std::move(*server);
}

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

TEST_CASE("the page at / renews itself in a browser, and without its script stays as it is",
          "[e2e]") {
    std::atomic<int> pages = 0;
    const auto renewed = [&](const gpusnoop::http::Request &) {
        gpusnoop::status::Facts facts;
        facts.version = "page " + std::to_string(++pages);
        return response_of(facts, gpusnoop::status::page_security_policy);
    };
    const auto server = serve({{"/", renewed}});
    const std::string url = "http://127.0.0.1:" + std::to_string(server->port()) + "/";
    // Timers run ahead until then.
    const e2e::Seen seen = e2e::look_at(url, {"--virtual-time-budget=12000"});
    INFO(seen.dom);
    CHECK(seen.console.empty());
    CHECK(pages >= 3);
    CHECK(seen.dom.find("page " + std::to_string(pages)) != std::string::npos);
    CHECK(seen.dom.find("page 1 ") == std::string::npos);
    CHECK(seen.dom.find("live, every 5 seconds") != std::string::npos);
    auto expected = e2e::assets_at(url);
    expected.insert(url);
    CHECK(std::set(seen.requests.begin(), seen.requests.end()) == expected);
    const std::string plain = gpusnoop::status::page({});
    CHECK(plain.find("reload every 10 seconds") != std::string::npos);
}

TEST_CASE("the page at / fits on screens from a phone's on, light and dark", "[e2e]") {
    // Others may not show the page in a frame; this one must, to have a screen as narrow.
    std::string policy(gpusnoop::status::page_security_policy);
    policy.erase(policy.find("; frame-ancestors"));
    const bool is_full = GENERATE(true, false);
    const gpusnoop::status::Facts facts =
        is_full ? harness::full_page_facts() : harness::busy_node_facts();
    const auto page = [&](const gpusnoop::http::Request &) { return response_of(facts, policy); };
    const auto frames = [](const gpusnoop::http::Request &) {
        auto response = gpusnoop::http::text_response(200, R"(<!DOCTYPE html>
<iframe width="320" height="700" src="./"></iframe><iframe width="420" height="700" src="./">
</iframe><iframe width="1280" height="700" src="./"></iframe><p id="said"></p><script>
addEventListener('load', () => {
  for (const frame of document.querySelectorAll('iframe')) {
    const page = frame.contentDocument, root = page.documentElement;
    const isWide = e => e.scrollWidth > e.clientWidth;
    document.getElementById('said').append([frame.width, isWide(root) ? 'wide' : 'fits',
        [...page.querySelectorAll('.scroll')].filter(isWide).length,
        frame.contentWindow.getComputedStyle(page.body).backgroundColor].join(' ') + '; ');
  }
});</script>)");
        response.content_type = "text/html";
        return response;
    };
    const auto server = serve({{"/", page}, {"/frames", frames}});
    const std::string url = "http://127.0.0.1:" + std::to_string(server->port()) + "/frames";
    for (const bool is_dark : {false, true}) {
        CAPTURE(is_full, is_dark);
        const e2e::Seen seen =
            e2e::look_at(url, is_dark ? std::vector<std::string>{"--blink-settings="
                                                                 "preferredColorScheme=0"}
                                      : std::vector<std::string>{});
        std::smatch said;
        REQUIRE(std::regex_search(seen.dom, said, std::regex("<p id=\"said\">([^<]*)")));
        const std::string back = is_dark ? "rgb(21, 24, 27)" : "rgb(251, 251, 250)";
        CHECK(said[1] ==
              "320 fits 0 " + back + "; 420 fits 0 " + back + "; 1280 fits 0 " + back + "; ");
        CHECK(seen.console.empty());
    }
}

// The picture of the page at / in the documents.

TEST_CASE("a picture of the page at /", "[.picture]") {
    const char *picture = std::getenv("GPUSNOOP_PICTURE");
    REQUIRE(picture != nullptr);
    const TemporaryDirectory directory;
    // As it is without its script: without a server there is nothing to ask.
    write_file(directory / "page.html", gpusnoop::status::page(busy_node_facts()));
    write_file(directory / "status.css", gpusnoop::status::stylesheet().text);
    auto command = e2e::browser(directory);
    const char *size = std::getenv("GPUSNOOP_PICTURE_SIZE");
    command.insert(command.end(), {"--hide-scrollbars", "--screenshot=" + std::string(picture),
                                   "--window-size=" + std::string(size ? size : "1280,2210"),
                                   "file://" + (directory / "page.html").string()});
    if (std::getenv("GPUSNOOP_PICTURE_DARK") != nullptr) {
        command.insert(command.begin() + 1, "--blink-settings=preferredColorScheme=0");
    }
    const Finished finished = run(std::move(command));
    INFO(finished.output);
    CHECK(finished.code == 0);
    CHECK(std::filesystem::file_size(picture) > 10'000);
}
