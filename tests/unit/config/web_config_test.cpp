// The reader of --web.config.file.
#include "exporter/config/web_config.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <utility>
#include <vector>

using namespace gpusnoop::config;

namespace {

const std::string hash = "$2y$04$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e";

std::string web_problems(const std::string &text) {
    const auto parsed = parse_web_config(text, "/etc/gpusnoop/w.yaml");
    return parsed ? "" : parsed.error().message;
}

std::string tls(const std::string &more) {
    return "tls_server_config:\n  cert_file: c.pem\n  key_file: k.pem\n" + more;
}

}  // namespace

TEST_CASE("a web configuration is read as the toolkit has it") {
    const auto empty = parse_web_config("", "w.yaml");
    REQUIRE(empty);
    CHECK(*empty == WebConfig{});
    const auto none = parse_web_config("tls_server_config: {}\nbasic_auth_users:\n", "w.yaml");
    REQUIRE(none);
    CHECK(*none == WebConfig{});

    const auto all = parse_web_config(tls("  client_ca_file: /etc/ca.pem\n"
                                          "  client_auth_type: RequireAndVerifyClientCert\n"
                                          "  min_version: TLS12\n"
                                          "  max_version: TLS13\n"
                                          "  cipher_suites:\n"
                                          "    - TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\n"
                                          "    - TLS_AES_256_GCM_SHA384\n"
                                          "    - TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256\n"
                                          "  curve_preferences: [X25519, CurveP256]\n"
                                          "  prefer_server_cipher_suites: false\n"
                                          "http_server_config:\n"
                                          "  http2: true\n"
                                          "  headers:\n"
                                          "    Strict-Transport-Security: max-age=31536000\n"
                                          "    X-Frame-Options: deny\n"
                                          "    X-XSS-Protection: \"\"\n"
                                          "basic_auth_users:\n"
                                          "  alice: " +
                                          hash + "\n  \"b c\": " + hash + "\n"),
                                      "/etc/gpusnoop/w.yaml");
    REQUIRE(all);
    WebTls wanted;
    wanted.cert_file = "/etc/gpusnoop/c.pem";
    wanted.key_file = "/etc/gpusnoop/k.pem";
    wanted.client_ca_file = "/etc/ca.pem";
    wanted.client_auth = ClientAuth::require_and_verify;
    wanted.cipher_suites = {"ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"};
    wanted.tls13_cipher_suites = {"TLS_AES_256_GCM_SHA384"};
    wanted.curves = {"X25519", "P-256"};
    wanted.prefer_server_cipher_suites = false;
    CHECK(all->tls == wanted);
    CHECK(all->headers ==
          std::map<std::string, std::string>{{"Strict-Transport-Security", "max-age=31536000"},
                                             {"X-Frame-Options", "deny"}});
    CHECK(all->users == std::map<std::string, std::string>{{"alice", hash}, {"b c", hash}});
}

TEST_CASE("each way to ask for client certificates has its name") {
    for (const auto &[name, auth] : {std::pair("NoClientCert", ClientAuth::none),
                                     std::pair("RequestClientCert", ClientAuth::request),
                                     std::pair("RequireAnyClientCert", ClientAuth::require_any),
                                     std::pair("RequireClientCert", ClientAuth::require_any)}) {
        INFO(name);
        const auto read =
            parse_web_config(tls("  client_auth_type: " + std::string(name) + "\n"), "w.yaml");
        REQUIRE(read);
        CHECK(read->tls->client_auth == auth);
    }
    const auto given = parse_web_config(
        tls("  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: a\n"), "w.yaml");
    REQUIRE(given);
    CHECK(given->tls->client_auth == ClientAuth::verify_if_given);
    CHECK(given->tls->client_ca_file == "a");
}

