#include "exporter/http/pages.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>

using Catch::Matchers::ContainsSubstring;
using gpusnoop::http::escape_html;
using gpusnoop::http::landing_page;
using gpusnoop::http::LandingPage;

TEST_CASE("markup in texts is escaped") {
    CHECK(escape_html("<a href=\"x\" b='y'>&amp;</a>") ==
          "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;amp;&lt;/a&gt;");
    CHECK(escape_html("\xFF\n\xC3\xA9") == "\xEF\xBF\xBD\xEF\xBF\xBD\xC3\xA9");
    CHECK(escape_html("<<<<", 2) == "&lt;&lt;");
}

TEST_CASE("the landing page links to the endpoints and shows each probe") {
    LandingPage page;
    page.version = "1.2.3";
    page.revision = "abc<def";
    page.telemetry_path = "/gpu";
    page.probes.push_back({"cuda", true, "uprobe.multi", 18, {"/usr/lib/libcudart.so.12", "/b"}});
    page.probes.push_back({"fence", false, "no kprobes: <script>alert(1)</script>", 0, {}});
    const std::string html = landing_page(page);

    CHECK_THAT(html, ContainsSubstring("<a href=\"/gpu\">/gpu</a>"));
    CHECK_THAT(html, ContainsSubstring("<a href=\"/api/v1/allocations\">"));
    CHECK_THAT(html, ContainsSubstring("<a href=\"/api/v1/allocations?format=folded\">"));
    CHECK_THAT(html, ContainsSubstring("<a href=\"/api/v1/functions\">"));
    CHECK_THAT(html, ContainsSubstring("<a href=\"/-/healthy\">"));
    CHECK_THAT(html, ContainsSubstring("<a href=\"/-/ready\">"));
    CHECK_THAT(html, ContainsSubstring("Version 1.2.3, revision abc&lt;def."));
    CHECK_THAT(html, ContainsSubstring("<tr><td>cuda</td><td class=\"up\">up</td><td class=\"n\">18"
                                       "</td><td>uprobe.multi</td><td class=\"l\">"
                                       "/usr/lib/libcudart.so.12<br>/b</td></tr>"));
    CHECK_THAT(html, ContainsSubstring("<tr><td>fence</td><td class=\"down\">down</td>"));
    CHECK_THAT(html, ContainsSubstring("no kprobes: &lt;script&gt;alert(1)&lt;/script&gt;"));
    CHECK_THAT(html, !ContainsSubstring("<script"));
}

TEST_CASE("the landing page stays small however many libraries there are") {
    LandingPage page;
    page.probes.push_back({"cuda", true, "", 1, std::vector<std::string>(10000, "/lib/x.so")});
    const std::string html = landing_page(page);
    CHECK(html.size() < 10000);
    CHECK_THAT(html, ContainsSubstring("<br>and 9950 more</td>"));
}

TEST_CASE("without probes the landing page says so") {
    const std::string html = landing_page({});
    CHECK_THAT(html, ContainsSubstring("No probe is enabled."));
    CHECK_THAT(html, !ContainsSubstring("<table"));
}
