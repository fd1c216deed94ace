// The page at / from given facts: what it says, what it leaves out, and that it does no harm.
#include "exporter/status/page.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "exporter/status/html.h"
#include "tests/harness/counting.h"

using namespace gpusnoop;
using namespace gpusnoop::status;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using harness::count;

namespace {

constexpr std::chrono::nanoseconds some_time{1'772'357'400'123'456'789};  // 2026-03-01 09:30

probes::SlowCallOverview slow_call(const std::string &function, std::size_t frames) {
    probes::SlowCallOverview call;
    call.ended = some_time;
    call.function = function;
    call.library = "libnccl.so.2";
    call.duration_ns = 4'207'000'000;
    call.pid = 41'230;
    call.names.comm = "train.py";
    const auto stack = std::make_shared<std::vector<symbols::Frame>>();
    for (std::size_t i = 0; i < frames; i++) {
        stack->push_back({"frame" + std::to_string(i), "module.so", i});
    }
    call.stack = stack;
    return call;
}

Facts facts() {
    Facts facts;
    facts.node = "node-1";
    facts.version = "1.2.3";
    facts.revision = "abcdef";
    facts.now = some_time;
    facts.uptime_seconds = 7'500;
    facts.last_reload.at = some_time;
    facts.rate_seconds = 7.5;
    facts.probes.push_back({.name = "cuda",
                            .state = probes::ProbeState::up,
                            .detail = "attached by session",
                            .functions = 18,
                            .libraries = 2,
                            .attach_failures = {},
                            .events = 1'234'567,
                            .lost = {},
                            .rate = {150.25, 0}});
    facts.libraries.push_back({.path = "/usr/lib/libcudart.so.12",
                               .build = "c0ffee",
                               .processes = 3,
                               .attached = {{"cuda", 18}, {"functions", 2}},
                               .expensive = {{"functions", 1}},
                               .problems = {}});
    auto &memory = facts.overview.memory.emplace();
    memory.processes.push_back({.pid = 41'230,
                                .names = {.comm = "python3",
                                          .script = "train.py",
                                          .container = "4be1c9aa77d0ffff",
                                          .slurm_job_id = "4711",
                                          .user = "alice"},
                                .exe = "/usr/bin/python3.11",
                                .gpus = {"0", "3"},
                                .outstanding = {8'589'938'688, 3},
                                .limit = "In the last 75 s: the GPU < the host."});
    memory.process_count = 1;
    memory.outstanding = {8'589'938'688, 3};
    memory.sites.push_back(
        {.pid = 41'230,
         .names =
             {.comm = "train.py", .script = "", .container = "", .slurm_job_id = "", .user = ""},
         .site = "leak_big < train_step < main",
         .outstanding = {8'589'934'592, 2}});
    memory.sites.push_back(
        {.pid = 41'230,
         .names =
             {.comm = "train.py", .script = "", .container = "", .slurm_job_id = "", .user = ""},
         .site = "",
         .outstanding = {4'096, 1}});
    memory.site_count = 2;
    auto &in_flight = facts.overview.in_flight.emplace();
    probes::OpenCall &hang = in_flight.oldest.emplace_back();
    hang.comm = "python3";
    hang.pid = 41'230;
    hang.tid = 41'301;
    hang.thread = "pt_autograd_0";
    hang.function = "ncclGroupEnd";
    hang.library = "libnccl.so.2";
    hang.began_ns = 5'000'000'000;
    in_flight.stacks = [] {
        return std::map<std::uint32_t, std::vector<symbols::Frame>>{
            {41'301,
             {{.function = "poll", .module = "libc.so.6", .offset = 4},
              {.function = "train.py:<lambda>:42", .module = "train.py", .offset = 0},
              {.function = "train.py:main:50", .module = "train.py", .offset = 0}}}};
    };
    in_flight.now_ns = 95'500'000'000;
    in_flight.count = 1;
    in_flight.min_age = std::chrono::seconds(1);
    auto &calls = facts.overview.slow_calls.emplace();
    calls.last.push_back(slow_call("ncclAllReduce", 2));
    calls.kept = 1;
    return facts;
}

// The row that is named so, without markup.
std::string row(const std::string &html, const std::string &name) {
    const std::size_t at = html.find("<tr><th scope=\"row\">" + name);
    if (at == std::string::npos) {
        return "";
    }
    const std::string cells = std::regex_replace(html.substr(at, html.find("</tr>", at) - at),
                                                 std::regex("</t[hd]>"), "|");
    return std::regex_replace(cells, std::regex("<[^>]*>"), "");
}

}  // namespace

TEST_CASE("only who may take a profile sees links that take one") {
    Facts with = facts();
    CHECK(count(page(with), "api/v1/profile") == 0);
    with.may_profile = true;
    const std::string html = page(with);
    CHECK(count(html, "href=\"./api/v1/profile?type=cpu&amp;pid=41230&amp;format=svg\"") == 1);
    CHECK(count(html, "href=\"./api/v1/profile?type=offcpu&amp;format=svg\"") == 1);
    CHECK(count(html, "api/v1/profile?") == 6);
}

TEST_CASE("markup in texts is escaped") {
    CHECK(escape_html("<a href=\"x\" b='y'>&amp;</a>") ==
          "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;amp;&lt;/a&gt;");
    CHECK(escape_html("\xFF\n\xC3\xA9") == "\xEF\xBF\xBD\xEF\xBF\xBD\xC3\xA9");
    CHECK(escape_html("a\u202Eb") ==
          "a\xEF\xBF\xBD"
          "b");  // would turn what follows around
    CHECK(escape_html("<<<<", 2) == "&lt;&lt;");
}

TEST_CASE("the page has what a person looks for first") {
    const std::string html = page(facts());
    CHECK_THAT(html, ContainsSubstring("<html lang=\"en\">"));
    CHECK_THAT(html, ContainsSubstring("<title>gpusnoop_exporter on node-1</title>"));
    CHECK_THAT(html, ContainsSubstring("<link rel=\"icon\" href=\"data:,\">"));
    CHECK_THAT(html, ContainsSubstring("<dt>Version</dt><dd>1.2.3 (abcdef)</dd>"));
    CHECK_THAT(html, ContainsSubstring("<dt>Up for</dt><dd>2h 5m</dd>"));
    CHECK_THAT(html, ContainsSubstring("<dt>Configuration</dt><dd>the defaults, no file</dd>"));
    CHECK_THAT(html, ContainsSubstring("<time datetime=\"2026-03-01T09:30:00Z\">2026-03-01 "
                                       "09:30:00</time> UTC."));
    CHECK_THAT(html, ContainsSubstring("<b class=\"ok\">All is well:</b> All enabled probes "
                                       "are up, and no event was lost."));
    CHECK(row(html, "cuda") ==
          "cuda|up|18 functions in 2 files|150|1,234,567|0|0|attached by session|");
    CHECK_THAT(html, ContainsSubstring("Per second: over the last 7.50s."));
    CHECK(row(html, "python3 train.py") ==
          "python3 train.py pid 41230of alice, Slurm job 4711In the last 75 s: the GPU &lt; the "
          "host.|8.00 GiB|3|0, 3|4be1c9aa77d0|"
          "/usr/bin/python3.11|");
    CHECK_THAT(html, ContainsSubstring("<code title=\"4be1c9aa77d0ffff\">4be1c9aa77d0</code>"));
    CHECK_THAT(html, ContainsSubstring("<p>1 process holds <data value=\"8589938688\">8.00 "
                                       "GiB</data> in 3 allocations.</p>"));
    CHECK(row(html, "<code class=\"fit\">leak_big") ==
          "leak_big &lt; train_step &lt; main|8.00 GiB|2|train.py pid 41230|none|");
    CHECK_THAT(html, ContainsSubstring("<data value=\"8589934592\">"));
    CHECK(row(html, "<code class=\"fit\">unknown") ==
          "unknown|4.00 KiB|1|train.py pid 41230|none|");
    CHECK(row(html, "<time") ==
          "2026-03-01 09:30:00|4.21s|ncclAllReduce|libnccl.so.2|train.py pid 41230|none|none|"
          "2 callsframe0 module.soframe1 module.so|");
    CHECK(row(html, "<code class=\"fit\">/usr/lib/libcudart.so.12") ==
          "/usr/lib/libcudart.so.12|3|attached by cuda, 18 functionsattached by functions, 2 "
          "functions, 1 of them expensive|c0ffee|");
    CHECK(html.find(" more") == std::string::npos);
}

TEST_CASE("the page links to what else there is, also behind a proxy with a path of its own") {
    Facts all = facts();
    all.telemetry_path = "/gpu:\"metrics";
    const std::string html = page(all);
    for (const std::string path :
         {"/gpu:&quot;metrics", "/api/v1/allocations", "/api/v1/allocations?format=folded",
          "/api/v1/functions", "/api/v1/slow_calls", "/-/healthy", "/-/ready"}) {
        CHECK_THAT(html, ContainsSubstring("<li><a href=\"." + path + "\">"));
    }
}

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
    CHECK_THAT(html, ContainsSubstring("<b class=\"bad\">Problem:</b> The configuration was not "
                                       "taken over: <code>c.yaml:1:1: &lt;no&gt;</code>"));
    CHECK_THAT(html, ContainsSubstring("<dd><b class=\"bad\">failed</b>, <time"));
    CHECK_THAT(html, ContainsSubstring("<b class=\"bad\">Problem:</b> Events are being lost, per "
                                       "second: cuda <data value=\"12.5\">12.5</data>."));
    CHECK_THAT(html, ContainsSubstring("<b class=\"bad\">Problem:</b> 1 of 2 probes has "
                                       "failed: fence."));
    CHECK_THAT(html, ContainsSubstring("<b class=\"bad\">Problem:</b> 1 file that processes use "
                                       "could not be attached to"));
    CHECK(row(html, "cuda") ==
          "cuda|up|18 functions in 2 files|150|1,234,567|12.5|102ring_full 100, undecodable "
          "2|attached by sessionfailed to attach: elf 2|");
    CHECK(row(html, "fence") ==
          "fence|failed|nothing|0|0|0|0|no kprobes: &lt;script&gt;alert(1)&lt;/script&gt;|");
    CHECK(row(html, "<code class=\"fit\">/lib/broken.so") ==
          "/lib/broken.so|1|not attached by functions: not an ELF file|none|");
    CHECK(row(html, "<code class=\"fit\">/lib/other.so") ==
          "/lib/other.so|0|not attached: it has none of the functions that are traced|none|");
    CHECK(html.find("All is well") == std::string::npos);

    all.probes[0].rate.lost = 0;
    CHECK_THAT(page(all), ContainsSubstring("<b class=\"note\">Note:</b> 102 events were lost "
                                            "since the start, none lately."));
    CHECK(page(all).find("too_deep") == std::string::npos);
    all.probes[0].name = "functions";
    all.probes[0].lost = {{"too_deep", 1'002}};
    CHECK_THAT(page(all),
               ContainsSubstring("<b class=\"note\">Note:</b> 1,002 calls of named functions were "
                                 "not counted (<code>too_deep</code>): their threads were in 64 "
                                 "traced calls already"));
}

TEST_CASE("a probe that the node does not support, or that is switched off, is no problem") {
    using probes::ProbeState;
    Facts all = facts();
    all.probes.push_back(
        {.name = "pcie", .state = ProbeState::unsupported, .detail = "no kprobes"});
    all.probes.push_back({.name = "fence", .state = ProbeState::disabled, .detail = "off"});
    const std::string html = page(all);
    CHECK_THAT(html, ContainsSubstring("<b class=\"ok\">All is well:</b> All enabled probes that "
                                       "this node supports are up, and no event was lost."));
    CHECK(row(html, "pcie") == "pcie|unsupported|nothing|0|0|0|0|no kprobes|");
    CHECK(row(html, "fence") == "fence|disabled|nothing|0|0|0|0|off|");

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
    CHECK_THAT(empty, ContainsSubstring("No process that runs has used CUDA yet."));
    CHECK_THAT(empty, ContainsSubstring("No process holds memory"));
    CHECK_THAT(empty, ContainsSubstring("No call has taken as long"));
    CHECK_THAT(empty, ContainsSubstring("No process uses a library"));
}

TEST_CASE("the page for strangers has the state of the probes, and nothing of programs") {
    Facts all = facts();
    all.is_for_strangers = true;
    const std::string html = page(all);
    CHECK_THAT(html, ContainsSubstring("<code>--web.enable-api</code>"));
    CHECK(row(html, "cuda") == row(page(facts()), "cuda"));
    CHECK(!row(html, "cuda").empty());
    for (const std::string secret : {"ncclGroupEnd", "ncclAllReduce", "41230", "python3"}) {
        INFO(secret);
        CHECK_THAT(page(facts()), ContainsSubstring(secret));
        CHECK_THAT(html, !ContainsSubstring(secret));
    }
}

TEST_CASE("a lower bound is marked as one") {
    CHECK_THAT(page(facts()), !ContainsSubstring("&ge;"));
    Facts all = facts();
    all.overview.memory->is_complete = false;
    all.overview.memory->processes.at(0).is_complete = false;
    const std::string html = page(all);
    CHECK(row(html, "python3 train.py") ==
          "python3 train.py pid 41230of alice, Slurm job 4711In the last 75 s: the GPU &lt; the "
          "host.|&ge; 8.00 GiB|&ge; 3|0, 3|"
          "4be1c9aa77d0|/usr/bin/python3.11|");
    CHECK_THAT(html, ContainsSubstring("<p>1 process holds at least <data"));
    CHECK_THAT(html, ContainsSubstring("&ge;: the process ran before the probes were attached"));
}

TEST_CASE("calls that hang come first on the page") {
    Facts all = facts();
    all.overview.in_flight->count = 3;
    const std::string html = page(all);
    CHECK(html.find("<h2 id=\"in-flight\">") == html.find("<h2"));
    CHECK(row(html, "<code>ncclGroupEnd") ==
          "ncclGroupEnd|1m 30s|libnccl.so.2|python3 pid 41230|pt_autograd_0 tid 41301|-|none|"
          "train.py:&lt;lambda&gt;:423 callspoll libc.so.6train.py:&lt;lambda&gt;:42 train.py"
          "train.py:main:50 train.py|");
    CHECK_THAT(html, ContainsSubstring("<code>train.py:&lt;lambda&gt;:42</code><details>"));
    all.overview.in_flight->stacks = nullptr;
    CHECK_THAT(row(page(all), "<code>ncclGroupEnd"), EndsWith("|none|not known|"));
    CHECK_THAT(html, ContainsSubstring("<p>3 calls have been running for <data"));
    CHECK_THAT(html, ContainsSubstring("And 2 more, which began later."));
    all.overview.in_flight->oldest.clear();
    CHECK_THAT(page(all), ContainsSubstring("No call has been running for <data"));
    all.overview.in_flight.reset();
    CHECK_THAT(page(all), ContainsSubstring("the probe <code>in_flight</code> is not up"));
}

TEST_CASE("the page reloads only if it is asked to") {
    CHECK_THAT(page(facts()), !ContainsSubstring("http-equiv"));
    CHECK_THAT(page(facts()), ContainsSubstring("<a href=\"./?refresh=10\">"));
    const std::string html = page(facts(), 7);
    CHECK_THAT(html, ContainsSubstring("<meta http-equiv=\"refresh\" content=\"7\">"));
    CHECK_THAT(html, ContainsSubstring("<a href=\"./\">Stop that</a>"));
}

TEST_CASE("every table of the page can be told from the others and read aloud") {
    const std::string html = page(facts());
    CHECK(count(html, "<table>") == 6);
    CHECK(count(html, "<thead>") == 6);
    CHECK(count(html, "<th>") == 0);  // all have a scope
    for (const std::string id :
         {"in-flight", "probes", "processes", "allocations", "slow-calls", "libraries"}) {
        CHECK(count(html, "<h2 id=\"" + id + "\">") == 1);
        CHECK(count(html, "aria-labelledby=\"" + id + "\" tabindex=\"0\"") == 1);
    }
    CHECK_THAT(html, ContainsSubstring("name=\"viewport\""));
    CHECK_THAT(html, ContainsSubstring("prefers-color-scheme:dark"));
}

TEST_CASE("the page stays small and harmless whatever the processes are called") {
    const std::string hostile = "\"'><script src=//evil>&\u202E\xFF</style><img src=x onerror=y>" +
                                std::string(100'000, '"');
    Facts all = facts();
    all.node = all.version = all.revision = all.config_file = all.telemetry_path = hostile;
    all.last_reload = {.successful = false, .last_success = 0, .at = some_time, .problem = hostile};
    all.overview_problem = hostile;
    all.probes.assign(40, {.name = hostile,
                           .state = probes::ProbeState::up,
                           .detail = hostile,
                           .functions = 1,
                           .libraries = 1,
                           .attach_failures = {{hostile, 1}},
                           .events = 1,
                           .lost = {{hostile, 1}},
                           .rate = {}});
    // More than are listed; those after them are short, or they would take gigabytes.
    all.libraries.assign(max_libraries + 10, {.path = hostile,
                                              .build = hostile,
                                              .processes = 1,
                                              .attached = {{hostile, 1}},
                                              .problems = {{hostile, hostile}}});
    all.libraries.resize(10'000);
    auto &memory = *all.overview.memory;
    const processes::ProcessNames hostile_names = {.comm = hostile,
                                                   .script = hostile,
                                                   .container = hostile,
                                                   .slurm_job_id = hostile,
                                                   .user = hostile};
    memory.processes.assign(probes::max_overview_processes, {.pid = 1,
                                                             .names = hostile_names,
                                                             .exe = hostile,
                                                             .gpus = {hostile},
                                                             .outstanding = {1, 1}});
    memory.process_count = 10'000;
    memory.sites.assign(probes::max_overview_sites,
                        {.pid = 1, .names = hostile_names, .site = hostile, .outstanding = {1, 1}});
    memory.site_count = 1'000'000;
    probes::SlowCallOverview call = slow_call(hostile, 200);
    call.names = hostile_names;
    call.error = hostile;
    const auto stack =
        std::make_shared<std::vector<symbols::Frame>>(200, symbols::Frame{hostile, hostile, 0});
    call.stack = stack;
    all.overview.slow_calls->last.assign(probes::max_overview_slow_calls, call);
    all.overview.slow_calls->kept = 100;
    const std::string html = page(all, 10);
    CHECK(html.size() < 1'000'000);
    CHECK(count(html, "<script") == 0);
    CHECK(count(html, "<img") == 0);
    CHECK(count(html, "\u202E") == 0);
    CHECK(count(html, "</style>") == 1);
    // No attribute ends where it should not: whatever is between < and > is ours.
    const std::regex tag(R"re(<(!DOCTYPE html|/?[a-z][a-z0-9]*( [a-z-]+(="[^"<>]*")?)*)>)re");
    std::size_t tags = 0;
    const std::string body = html.substr(html.find("</style>"));
    for (auto at = body.find('<'); at != std::string::npos; at = body.find('<', at + 1)) {
        const std::string one = body.substr(at, body.find('>', at) + 1 - at);
        tags++;
        if (one.size() > 4000 || !std::regex_match(one, tag)) {
            FAIL("not a tag of ours: " + one.substr(0, 200));
        }
    }
    CHECK(tags > 1000);
    CHECK_THAT(html, ContainsSubstring("<p>And 8 more.</p>"));                          // probes
    CHECK_THAT(html, ContainsSubstring("<p>And 9,970 more.</p>"));                      // libraries
    CHECK_THAT(html, ContainsSubstring("<p>And 9,980 more, which hold less: see "));    // processes
    CHECK_THAT(html, ContainsSubstring("<p>And 999,985 more, which hold less: see "));  // sites
    CHECK_THAT(html, ContainsSubstring("<p>And 90 more before them: see "));            // calls
    CHECK_THAT(html, ContainsSubstring("and 184 more</details>"));                      // frames
}
