// The configuration reader against what is no configuration, and against what is made to break it.
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>

#include "exporter/base/text/text.h"
#include "exporter/config/config.h"
#include "exporter/probes/frame/registry.h"
#include "tests/unit/config/problems.h"
#include "tests/unit/sanitized.h"

using namespace gpusnoop;
using namespace gpusnoop::test;
using config::Config;

namespace {

std::string repeat(const std::string &text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) {
        all += text;
    }
    return all;
}

}  // namespace

TEST_CASE("what is no configuration at all is one clear sentence") {
    CHECK(problems("web: [").starts_with("c.yaml:1:1: not valid YAML: "));
    CHECK(problems("web:\n\tlog: 1").starts_with("c.yaml:2:"));
    CHECK(problems("a: b: c").starts_with("c.yaml:1:5: not valid YAML: "));
    CHECK(problems("web: *nobody").starts_with("c.yaml:1:6: not valid YAML: "));
    CHECK(problems("web: {}\n---\nlog: {}\n") == "c.yaml:2:1: holds more than one YAML document");
    CHECK(problems("web: {}\nlog: \xFF\n") == "c.yaml:2:6: not a text file: it is not valid UTF-8");
    CHECK(problems(std::string("a\0b", 3)) ==
          "c.yaml:1:2: not a text file: it holds a control character");
    // yaml-cpp would end the file here, and never see the mistake behind it.
    CHECK(problems("web: {}\n\x04\nfoo: 1") ==
          "c.yaml:2:1: not a text file: it holds a control character");
    CHECK(problems(repeat("# 345678\n", 150000)) ==
          "c.yaml: larger than 1 MiB, which no configuration is");
    for (const std::string piece : {"[", "{", "{a: ", "[a,", "- ", "? "}) {
        INFO(piece);
        const std::string message = problems(repeat(piece, 100000));
        CHECK(message.starts_with("c.yaml:1:"));
        CHECK(message.ends_with(": nested too deeply"));
    }
}

TEST_CASE("nesting that never ends is no trap") {
    CHECK(problems("&a web: &b {listen_address: *b}").find("expected a text, got a mapping") !=
          std::string::npos);
    // yaml-cpp's LoadAll never returns from this one.
    CHECK(problems("&a,b").starts_with("c.yaml:1:"));
    CHECK(problems("&r\nweb: *r\n") == "c.yaml:2:1: web.web: unknown key");
    // A billion laughs: each name stands for ten of the one before.
    std::string bomb = "a0: &a0 [x]\n";
    for (int i = 1; i < 30; ++i) {
        const std::string before = "*a" + std::to_string(i - 1);
        bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" +
                repeat(before + ", ", 9) + before + "]\n";
    }
    CHECK(problems(bomb).starts_with("c.yaml:1:1: a0: unknown key"));
}

TEST_CASE("a file that cannot be read is one clear sentence") {
    CHECK(config::load("/nonexistent/c.yaml", probes::setting_blocks()).error().message ==
          "/nonexistent/c.yaml: No such file or directory");
    CHECK(config::load("/", probes::setting_blocks()).error().message == "/: Is a directory");
    CHECK(config::load("/dev/null", probes::setting_blocks()) == Config{});
    CHECK(config::load("/dev/zero", probes::setting_blocks()).error().message ==
          "/dev/zero: larger than 1 MiB, which no configuration is");
}

TEST_CASE("no mutation of config.yaml crashes the reader or yields broken text") {
    std::ifstream file(shipped_config());
    std::stringstream stream;
    stream << file.rdbuf();
    const std::string original = stream.str();
    REQUIRE(original.size() > 500);
    const std::string special = "{}[]:,&*#?|-<>=!%@`'\" \n\t~\\0123456789";
    std::mt19937 random(1);  // NOLINT: the same bytes in every run
    int accepted = 0;
    constexpr int rounds = random_rounds(2000);
    for (int round = 0; round < rounds; ++round) {
        std::string text = original;
        const auto changes = 1 + random() % 8;
        for (unsigned n = 0; n < changes; ++n) {
            const std::size_t at = random() % text.size();
            switch (random() % 4) {
                case 0:
                    text[at] = static_cast<char>(random() % 256);
                    break;
                case 1:
                    text.insert(at, 1, special[random() % special.size()]);
                    break;
                case 2:
                    text.erase(at, random() % 20);
                    break;
                default:
                    text.insert(at, text.substr(random() % text.size(), random() % 60));
            }
            text += text.empty() ? "x" : "";
        }
        const auto parsed = config::parse(text, "c.yaml", probes::setting_blocks());
        accepted += parsed ? 1 : 0;
        if (!parsed) {
            REQUIRE(parsed.error().message.starts_with("c.yaml"));
            REQUIRE(find_invalid_utf8(parsed.error().message) == std::string::npos);
        }
    }
    // Changes inside comments are fine; else this test would only see syntax errors.
    CHECK(accepted > rounds / 30);
    CHECK(accepted < rounds - rounds / 30);
}

TEST_CASE("no random bytes crash the reader") {
    std::mt19937 random(2);  // NOLINT: the same bytes in every run
    const std::string alphabet = "{}[]:,&*#?|-<>!%@'\" \n\na1~";
    for (int round = 0; round < 5000; ++round) {
        std::string text(random() % 200, '\0');
        for (char &c : text) {
            c = round % 2 == 0 ? alphabet[random() % alphabet.size()]
                               : static_cast<char>(random() % 256);
        }
        const auto parsed = config::parse(text, "c.yaml", probes::setting_blocks());
        REQUIRE((parsed || !parsed.error().message.empty()));
    }
}
