// What reaches the terminal: harmless characters, cut and aligned.
#include "exporter/cli/top/text.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "exporter/base/text/text.h"
#include "exporter/cli/top/client/address.h"
#include "exporter/cli/top/terminal.h"

using namespace gpusnoop;
using namespace gpusnoop::top;

TEST_CASE("nothing that a terminal obeys is printed") {
    const std::string fffd = "\xEF\xBF\xBD";
    CHECK(printable("plain <text> \xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80") ==
          "plain <text> \xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
    CHECK(printable("\x1b[2J\x07\r\n\t\x7f") == fffd + "[2J" + fffd + fffd + fffd + fffd + fffd);
    CHECK(printable("\xC2\x9B"
                    "31m\xC2\x85\xC2\xA0") == fffd + "31m" + fffd + "\xC2\xA0");  // CSI of C1
    CHECK(printable("\xE2\x80\xAE\xE2\x80\xA8\xE2\x81\xA6\xEF\xBB\xBF") ==
          fffd + fffd + fffd + fffd);
    CHECK(printable(std::string("\0a", 2)) == fffd + "a");
    for (int first = 0; first < 256; first++) {
        for (int second = 0; second < 256; second++) {
            const std::string text = {static_cast<char>(first), static_cast<char>(second), 'm'};
            const std::string shown = printable(text);
            REQUIRE(find_invalid_utf8(shown) == std::string::npos);
            for (const char c : shown) {
                REQUIRE(static_cast<unsigned char>(c) >= 0x20);
                REQUIRE(c != 0x7F);
            }
            // A C1 control is C2 and then 80 to 9F.
            for (std::size_t at = 0; at + 1 < shown.size(); at++) {
                const bool is_c1 =
                    shown[at] == '\xC2' && static_cast<unsigned char>(shown[at + 1]) < 0xA0;
                REQUIRE_FALSE(is_c1);
            }
        }
    }
}

TEST_CASE("lines are cut by characters, not by bytes") {
    CHECK(width_of("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80") == 4);
    CHECK(cut("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", 3) == "a\xC3\xA9\xE2\x82\xAC");
    CHECK(cut("abc", 3) == "abc");
    CHECK(cut("abc", 0).empty());
    CHECK(left_aligned("\xC3\xA9", 3) == "\xC3\xA9  ");
    CHECK(right_aligned("\xC3\xA9", 3) == "  \xC3\xA9");
    CHECK(right_aligned("long", 3) == "long");
}

TEST_CASE("a screen is drawn within its rows and columns") {
    const std::vector<std::string> lines = {"\xC3\xA9t\xC3\xA9", "second", "third"};
    CHECK(screen_text(lines, {10, 10}) ==
          "\033[H\xC3\xA9t\xC3\xA9\033[K\r\nsecond\033[K\r\nthird\033[K\033[J");
    CHECK(screen_text(lines, {2, 4}) == "\033[H\xC3\xA9t\xC3\xA9\033[K\r\nseco");
    CHECK(screen_text(lines, {1, 3}) == "\033[H\xC3\xA9t\xC3\xA9");
    CHECK(screen_text({}, {1, 3}) == "\033[H\033[J");
}

TEST_CASE("an address is a host, a port and perhaps a path") {
    const auto text = [](const std::string &address) {
        const auto parsed = parse_address(address);
        return parsed ? parsed->text() : parsed.error().message;
    };
    CHECK(text("http://127.0.0.1:19435") == "http://127.0.0.1:19435");
    CHECK(text("http://gpu-node-1.example") == "http://gpu-node-1.example:19435");
    CHECK(text("gpu-node-1:80/") == "http://gpu-node-1:80");
    CHECK(text("http://[::1]:9") == "http://[::1]:9");
    CHECK(text("[::1]") == "http://[::1]:19435");
    CHECK(text("http://proxy/node/1/") == "http://proxy:19435/node/1");
    CHECK(parse_address("http://[::1]:9")->host == "::1");
    CHECK(text("https://host") == "https://host:19435");
    CHECK(text("https://[::1]:443/x") == "https://[::1]:443/x");
    CHECK(text("unix:/run/gpusnoop.sock") == "unix:/run/gpusnoop.sock");
    CHECK(parse_address("unix:/run/gpusnoop.sock")->url() == "http://localhost");
    for (const std::string wrong : {"", "http://", ":19435", "host:", "host:0", "host:65536",
                                    "host:1x", "::1", "[::1", "[::1]x", "[]", "a b", "host/a b",
                                    "user@host", "host?x", "h\xC3\xB6st", "[::1]:", "ftp://x"}) {
        CAPTURE(wrong);
        CHECK(text(wrong) == "\"" + wrong +
                                 "\" is not an address of an exporter such as "
                                 "http://127.0.0.1:19435");
    }
    for (const std::string wrong : {"https://http://x", "unix:", "unix:x", "unix:/a b"}) {
        CHECK_FALSE(parse_address(wrong));
    }
    CHECK_FALSE(parse_address(std::string(600, 'a')));
    CHECK_FALSE(parse_address("unix:/" + std::string(107, 'a')));
}