TEST_CASE("what is wrong in a web configuration has its place and a sentence") {
    const std::string file = "/etc/gpusnoop/w.yaml";
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"tls_server_confg: {}",
         ":1:1: tls_server_confg: unknown key, did you mean \"tls_server_config\"?"},
        {"rate_limit: {interval: 1s}",
         ":1:13: rate_limit: is not supported: the number of clients at one time is limited "
         "already"},
        {"tls_server_config: {cert_file: a}",
         ":1:20: tls_server_config: has no key_file: TLS needs a certificate and its key"},
        {"tls_server_config: {key_file: a}",
         ":1:20: tls_server_config: has no cert_file: TLS needs a certificate and its key"},
        {"tls_server_config: {key_file: a, cert_file: \"\"}",
         ":1:45: tls_server_config.cert_file: must be the path of a file"},
        {tls("  min_version: TLS11"),
         ":4:16: tls_server_config.min_version: this version has holes and is not spoken: TLS12 or "
         "TLS13"},
        {tls("  min_version: TLS14"),
         ":4:16: tls_server_config.min_version: expected TLS12 or TLS13, got \"TLS14\""},
        {tls("  min_version: TLS13\n  max_version: TLS12"),
         ":5:16: tls_server_config.max_version: is below min_version, so that no version is left"},
        {tls("  cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]"),
         ":4:19: tls_server_config.cipher_suites[0]: expected TLS_AES_128_GCM_SHA256, "},
        {tls("  cipher_suites: TLS_AES_128_GCM_SHA256"),
         ":4:18: tls_server_config.cipher_suites: expected a list of cipher suites, got "},
        {tls("  curve_preferences: [CurveP9]"),
         ":4:23: tls_server_config.curve_preferences[0]: expected CurveP256, CurveP384, CurveP521 "
         "or X25519, got \"CurveP9\""},
        {tls("  client_auth_type: RequireAndVerifyClientCert"),
         ":4:21: tls_server_config.client_auth_type: needs client_ca_file, to verify certificates "
         "with"},
        {tls("  client_ca_file: a"),
         ":4:19: tls_server_config.client_ca_file: does nothing without a client_auth_type that "
         "verifies: VerifyClientCertIfGiven or RequireAndVerifyClientCert"},
        {tls("  cert: inline"),
         ":4:9: tls_server_config.cert: is not supported: put it into a file, and name that as "
         "cert_file"},
        {tls("  client_allowed_sans: [a]"),
         ":4:24: tls_server_config.client_allowed_sans: is not supported: let client_ca_file be "
         "of an authority that certifies none but the clients that may come"},
        {"http_server_config: {http2: maybe}",
         ":1:29: http_server_config.http2: expected true or false, got \"maybe\""},
        {"http_server_config: {headers: {Server: x}}",
         ":1:32: http_server_config.headers.Server: unknown key"},
        {"http_server_config: {headers: {X-Frame-Options: \"a\\nb\"}}",
         ":1:49: http_server_config.headers.X-Frame-Options: must be printable ASCII on one "
         "line, and at most 4096 bytes long"},
        {"http_server_config: {headers: {X-Content-Type-Options: sniff}}",
         ":1:56: http_server_config.headers.X-Content-Type-Options: must be nosniff"},
        {"basic_auth_users: {\"a:b\": " + hash + "}",
         ":1:20: basic_auth_users: a user's name is 1 to 255 bytes long and has no colon, which "
         "ends it in a login"},
        {"basic_auth_users: {a: $2y$20$" + hash.substr(7) + "}",
         ":1:23: basic_auth_users.a: the hash's cost must be between 4 and 15, is 20: each step "
         "doubles the time of a login"},
        {"basic_auth_users: {a: x, a: y}",
         ":1:26: basic_auth_users.a: given twice, first on line 1"},
        {"- a", ":1:1: expected a mapping of keys to values, got a list"},
    };
    for (const auto &[text, wanted] : cases) {
        INFO(text);
        const std::string said = "\n" + web_problems(text);
        CAPTURE(said);
        CHECK(said.find("\n" + file + wanted) != std::string::npos);
    }
}

TEST_CASE("no password is in what is said of a web configuration") {
    for (const std::string text :
         {"basic_auth_users: {alice: hunter2}", "basic_auth_users: hunter2",
          "basic_auth_users: [hunter2]", "basic_auth_users: {alice: [hunter2]}",
          "basic_auth_users: {alice: {hunter2: 1}}"}) {
        INFO(text);
        const std::string said = web_problems(text);
        CHECK_FALSE(said.empty());
        CHECK(said.find("hunter2") == std::string::npos);
    }
    // One bit of a hash that is not bcrypt's.
    for (std::size_t at : {0U, 1U, 2U, 3U, 4U, 6U, 30U, 59U}) {
        INFO(at);
        std::string other = hash;
        other[at] = '!';
        CHECK(
            web_problems("basic_auth_users: {a: '" + other + "'}").find("must be a bcrypt hash") !=
            std::string::npos);
    }
    CHECK(
        web_problems("basic_auth_users: {a: '" + hash.substr(1) + "'}").find("must be a bcrypt") !=
        std::string::npos);
}
