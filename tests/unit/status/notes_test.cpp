// What the page at / says is wrong, with the node and with the exporter.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <cstddef>
#include <string>

#include "exporter/status/status_page.h"
#include "tests/unit/status/page_facts.h"

using namespace gpusnoop;
using namespace gpusnoop::status;
using namespace page_facts;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("the page says what is wrong, in words") {
    Facts all = facts();
    all.config_file = "/etc/<gpusnoop>.yaml";
    all.last_reload.successful = false;
    all.last_reload.problem = "c.yaml:1:1: <no>";
    all.probes[0].rate.lost = 12.5;
    all.probes[0].lost = {{"ring_full", 100}, {"undecodable", 2}};
    all.probes[0].attach_failures = {{"elf", 2}};
    all.probes.push_back({.name = "fence", .detail = "no kprobes: <script>alert(1)</script>"});
    all.libraries.push_back({.path = "/lib/broken.so",
                             .build = "",
                             .processes = 1,
                             .attached = {},
                             .problems = {{"functions", "not an ELF file"}}});
    all.libraries.push_back({.path = "/lib/other.so"});
    const std::string html = page(all);
    CHECK_THAT(html, ContainsSubstring("<code>/etc/&lt;gpusnoop&gt;.yaml</code>"));
    CHECK_THAT(html, ContainsSubstring("<b class=\"bad\">Problem:</b> The configuration was "
                                       "rejected: <code>c.yaml:1:1: &lt;no&gt;</code>"));
    CHECK_THAT(html, ContainsSubstring("<dd><b class=\"bad\">failed</b>, <time"));
    CHECK_THAT(html, ContainsSubstring("<b class=\"bad\">Problem:</b> Events are being lost, per "
                                       "second: cuda 12.5."));
    CHECK_THAT(html, ContainsSubstring("<b class=\"bad\">Problem:</b> 1 of 2 probes has "
                                       "failed: fence (reason below)."));
    CHECK_THAT(html, ContainsSubstring("<b class=\"bad\">Problem:</b> 1 file that processes use "
                                       "could not be attached to"));
    CHECK(row(html, "cuda") ==
          "cuda|up|18 functions in 2 files|150|1,234,567|12.5|102ring_full 100, undecodable "
          "2|attached by sessionfailed to attach: elf 2");
    CHECK(row(html, "fence") ==
          "fence|failed|nothing|0|0|0|0|no kprobes: &lt;script&gt;alert(1)&lt;/script&gt;");
    CHECK(html.find("<tr><th>fence") < html.find("<tr><th>cuda"));
    CHECK(row(html, "<code>/lib/broken.so") ==
          "/lib/broken.so|1|not attached by functions: not an ELF file|none");
    CHECK(row(html, "<code>/lib/other.so") ==
          "/lib/other.so|0|not attached: it has none of the functions that are traced|none");
    CHECK_THAT(html, ContainsSubstring("<details id=\"all-libraries\" open=\"\">"));
    CHECK_THAT(html, !ContainsSubstring("no event was lost"));

    all.probes[0].rate.lost = 0;
    CHECK_THAT(page(all), ContainsSubstring("<b class=\"note\">Note:</b> 102 events were lost "
                                            "since the start, none lately."));
    CHECK(page(all).find("too_deep") == std::string::npos);
    all.probes[0].name = "functions";
    all.probes[0].lost = {{"too_deep", 1'002}};
    CHECK_THAT(page(all),
               ContainsSubstring("<b class=\"note\">Note:</b> 1,002 calls of named functions were "
                                 "not counted (<code>too_deep</code>): their threads were "
                                 "already in 64 traced calls"));
}

TEST_CASE("a probe that the node does not support, or that is switched off, is no problem") {
    using probes::ProbeState;
    Facts all = facts();
    all.probes.push_back(
        {.name = "pcie", .state = ProbeState::unsupported, .detail = "no kprobes"});
    all.probes.push_back({.name = "fence", .state = ProbeState::disabled, .detail = "off"});
    const std::string html = page(all);
    CHECK_THAT(html, ContainsSubstring("<b class=\"ok\">All enabled probes that this node supports "
                                       "are up, and no event was lost.</b>"));
    CHECK(row(html, "pcie") == "pcie|unsupported|nothing|0|0|0|0|no kprobes");
    CHECK(row(html, "fence").empty());
    CHECK_THAT(html, ContainsSubstring("<p>Disabled by the configuration: fence.</p>"));

    all.probes[0].state = ProbeState::failed;
    CHECK_THAT(page(all),
               ContainsSubstring("<b class=\"bad\">Problem:</b> No probe is up of 2 probes."));
    all.probes = {{.name = "fence", .state = ProbeState::disabled, .detail = "off"}};
    CHECK_THAT(page(all), ContainsSubstring("<b class=\"bad\">Problem:</b> No probe is enabled."));
}

TEST_CASE("without an answer of the pipeline, or without probes, the page says so") {
    Facts all = facts();
    all.overview = {};
    all.overview_problem = "the aggregation did not answer in time";
    CHECK_THAT(page(all), ContainsSubstring("<b class=\"bad\">Problem:</b> Processes, allocations "
                                            "and slow calls are not shown: the aggregation did "
                                            "not answer in time."));
    const std::string html = page({});
    CHECK_THAT(html, ContainsSubstring("<b class=\"bad\">Problem:</b> No probe is enabled."));
    CHECK_THAT(html, ContainsSubstring("Not known: the probe <code>cuda</code> is not up."));
    CHECK_THAT(html, ContainsSubstring("Not known: the probe <code>functions</code> is not up."));
    CHECK_THAT(html, !ContainsSubstring("<table"));

    Facts idle;
    idle.overview.memory.emplace();
    idle.overview.slow_calls.emplace();
    const std::string empty = page(idle);
    CHECK_THAT(empty, ContainsSubstring("No running process has used CUDA yet."));
    CHECK_THAT(empty, ContainsSubstring("No process holds memory"));
    CHECK_THAT(empty, ContainsSubstring("No call has taken as long"));
    CHECK_THAT(empty, ContainsSubstring("No process uses a library"));
}

TEST_CASE("probes are one line unless something is wrong") {
    Facts all = facts();
    CHECK_THAT(page(all),
               ContainsSubstring("<details id=\"all-probes\"><summary><b class=\"ok\">All "
                                 "enabled probes are up"));
    CHECK_THAT(page(all), !ContainsSubstring("<ul class=\"notes\">"));
    all.probes[0].rate.lost = 1;
    CHECK_THAT(page(all),
               ContainsSubstring("<details id=\"all-probes\" open=\"\"><summary>1 probe<"));
    CHECK_THAT(page(all), ContainsSubstring("<ul class=\"notes\">"));
}

TEST_CASE("the page begins with what is wrong with the node") {
    Facts all = facts();
    CHECK_THAT(page(all), !ContainsSubstring("<ul class=\"notes\">"));
    all.overview.memory->processes.at(0).verdict = "hangs";
    CHECK_THAT(page(all),
               ContainsSubstring("<b class=\"bad\">Hangs:</b> python3 train.py <small>pid "
                                 "41230</small>. In the last 75 s: the GPU &lt; the "
                                 "host."));
    all.is_for_strangers = true;
    CHECK_THAT(page(all), !ContainsSubstring("Hangs"));
    all.is_for_strangers = false;
    all.overview.memory->processes.assign(5, all.overview.memory->processes.at(0));
    CHECK_THAT(page(all), ContainsSubstring("<b class=\"bad\">Hangs:</b> 2 processes more"));

    Facts broken = facts();
    probes::XidOverview &xid = broken.overview.xids.emplace().last.emplace_back();
    xid.at = some_time - std::chrono::hours(23);
    xid.code = 79;
    xid.kind = "hardware";
    xid.gpu = "2";
    xid.device = "0000:3b:00.0";
    CHECK_THAT(page(broken),
               ContainsSubstring("<b class=\"bad\">Hardware error:</b> Xid 79 of GPU 2, "
                                 "0000:3b:00.0, at <time>2026-02-28 10:30:00Z</time>"));
    xid.at = some_time - std::chrono::hours(25);
    CHECK_THAT(page(broken), !ContainsSubstring("Hardware error"));
    xid.at = some_time;
    xid.kind = "application";
    CHECK_THAT(page(broken), !ContainsSubstring("Hardware error"));
}

TEST_CASE("the page says why there are no verdicts") {
    Facts all = facts();
    CHECK_THAT(page(all), !ContainsSubstring("There are no verdicts"));
    all.overview.memory->processes.at(0).verdict = "";
    all.probes.push_back(
        {.name = "host_time", .state = probes::ProbeState::disabled, .detail = ""});
    CHECK_THAT(page(all),
               ContainsSubstring("There are no verdicts: the probe <code>host_time</code> "
                                 "is disabled by the configuration."));
    all.probes.back().state = probes::ProbeState::up;  // it does not know yet
    CHECK_THAT(page(all), !ContainsSubstring("There are no verdicts"));
}
