#include "exporter/http/basic_auth.h"

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <thread>
#include <vector>

using gpusnoop::http::BasicAuth;
using Verdict = BasicAuth::Verdict;

namespace {

const std::map<std::string, std::string> users = {
    {"alice", "$2y$04$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e"},  // correct horse
    {"bob", "$2b$05$abcdefghijklmnopqrstuuHYAqSTZaD2G3ZsfHYCUGgOo5vA33Sre"},    // pa:ss wörd
    {"carol", "$2a$04$abcdefghijklmnopqrstuuVIVRBIKFfDXzZpLg34SiEnRrdeO5V8S"},  // third
};

std::string base64(const std::string &text) {
    constexpr std::string_view digits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string encoded;
    for (std::size_t i = 0; i < text.size(); i += 3) {
        const auto byte = [&](std::size_t at) {
            return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U;
        };
        const unsigned bits = byte(i) << 16U | byte(i + 1) << 8U | byte(i + 2);
        encoded += digits[bits >> 18U];
        encoded += digits[bits >> 12U & 63U];
        encoded += i + 1 < text.size() ? digits[bits >> 6U & 63U] : '=';
        encoded += i + 2 < text.size() ? digits[bits & 63U] : '=';
    }
    return encoded;
}

std::string basic(const std::string &credentials) {
    return "Basic " + base64(credentials);
}

}  // namespace

TEST_CASE("those with the right password come in, and nobody else") {
    BasicAuth auth(users);
    CHECK(auth.is_needed());
    for (int twice = 0; twice < 2; twice++) {
        CHECK(auth.check(basic("alice:correct horse")));
        CHECK(auth.check(basic("bob:pa:ss wörd")));
        CHECK(auth.check("basic  " + base64("carol:third") + " "));
        for (const std::string &login : {basic("alice:correct hors"),
                                         basic("alice:correct horse "),
                                         basic("alice:"),
                                         basic("alice"),
                                         basic("Alice:correct horse"),
                                         basic("bob:correct horse"),
                                         basic(":correct horse"),
                                         basic("nobody:correct horse"),
                                         basic(""),
                                         std::string(),
                                         std::string("Basic"),
                                         std::string("Basic "),
                                         "Bearer " + base64("alice:correct horse"),
                                         base64("alice:correct horse"),
                                         std::string("Basic alice:correct horse"),
                                         "Basic =" + base64("alice:correct horse"),
                                         basic("alice:correct horse") + "=",
                                         basic("alice:correct horse") + "A",
                                         basic(std::string("alice:correct horse\0", 20)),
                                         basic(std::string("alice:correct horse\0x", 21)),
                                         basic("alice:" + std::string(100'000, 'x'))}) {
            INFO(login.substr(0, 80));
            CHECK_FALSE(auth.check(login));
            CHECK(auth.recall(login) != Verdict::allowed);
        }
    }
}

TEST_CASE("without users everybody comes in") {
    BasicAuth auth({});
    CHECK_FALSE(auth.is_needed());
    for (const std::string &login : {std::string(), basic("alice:x")}) {
        CHECK(auth.recall(login) == Verdict::allowed);
        CHECK(auth.check(login));
    }
}

TEST_CASE("a login that was right is remembered, and what is no login is denied at once") {
    BasicAuth auth(users);
    const std::string login = basic("alice:correct horse");
    CHECK(auth.recall(login) == Verdict::unknown);
    CHECK(auth.check(login));
    CHECK(auth.recall(login) == Verdict::allowed);
    CHECK_FALSE(auth.check(basic("alice:wrong")));
    CHECK(auth.recall(basic("alice:wrong")) == Verdict::unknown);
    for (const std::string &none : {std::string(), std::string("Basic"), basic("alice")}) {
        CHECK(auth.recall(none) == Verdict::denied);
    }
}

TEST_CASE("a flood of wrong passwords does not keep a known login waiting") {
    BasicAuth auth(users);
    REQUIRE(auth.check(basic("alice:correct horse")));
    std::atomic<int> denied = 0;
    std::atomic<int> known = 0;
    {
        std::vector<std::jthread> clients;
        for (int i = 0; i < 64; i++) {
            clients.emplace_back([&, i] {
                denied += auth.check(basic("mallory:" + std::to_string(i))) ? 0 : 1;
                known += auth.recall(basic("alice:correct horse")) == Verdict::allowed ? 1 : 0;
            });
        }
    }
    CHECK(denied == 64);
    CHECK(known == 64);
}
