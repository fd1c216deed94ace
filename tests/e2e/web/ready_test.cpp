// What /-/ready says.
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "tests/harness/exporter.h"

using namespace harness;

TEST_CASE("an exporter is ready when it has looked at all processes", "[e2e][core]") {
    require_bpf();
    const Exporter exporter;
    eventually("it to be ready: " + exporter.log(),
               [&] { return http(exporter.port(), "/-/ready").status == 200; });
    CHECK(exporter.scrape().sum("gpusnoop_discovery_last_round_age_seconds") < 10);
}

TEST_CASE("an exporter with process ids of its own is not ready, and says why", "[e2e]") {
    require_bpf();
    const Exporter exporter("", {"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"});
    const HttpAnswer answer = http(exporter.port(), "/-/ready");
    CHECK(answer.status == 503);
    CHECK(answer.body.find("hostPID") != std::string::npos);
    CHECK(exporter.log().find("process ids of the host are not visible") != std::string::npos);
}
