// The last events and the programs without memory, on the page at /.
#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <string>

#include "exporter/status/status_page.h"

using namespace gpusnoop;
using namespace gpusnoop::status;

// The section of the page at / on programs that were refused GPU memory.

namespace {

std::string page_with(const std::optional<probes::OutOfMemoryOverview> &events) {
    Facts facts;
    facts.overview.out_of_memory = events;
    return page(facts);
}

bool shows(const std::string &html, const std::string &text) {
    return html.find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("the page says who held the memory when programs ran out of it, as text") {
    probes::OutOfMemoryEventOverview event;
    event.at = std::chrono::nanoseconds(1'772'357'400'123'456'789);  // 2026-03-01 09:30
    event.count = 17;
    event.pid = 41'230;
    event.names.comm = "<train>";
    event.gpu = "3";
    event.requested = std::uint64_t{2} << 30U;
    event.verdict = "neighbor";
    event.sentence = "<train> asked for 2.00 GiB on GPU 3; eval.py holds 61.0 GiB";
    const std::string html = page_with({{{event}, 12}});
    CHECK(shows(html, "&lt;train&gt; asked for 2.00 GiB on GPU 3; eval.py holds 61.0 GiB"));
    CHECK(!shows(html, "<train>"));
    CHECK(shows(html, "<code>neighbor</code>"));
    CHECK(shows(html, "And 11 more"));
    CHECK(shows(html, "./api/v1/out_of_memory"));
}

TEST_CASE("the page says that no program ran out of memory, or that nobody knows") {
    CHECK(shows(page_with(probes::OutOfMemoryOverview{}), "No program has run out of GPU memory"));
    const std::string html = page_with(std::nullopt);
    CHECK(shows(html.substr(html.find("id=\"out-of-memory\"")), "Not known: the probe"));
}

// The section of the page at / on errors that the driver reports.

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
