#include "exporter/status/status_page.h"

#include <catch2/catch_test_macros.hpp>
#include <vector>

#include "exporter/http/route.h"
#include "exporter/probes/frame/probe.h"
#include "exporter/status/assets.h"

using namespace gpusnoop;

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
