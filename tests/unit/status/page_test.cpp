// The page at / from given facts: what it says, what it leaves out, and that it does no harm.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstddef>
#include <string>
#include <vector>

#include "exporter/http/route.h"
#include "exporter/probes/frame/probe.h"
#include "exporter/status/assets.h"
#include "exporter/status/parts.h"
#include "exporter/status/status_page.h"
#include "tests/harness/counting.h"
#include "tests/harness/full_page.h"
#include "tests/unit/status/page_facts.h"

using namespace gpusnoop;
using namespace gpusnoop::status;
using namespace page_facts;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using harness::count;
using harness::section_of;

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
    CHECK(row(section_of(html, "job-reports"), "<time>2026-03-01 09:29:31Z") ==
          "2026-03-01 09:29:31Z|&lt;eval.py&gt; (pid 40000) lasted 5m 0s; end: SIGSEGV");
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
    all.overview.job_reports->last.clear();
    CHECK_THAT(section_of(page(all), "job-reports"), ContainsSubstring("No job has ended"));
    all.overview.job_reports.reset();
    CHECK_THAT(section_of(page(all), "job-reports"), ContainsSubstring("<code>host_life</code>"));
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
    CHECK(count(html, "<table") == all_lists.size());
    CHECK(count(html, "<thead>") == all_lists.size());
    CHECK(count(html, "<th>") == count(html, "<tr><th>"));  // others have a scope
    for (const ListKind *const list : all_lists) {
        const std::string id(list->id);
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

TEST_CASE("the status page looks at probes and processes only when it takes a sample") {
    status::StatusPage page;
    int looks = 0;
    int samples = 0;
    for (int round = 0; round < 100; round++) {
        page.look_at(
            [&] {
                looks++;
                return std::vector<probes::Health>(1);
            },
            [&] {
                samples++;
                return std::vector<probes::ProcessSample>(1);
            });
    }
    CHECK(looks == 1);
    CHECK(samples == 1);
}

TEST_CASE("browsers keep what the page loads, until another exporter has another one") {
    using status::StatusPage;
    http::Request request;
    request.path = "/status.css";
    const http::Response style = StatusPage::asset(request);
    CHECK(style.content_type == "text/css; charset=utf-8");
    CHECK(*style.body == status::stylesheet().text);
    CHECK(style.cache_control == "private, max-age=31536000, immutable");
    request.path = "/status.js";
    const http::Response script = StatusPage::asset(request);
    CHECK(script.content_type == "text/javascript; charset=utf-8");
    CHECK(*script.body == status::script().text);
    CHECK(status::stylesheet().version != status::script().version);
    status::Asset changed = status::script();
    changed.version += "1";
    CHECK(status::address_of(changed) != status::address_of(status::script()));
}
