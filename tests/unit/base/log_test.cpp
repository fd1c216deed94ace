#include "exporter/base/log.h"

#include <spdlog/spdlog.h>
#include <yaml-cpp/yaml.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <limits>
#include <regex>
#include <string>
#include <thread>
#include <vector>

using namespace gpusnoop;  // an alias named log would collide with the C function

namespace {

// The program's log, caught in a file for as long as this lives.
class CaughtLog {
public:
    CaughtLog(log::Level level, log::Format format) : file_(std::tmpfile()) {
        REQUIRE(file_ != nullptr);
        log::setup(level, format, file_);
    }
    CaughtLog(const CaughtLog &) = delete;
    CaughtLog &operator=(const CaughtLog &) = delete;
    ~CaughtLog() {
        log::setup(log::Level::info, log::Format::logfmt);
        std::fclose(file_);
    }

    [[nodiscard]] std::string text() const {
        std::rewind(file_);
        std::string all;
        std::array<char, 4096> chunk{};
        while (const std::size_t n = std::fread(chunk.data(), 1, chunk.size(), file_)) {
            all.append(chunk.data(), n);
        }
        return all;
    }

    // The one line that was logged, without its time and line end.
    [[nodiscard]] std::string line() const {
        const std::string all = text();
        REQUIRE(!all.empty());
        REQUIRE(all.find('\n') == all.size() - 1);
        const std::string time = R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)";
        const std::regex shape("(time=" + time + R"( |\{"time":")" + time + "\",)");
        std::smatch found;
        REQUIRE(std::regex_search(all, found, shape, std::regex_constants::match_continuous));
        return all.substr(found.length(),
                          all.size() - 1 - static_cast<std::size_t>(found.length()));
    }

private:
    std::FILE *file_;
};

}  // namespace

TEST_CASE("a record is one logfmt line") {
    const CaughtLog caught(log::Level::info, log::Format::logfmt);
    SECTION("without fields") {
        log::info("started");
        CHECK(caught.line() == R"(level=INFO msg="started")");
    }
    SECTION("with fields of each type") {
        const std::string path = "/usr/lib/libcudart.so.12";
        log::warn("attached", {{"library", path},
                               {"functions", 6},
                               {"offset", 18446744073709551615U},
                               {"ok", true},
                               {"ratio", 0.5},
                               {"empty", ""},
                               {"words", "a b"}});
        CHECK(caught.line() ==
              "level=WARN msg=\"attached\" library=/usr/lib/libcudart.so.12 functions=6 "
              "offset=18446744073709551615 ok=true ratio=0.5 empty=\"\" words=\"a b\"");
    }
    SECTION("with values that try to break out of it") {
        log::error("odd \"quotes\" and\nlines", {{"a", "x y=\"z\" \\ \n\r\t"},
                                                 {"b", "\x1B[31m"},
                                                 {"c", "\xFF\xFEz"},
                                                 {"d", std::string("nul\0byte", 8)},
                                                 {"e", "k=v"},
                                                 {"f", "\xC2\x9B"},
                                                 {"g", "\xC3\xA9"},
                                                 {"h", "\xE2\x80\xAE"}});
        CHECK(caught.line() ==
              R"(level=ERROR msg="odd \"quotes\" and\nlines" a="x y=\"z\" \\ \n\r\t" )"
              R"(b="\u001b[31m" )"
              "c=\"\xEF\xBF\xBD\xEF\xBF\xBDz\" d=\"nul\xEF\xBF\xBD"
              "byte\" e=\"k=v\" f=\"\\u009b\" g=\"\xC3\xA9\" h=\"\\u202e\"");
    }
}

TEST_CASE("a record is one JSON object") {
    const CaughtLog caught(log::Level::debug, log::Format::json);
    SECTION("with fields of each type") {
        log::debug("attached", {{"library", "/a b"},
                                {"functions", -6},
                                {"ok", false},
                                {"ratio", 0.25},
                                {"nan", std::numeric_limits<double>::quiet_NaN()},
                                {"number as text", "6"}});
        CHECK(caught.line() ==
              R"("level":"DEBUG","msg":"attached","library":"/a b","functions":-6,"ok":false,)"
              R"("ratio":0.25,"nan":"nan","number as text":"6"})");
    }
    SECTION("that a parser reads back, whatever the bytes") {
        std::string every_byte;
        for (int c = 1; c < 128; ++c) {
            every_byte += static_cast<char>(c);
        }
        every_byte += "\xC3\xA9\xE2\x82\xAC";
        log::info(every_byte, {{"value", every_byte}});
        // JSON is YAML.
        const YAML::Node read = YAML::Load("{" + caught.line());
        CHECK(read["msg"].as<std::string>() == every_byte);
        CHECK(read["value"].as<std::string>() == every_byte);
    }
}

TEST_CASE("records below the level are left out") {
    const CaughtLog caught(log::Level::warn, log::Format::logfmt);
    log::debug("no");
    log::info("no");
    CHECK(caught.text().empty());
    log::warn("yes");
    log::error("yes");
    CHECK(caught.text().find("level=ERROR msg=\"yes\"") != std::string::npos);
}

TEST_CASE("what is logged through spdlog directly is a line like any other") {
    const CaughtLog caught(log::Level::info, log::Format::logfmt);
    SECTION("plain") {
        spdlog::info("hello \"{}\"", 1);
        CHECK(caught.line() == R"(level=INFO msg="hello \"1\"")");
    }
    SECTION("with NULs, which no line has") {
        spdlog::error(std::string_view("a\0b\0", 4));
        CHECK(caught.line() ==
              "level=ERROR msg=\"a\xEF\xBF\xBD"
              "b\xEF\xBF\xBD\"");
    }
}

TEST_CASE("lines of several threads do not mix") {
    const CaughtLog caught(log::Level::info, log::Format::logfmt);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([] {
            for (int n = 0; n < 200; ++n) {
                log::info("tick", {{"text", "0123456789 0123456789"}});
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    const std::string all = caught.text();
    const std::regex line("time=[^ ]* level=INFO msg=\"tick\" text=\"0123456789 0123456789\"\n");
    const auto lines = std::distance(std::sregex_iterator(all.begin(), all.end(), line), {});
    CHECK(lines == 800);
    CHECK(std::regex_replace(all, line, "").empty());
}

TEST_CASE("lines that find no room on the disk are counted") {
    std::FILE *const full = std::fopen("/dev/full", "w");
    REQUIRE(full != nullptr);
    log::setup(log::Level::info, log::Format::logfmt, full);
    CHECK(log::lines_lost() == 0);
    log::info("one");
    log::debug("left out, not lost");
    log::info("two");
    CHECK(log::lines_lost() == 2);
    // From here on into a file with room.
    const CaughtLog caught(log::Level::info, log::Format::logfmt);
    std::fclose(full);
    log::info("three");
    CHECK(log::lines_lost() == 0);
}

TEST_CASE("levels and formats are known by their names") {
    CHECK(log::parse_level("debug") == log::Level::debug);
    CHECK(log::parse_level("error") == log::Level::error);
    REQUIRE_FALSE(log::parse_level("INFO"));
    CHECK(log::parse_level("INFO").error().message ==
          "unknown log level \"INFO\", must be debug, info, warn or error");
    CHECK(log::parse_format("json") == log::Format::json);
    CHECK(log::parse_format("xml").error().message ==
          "unknown log format \"xml\", must be logfmt or json");
}
