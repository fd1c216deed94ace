// The page at / from given facts: what it says, what it leaves out, and that it does no harm.
#include "exporter/status/page.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "exporter/status/assets.h"
#include "exporter/status/parts.h"
#include "tests/harness/counting.h"
#include "tests/harness/full_page.h"

using namespace gpusnoop;
using namespace gpusnoop::status;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using harness::count;
using harness::section_of;

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
                                .calls = {.launches = 9'000, .errors = 12, .out_of_memory = 2},
                                .limit = "In the last 75 s: the GPU < the host.",
                                .verdict = "cuda_calls"});
    auto &refusals = facts.overview.out_of_memory.emplace();
    refusals.count = 1;
    probes::OutOfMemoryEventOverview &refusal = refusals.last.emplace_back();
    refusal.at = some_time - std::chrono::seconds(60);
    refusal.count = 2;
    refusal.pid = 41'230;
    refusal.names.comm = "train.py";
    refusal.gpu = "3";
    refusal.requested = 2'147'483'648;
    refusal.verdict = "neighbor";
    refusal.sentence = "eval.py holds 61.0 GiB";
    facts.past.push_back(
        {.held = {1'073'741'824, 4'294'967'296, 8'589'938'688}, .launches_per_second = 150.25});
    memory.gpus.push_back({.gpu = "0",
                           .name = "NVIDIA H100",
                           .bytes = 8'589'934'592,
                           .holders = {{.pid = 41'230,
                                        .names = {.comm = "python3",
                                                  .script = "train.py",
                                                  .container = "",
                                                  .slurm_job_id = "",
                                                  .user = ""},
                                        .bytes = 8'589'934'592}},
                           .holder_count = 3});
    memory.gpus.push_back({.gpu = "1", .name = "", .holders = {}});
    auto &ends = facts.overview.ends.emplace();
    ends.count = 1;
    probes::EndOverview &end = ends.last.emplace_back();
    end.at = some_time - std::chrono::seconds(30);
    end.pid = 40'000;
    end.names.comm = "eval.py";
    end.cause = "SIGSEGV";
    end.is_bad = true;
    end.held_bytes = 1'073'741'824;
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
    const std::size_t at = html.find("<tr><th>" + name);
    if (at == std::string::npos) {
        return "";
    }
    const std::string cells =
        std::regex_replace(html.substr(at, html.find('\n', at) - at), std::regex("<td>"), "|");
    return std::regex_replace(cells, std::regex("<[^>]*>"), "");
}

}  // namespace

TEST_CASE("only who may take a profile sees links that take one") {
    Facts with = facts();
    CHECK(count(page(with), "api/v1/profile") == 0);
    with.may_profile = true;
    const std::string html = page(with);
    CHECK(count(html, "href=\"./api/v1/profile?format=svg&amp;type=cpu&amp;pid=41230\"") == 1);
    CHECK(count(html, "href=\"./api/v1/profile?format=svg&amp;type=offcpu\"") == 1);
    CHECK(count(html, "api/v1/profile?") == 4);
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
    CHECK_THAT(html, ContainsSubstring("<title>node-1: GPU processes</title>"));
    CHECK_THAT(html, ContainsSubstring("<link rel=\"icon\" href=\"data:,\">"));
    CHECK_THAT(html, ContainsSubstring("<dt>Version</dt><dd>1.2.3 (abcdef)</dd>"));
    CHECK_THAT(html, ContainsSubstring("<dt>Up for</dt><dd>2h 5m</dd>"));
    CHECK_THAT(html, ContainsSubstring("<dt>Configuration</dt><dd>the defaults, no file</dd>"));
    CHECK_THAT(html, ContainsSubstring("As of <time>2026-03-01 09:30:00Z</time>"));
    CHECK_THAT(html,
               ContainsSubstring("<b class=\"ok\">All enabled probes are up, and no event was "
                                 "lost.</b>"));
    CHECK(row(html, "cuda") ==
          "cuda|up|18 functions in 2 files|150|1,234,567|0|0|attached by session");
    CHECK_THAT(html, ContainsSubstring("Per second: over the last 7.50s."));
    CHECK(row(html, "python3 train.py") ==
          "python3 train.py pid 41230of alice, Slurm job 4711, container 4be1c9aa77d0|8.00 GiB3 "
          "allocations| +7.00 GiB|0, 3|150|122 out of memory|"
          "cuda callsIn the last 75 s: the GPU &lt; the host.|ncclGroupEnd 1m 30s");
    CHECK_THAT(html, ContainsSubstring("<path d=\"M116 16l8 -14\">"));
    CHECK(row(html, "0") ==
          "0|NVIDIA H100|8.00 GiB|8.00 GiB python3 train.py pid 41230and 2 others");
    CHECK(row(html, "1") == "1|not known|0 B|nobody");
    CHECK(row(html, "<time>2026-03-01 09:29:30Z") ==
          "2026-03-01 09:29:30Z30s ago|killed by SIGSEGV||eval.py pid 40000|It held 1.00 GiB on "
          "GPUs.");
    CHECK(row(html, "<time>2026-03-01 09:29:00Z") ==
          "2026-03-01 09:29:00Z1m 0s ago|out of GPU memory|3|train.py pid 41230|2 calls were "
          "refused, the last one 2.00 GiB. Who holds the memory");
    CHECK(row(section_of(html, "out-of-memory"), "<time>2026-03-01 09:29:00Z") ==
          "2026-03-01 09:29:00Z|2|2.00 GiB|3|train.py pid 41230|neighbor|eval.py holds 61.0 GiB");
    CHECK_THAT(html, ContainsSubstring("<p>1 process holds 8.00 GiB in 3 allocations.</p>"));
    CHECK(row(html, "<code>leak_big") ==
          "leak_big &lt; train_step &lt; main|8.00 GiB|2|train.py pid 41230");
    CHECK(row(html, "<code>unknown") == "unknown|4.00 KiB|1|train.py pid 41230");
    CHECK(row(html, "<time>2026-03-01 09:30:00Z") ==
          "2026-03-01 09:30:00Z|4.21s|ncclAllReducelibnccl.so.2|train.py pid 41230||"
          "2 callsframe0 module.soframe1 module.so");
    CHECK(row(html, "<code>/usr/lib/libcudart.so.12") ==
          "/usr/lib/libcudart.so.12|3|attached by cuda, 18 functionsattached by functions, 2 "
          "functions, 1 of them expensive|c0ffee");
    CHECK_THAT(html, ContainsSubstring("Expensive: the kernel cannot emulate"));
    CHECK(html.find(" more") == std::string::npos);
    // A script's executable is its interpreter.
    CHECK_THAT(html, !ContainsSubstring("/usr/bin/python3.11"));
    Facts program = facts();
    program.overview.memory->processes.at(0).names.script = "";
    CHECK_THAT(row(page(program), "python3"),
               ContainsSubstring("container 4be1c9aa77d0/usr/bin/python3.11|"));
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
    CHECK_THAT(html, ContainsSubstring("<b class=\"ok\">All enabled probes that this node supports "
                                       "are up, and no event was lost.</b>"));
    CHECK(row(html, "pcie") == "pcie|unsupported|nothing|0|0|0|0|no kprobes");
    CHECK(row(html, "fence").empty());
    CHECK_THAT(html, ContainsSubstring("<p>Switched off by the configuration: fence.</p>"));

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
          "python3 train.py pid 41230of alice, Slurm job 4711, container 4be1c9aa77d0|&ge; 8.00 "
          "GiB3 allocations| +7.00 GiB|0, 3|150|122 out of memory|"
          "cuda callsIn the last 75 s: the GPU &lt; the host.|ncclGroupEnd 1m 30s");
    CHECK_THAT(html, ContainsSubstring("<p>1 process holds at least 8.00 GiB"));
    CHECK_THAT(html, ContainsSubstring("&ge;: the process ran before the probes were attached"));
}

TEST_CASE("processes come first on the page, then calls in flight, GPUs and events") {
    Facts all = facts();
    all.overview.in_flight->count = 3;
    const std::string html = page(all);
    std::size_t before = 0;
    for (const std::string id :
         {"processes", "in-flight", "gpus", "events", "probes", "exporter"}) {
        const std::size_t at = html.find("<h2 id=\"" + id + "\">");
        CAPTURE(id);
        REQUIRE(at != std::string::npos);
        CHECK(at > before);
        before = at;
    }
    CHECK(html.find("<h2 id=\"processes\">") == html.find("<h2"));
    CHECK(html.find("<nav") > html.find("<footer>"));
    CHECK(row(html, "<code>ncclGroupEnd") ==
          "ncclGroupEndlibnccl.so.2|1m 30s|python3 pid 41230|pt_autograd_0 tid 41301||"
          "train.py:&lt;lambda&gt;:423 callspoll libc.so.6train.py:&lt;lambda&gt;:42 train.py"
          "train.py:main:50 train.py");
    CHECK_THAT(html, ContainsSubstring(
                         "<code>train.py:&lt;lambda&gt;:42</code><details id=\"call-41301\">"));
    all.overview.in_flight->stacks = nullptr;
    CHECK_THAT(row(page(all), "<code>ncclGroupEnd"), EndsWith("||not known"));
    CHECK_THAT(html, ContainsSubstring("<p>3 calls have been running for 1.00s or longer."));
    CHECK_THAT(html, ContainsSubstring("And 2 more, which began later."));
    all.overview.in_flight->oldest.clear();
    CHECK_THAT(page(all), ContainsSubstring("No call has been running for 1.00s or longer."));
    all.overview.in_flight.reset();
    CHECK_THAT(page(all), ContainsSubstring("the probe <code>in_flight</code> is not up"));
}

TEST_CASE("the page reloads only if it is asked to") {
    CHECK_THAT(page(facts()), !ContainsSubstring("http-equiv"));
    CHECK_THAT(page(facts()), ContainsSubstring("<script src=\"./status.js?v="));
    CHECK_THAT(page(facts(), 7), !ContainsSubstring("<script"));
    CHECK_THAT(page(facts()), ContainsSubstring("<a href=\"./?refresh=10\">"));
    const std::string html = page(facts(), 7);
    CHECK_THAT(html, ContainsSubstring("<meta http-equiv=\"refresh\" content=\"7\">"));
    CHECK_THAT(html, ContainsSubstring("<a href=\"./\">Stop that</a>"));
}

TEST_CASE("every table of the page can be told from the others and read aloud") {
    const std::string html = page(facts());
    CHECK(count(html, "<table") == 9);
    CHECK(count(html, "<thead>") == 9);
    CHECK(count(html, "<th>") == count(html, "<tr><th>"));  // others have a scope
    for (const std::string id : {"in-flight", "probes", "processes", "gpus", "events",
                                 "out-of-memory", "allocations", "slow-calls", "libraries"}) {
        CHECK(count(html, "<h2 id=\"" + id + "\">") == 1);
        CHECK(count(html, "aria-labelledby=\"" + id + "\" tabindex=\"0\"") == 1);
    }
    CHECK_THAT(html, ContainsSubstring("name=\"viewport\""));
    CHECK_THAT(stylesheet().text, ContainsSubstring("prefers-color-scheme:dark"));
    // On a phone, a cell says what it is.
    CHECK_THAT(stylesheet().text,
               ContainsSubstring(".processes td:nth-child(2)::before{content:\"Holds\"}"));
    CHECK_THAT(html, !ContainsSubstring("style="));
    CHECK_THAT(html, !ContainsSubstring("<style"));
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

TEST_CASE("a line of memory is level unless it changes by more than a fiftieth") {
    CHECK(growth_html({}) == growth_html({1}));
    CHECK_THAT(growth_html({100'000, 100'900}), EndsWith(" level"));
    CHECK_THAT(growth_html({100'000, 100'900, 100'901, 100'800, 100'900}),
               ContainsSubstring("<path d=\"M108 9h16\">"));
    CHECK_THAT(growth_html({0, 0, 0, 0, 100, 0, 100}),
               ContainsSubstring("<path d=\"M100 16h8l8 -14h8\">"));
    CHECK_THAT(growth_html({2'097'152, 1'048'576}), ContainsSubstring("&minus;1.00 MiB"));
    CHECK_THAT(growth_html({0, 0}), ContainsSubstring("level"));
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
                                 "is switched off by the configuration."));
    all.probes.back().state = probes::ProbeState::up;  // it does not know yet
    CHECK_THAT(page(all), !ContainsSubstring("There are no verdicts"));
}
