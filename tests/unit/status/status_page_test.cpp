#include "exporter/status/status_page.h"

#include <catch2/catch_test_macros.hpp>
#include <vector>

#include "exporter/probes/frame/probe.h"

using namespace gpusnoop;

TEST_CASE("the status page looks at the probes' health only when it takes a sample") {
    status::StatusPage page;
    int looks = 0;
    for (int round = 0; round < 100; round++) {
        page.look_at([&] {
            looks++;
            return std::vector<probes::Health>(1);
        });
    }
    CHECK(looks == 1);
}
