#include "exporter/app.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "tests/unit/logged.h"

using namespace gpusnoop;

namespace {

// Records the steps of reloads. `problem` is what the next configuration has; empty: nothing.
struct Reloading {
    std::string problem;
    std::vector<std::string> steps;
    Reloads reloads{{.begin = [this] { steps.emplace_back("begin"); },
                     .read = [this]() -> Result<config::Config> {
                         steps.emplace_back("read");
                         return problem.empty() ? Result<config::Config>(config::Config())
                                                : fail(problem);
                     },
                     .apply = [this](const auto &) { steps.emplace_back("apply"); },
                     .end =
                         [this](const auto &read) {
                             steps.emplace_back(read ? "end" : "end: " + read.error().message);
                         }}};
};

}  // namespace

TEST_CASE("the start is the first load of the configuration") {
    const Reloading one;
    const metrics::LastReload last = one.reloads.last();
    CHECK(last.successful);
    CHECK(last.problem.empty());
    CHECK(last.last_success > 0);
    CHECK(one.steps.empty());
}

TEST_CASE("a valid configuration is applied") {
    Reloading one;
    CHECK(test::logged([&] { CHECK(one.reloads.run()); }).find("configuration reloaded") !=
          std::string::npos);
    CHECK(one.steps == std::vector<std::string>{"begin", "read", "apply", "end"});
    CHECK(one.reloads.last().successful);
}

TEST_CASE("an invalid configuration is not applied, and each of its mistakes is logged") {
    Reloading one;
    const double before = one.reloads.last().last_success;
    one.problem = "first\nsecond";
    const std::string log = test::logged([&] {
        const Result<> reloaded = one.reloads.run();
        REQUIRE(!reloaded);
        CHECK(reloaded.error().message == "first\nsecond");
    });
    CHECK(log.find("reason=first") != std::string::npos);
    CHECK(log.find("reason=second") != std::string::npos);
    CHECK(log.find("configuration reloaded") == std::string::npos);
    CHECK(one.steps == std::vector<std::string>{"begin", "read", "end: first\nsecond"});
    const metrics::LastReload failed = one.reloads.last();
    CHECK(!failed.successful);
    CHECK(failed.problem == "first\nsecond");
    CHECK(failed.last_success == before);

    one.problem.clear();
    CHECK(one.reloads.run());
    CHECK(one.reloads.last().successful);
    CHECK(one.reloads.last().problem.empty());
    CHECK(one.reloads.last().last_success >= before);
}
