#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <limits>
#include <random>
#include <string>

#include "exporter/base/text/quantity_text.h"
#include "exporter/base/text/text.h"

using gpusnoop::find_invalid_utf8;
using gpusnoop::printable_lines;
using gpusnoop::to_valid_utf8;
using gpusnoop::utf8_step;
using namespace gpusnoop;

namespace {

const std::string kBad = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

TEST_CASE("text that is fine stays as it is") {
    CHECK(to_valid_utf8("", 10).empty());
    CHECK(to_valid_utf8("python3", 128) == "python3");
    CHECK(to_valid_utf8("a \"b\" \\ {c}", 128) == "a \"b\" \\ {c}");
    // The first and last character of each length, and both neighbours of the surrogates.
    const std::string edges =
        "\x7E\xC2\xA0\xDF\xBF\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF\xF0\x90\x80\x80\xF4"
        "\x8F\xBF\xBF";
    CHECK(to_valid_utf8(edges, 128) == edges);
    CHECK(find_invalid_utf8(edges) == std::string::npos);
}

TEST_CASE("bytes that are no UTF-8 become replacement characters") {
    CHECK(to_valid_utf8("a\xFFz", 128) == "a" + kBad + "z");
    CHECK(to_valid_utf8("\xFF\xFE", 128) == kBad + kBad);
    CHECK(to_valid_utf8("\x80z", 128) == kBad + "z");
    SECTION("overlong forms") {
        CHECK(to_valid_utf8("\xC0\xAF", 128) == kBad + kBad);
        CHECK(to_valid_utf8("\xE0\x80\xAF", 128) == kBad + kBad + kBad);
        CHECK(to_valid_utf8("\xF0\x80\x80\xAF", 128) == kBad + kBad + kBad + kBad);
    }
    SECTION("surrogates and what is above U+10FFFF") {
        CHECK(to_valid_utf8("\xED\xA0\x80", 128) == kBad + kBad + kBad);
        CHECK(to_valid_utf8("\xF4\x90\x80\x80", 128) == kBad + kBad + kBad + kBad);
        CHECK(to_valid_utf8("\xF5\x80\x80\x80", 128) == kBad + kBad + kBad + kBad);
    }
    SECTION("a character that is cut short is one replacement, and what follows is kept") {
        CHECK(to_valid_utf8("\xE2\x82", 128) == kBad);
        CHECK(to_valid_utf8("\xE2\x82z", 128) == kBad + "z");
        CHECK(to_valid_utf8("\xF0\x9F\x98", 128) == kBad);
        CHECK(to_valid_utf8("\xC3\xC3\xA9", 128) == kBad + "\xC3\xA9");
    }
    CHECK(find_invalid_utf8("abc\xE2\x82") == 3);
}

TEST_CASE("control characters become replacement characters and a NUL ends the text") {
    CHECK(to_valid_utf8("a\nb\tc\x1B[31m\x7F", 128) ==
          "a" + kBad + "b" + kBad + "c" + kBad + "[31m" + kBad);
    CHECK(to_valid_utf8("\xC2\x80\xC2\x9B\xC2\x9F", 128) == kBad + kBad + kBad);  // C1
    CHECK(to_valid_utf8(std::string("comm\0\0rest", 10), 128) == "comm");
    CHECK(to_valid_utf8(std::string("\0", 1), 128).empty());
}

TEST_CASE("text is cut between characters") {
    CHECK(to_valid_utf8("abcdef", 3) == "abc");
    CHECK(to_valid_utf8("abc", 3) == "abc");
    CHECK(to_valid_utf8("abc", 0).empty());
    CHECK(to_valid_utf8("a\xC3\xA9", 2) == "a");
    CHECK(to_valid_utf8("a\xC3\xA9", 3) == "a\xC3\xA9");
    CHECK(to_valid_utf8("\xF0\x9F\x98\x80", 3).empty());
    // A replacement character takes three bytes of the result.
    CHECK(to_valid_utf8("\xFF\xFF", 5) == kBad);
}

TEST_CASE("whatever the bytes, the result is valid, bounded, and stable") {
    std::mt19937 random(1);  // NOLINT: the same bytes in every run
    for (int round = 0; round < 20000; ++round) {
        std::string bytes(random() % 40, '\0');
        for (char &c : bytes) {
            c = static_cast<char>(random() % 4 == 0 ? random() % 128 : 128 + random() % 128);
        }
        const std::size_t max = random() % 64;
        const std::string text = to_valid_utf8(bytes, max);
        REQUIRE(text.size() <= max);
        REQUIRE(find_invalid_utf8(text) == std::string::npos);
        REQUIRE(to_valid_utf8(text, max) == text);
    }
}

TEST_CASE("lines keep their ends, and nothing else that a terminal obeys") {
    CHECK(printable_lines("").empty());
    CHECK(printable_lines("a\nb\n") == "a\nb\n");
    CHECK(printable_lines("a\x1B[2J\r\n\n\xE2\x80\xAE"
                          "b\xC2\x9B") == "a" + kBad + "[2J" + kBad + "\n\n" + kBad + "b" + kBad);
}

TEST_CASE("rates and durations fit into their columns") {
    CHECK(rate_text(0) == "0");
    CHECK(rate_text(-1) == "0");
    CHECK(rate_text(0.001) == "<0.01");
    CHECK(rate_text(0.5) == "0.50");
    CHECK(rate_text(9.999) == "10.0");
    CHECK(rate_text(12.34) == "12.3");
    CHECK(rate_text(99'999) == "99999");
    CHECK(rate_text(99'999.7) == "100k");
    CHECK(rate_text(1'234'567) == "1.23M");
    CHECK(rate_text(1e300) == ">999T");
    CHECK(duration_text({}) == "-");
    CHECK(duration_text(312e-9) == "312ns");
    CHECK(duration_text(999.7e-9) == "1.00us");
    CHECK(duration_text(1.2345e-3) == "1.23ms");
    CHECK(duration_text(45.67) == "45.7s");
    CHECK(duration_text(86'400) == "86400s");
    for (double value = 1e-12; value < 1e17; value *= 1.37) {
        CAPTURE(value);
        REQUIRE(rate_text(value).size() <= 7);
        REQUIRE(duration_text(std::min(value, 9'999'999.0)).size() <= 8);
    }
    CHECK(span_text(12.9) == "12s");
    CHECK(span_text(80) == "1m 20s");
    CHECK(span_text(7'500) == "2h 5m");
    CHECK(span_text(273'600) == "3d 4h");
    CHECK(span_text(-5) == "0s");
}

TEST_CASE("a duration that goes on is as exact as a person wants it") {
    CHECK(age_text(0.0125) == "12.5ms");
    CHECK(age_text(59.9) == "59.9s");
    CHECK(age_text(60) == "1m 0s");
    CHECK(age_text(7'500) == "2h 5m");
}

TEST_CASE("sizes and counts as people read them") {
    CHECK(bytes_text(0) == "0 B");
    CHECK(bytes_text(1023) == "1023 B");
    CHECK(bytes_text(1024) == "1.00 KiB");
    CHECK(bytes_text(1536) == "1.50 KiB");
    CHECK(bytes_text((1U << 20U) - 1) == "1.00 MiB");
    CHECK(bytes_text(std::uint64_t{8} << 30U) == "8.00 GiB");
    CHECK(bytes_text(std::uint64_t{80} << 30U) == "80.0 GiB");
    CHECK(bytes_text(std::numeric_limits<std::uint64_t>::max()) == "16.0 EiB");
    CHECK(count_text(0) == "0");
    CHECK(count_text(999) == "999");
    CHECK(count_text(1'000) == "1,000");
    CHECK(count_text(1'234'567) == "1,234,567");
    CHECK(count_text(std::numeric_limits<std::uint64_t>::max()) == "18,446,744,073,709,551,615");
}
