// Slow calls of named functions in the log.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdio>

#include "exporter/base/log.h"
#include "tests/unit/probes/functions/slow_fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;
using Json = nlohmann::json;

namespace {

// The program's log, for as long as this lives.
class CaughtLog {
public:
    CaughtLog() : file_(std::tmpfile()) {
        REQUIRE(file_ != nullptr);
        log::setup(log::Level::info, log::Format::json, file_);
    }
    ~CaughtLog() {
        log::setup(log::Level::info, log::Format::logfmt);
        std::fclose(file_);
    }
    CaughtLog(const CaughtLog &) = delete;
    CaughtLog &operator=(const CaughtLog &) = delete;
    [[nodiscard]] std::vector<Json> lines() const {
        std::rewind(file_);
        std::vector<Json> all;
        std::array<char, 8192> line{};
        while (std::fgets(line.data(), line.size(), file_) != nullptr) {
            all.push_back(Json::parse(line.data()));
        }
        return all;
    }

private:
    std::FILE *file_;
};

}  // namespace

TEST_CASE("each slow call is a line in the log, up to so many a second") {
    const CaughtLog log;
    SlowFixture s({.keep = 3, .log_per_second = 2});
    const auto f = s.fixture.number("f", with_arguments);
    for (int i = 0; i < 5; i++) {
        s.fixture.tell(call(f, 2'000'000'000, 3));
    }
    CHECK(s.calls.not_logged() == 3);
    s.calls.tidy(s.now + 999ms);
    REQUIRE(log.lines().size() == 2);
    s.calls.tidy(s.now + 1s);
    s.calls.tidy(s.now + 2s);
    REQUIRE(log.lines().size() == 3);
    CHECK(log.lines()[2]["not_logged"] == 3);
    s.now += 2s;
    s.fixture.tell(slow(call(f, 1'500'000'000, 3, 5'000)));
    s.answer(s.asked.at(0).ticket, "caller");
    REQUIRE(log.lines().size() == 4);
    const Json line = log.lines()[3];
    CHECK(line["msg"] == "slow call");
    CHECK(line["level"] == "INFO");
    CHECK(line["function"] == "f");
    CHECK(line["library"] == "libx.so.1");
    CHECK(line["duration_seconds"] == 1.5);
    CHECK(line["ended"] == "1970-01-01T00:00:00.000005000Z");
    CHECK(line["pid"] == 42);
    CHECK(line["comm"] == "python");
    CHECK(line["thread"] == "worker");
    CHECK(line["arguments"] == "3=0x30 1=0x10");
    CHECK(line["result"] == "0x3");
    CHECK(line["error"] == "3");
    CHECK(line["stack"] == "caller < main");
    CHECK(s.calls.not_logged() == 3);
}
