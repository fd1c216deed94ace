// The section of the page at / on programs that were refused GPU memory.
#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <string>

#include "exporter/status/status_page.h"

using namespace gpusnoop;
using namespace gpusnoop::status;

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
