// The section of the page at / on errors that the driver reports.
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "exporter/status/status_page.h"

using namespace gpusnoop;
using namespace gpusnoop::status;

namespace {

probes::XidOverview fault() {
    probes::XidOverview xid;
    xid.at = std::chrono::nanoseconds(1'772'357'400'123'456'789);  // 2026-03-01 09:30
    xid.code = 31;
    xid.kind = "application";
    xid.device = "0000:3b:00.0";
    xid.gpu = "2";
    xid.pid = 41'230;
    xid.process.emplace().comm = "train.py";
    xid.text = "pid=41230, name=<script>, Ch 00000008";
    return xid;
}

std::string page_of(const std::optional<probes::XidsOverview> &xids) {
    Facts facts;
    facts.overview.xids = xids;
    return page(facts);
}

bool has(const std::string &html, const std::string &text) {
    return html.find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("the page shows the last reports of the driver, as text") {
    probes::XidOverview link = fault();
    link.is_switch = true;
    link.code = 20'034;
    link.kind = "fatal";
    link.gpu = "";
    link.process.reset();
    link.pid = 0;
    link.text = "Fatal, Link 30 LTSSM Fault Up";
    const std::string html = page_of({{{link, fault()}, 17}});
    CHECK(has(html, "SXid 20034"));
    CHECK(has(html, "<b class=\"bad\">fatal</b>"));
    CHECK(has(html, "a switch"));
    CHECK(has(html, "not named"));
    CHECK(has(html, "Xid 31"));
    CHECK(has(html, "train.py"));
    CHECK(has(html, "pid 41230"));
    CHECK(has(html, "name=&lt;script&gt;, Ch 00000008"));
    CHECK(!has(html, "<script>"));
    CHECK(has(html, "And 15 more"));
    CHECK(has(html, "./api/v1/xids"));
}

TEST_CASE("the page says that there are no reports, or that nobody knows") {
    CHECK(has(page_of(probes::XidsOverview()), "has reported no Xid"));
    CHECK(has(page_of(std::nullopt), "the probe <code>xid</code> is not up"));
}
