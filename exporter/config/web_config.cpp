#include "exporter/config/web_config.h"

#include <yaml-cpp/node/impl.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <utility>

#include "exporter/config/document.h"
#include "exporter/config/reader.h"

namespace gpusnoop::config {

namespace {

constexpr std::size_t max_users = 256;
constexpr std::size_t max_name = 255;
constexpr std::size_t max_header = 4'096;
// Each step doubles the time of a login: at this limit, it takes seconds.
constexpr int max_cost = 15;

struct CipherSuite {
    std::string_view name;  // its name in the standard and the toolkit
    std::string_view openssl;
    bool is_tls13 = false;
};

// The toolkit's suites that are still secure.
constexpr std::array<CipherSuite, 13> known_cipher_suites = {{
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256", true},
    {"TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384", true},
    {"TLS_CHACHA20_POLY1305_SHA256", "TLS_CHACHA20_POLY1305_SHA256", true},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"},
    {"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"},
    {"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"},
    {"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "ECDHE-ECDSA-AES128-SHA"},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "ECDHE-ECDSA-AES256-SHA"},
    {"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"},
    {"TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA"},
}};

// A path in the file, made relative to the exporter's working directory.
std::string resolved(const std::string &path, const std::filesystem::path &directory) {
    return path.empty() || path.front() == '/' ? path : (directory / path).string();
}

void read_path(Section &section, const std::string &key, std::string &value,
               const std::filesystem::path &directory) {
    section.text(key, value);
    if (value.empty()) {
        section.reject(key, "must be the path of a file");
    }
    value = resolved(value, directory);
}

void read_version(Section &section, const std::string &key, TlsVersion &value) {
    const Value *const entry = section.find(key);
    if (entry == nullptr) {
        return;
    }
    if (entry->is_word("TLS10") || entry->is_word("TLS11")) {
        entry->reject("this version has holes and is not spoken: TLS12 or TLS13");
        return;
    }
    section.choice<TlsVersion>(key, value,
                               {{"TLS12", TlsVersion::tls12}, {"TLS13", TlsVersion::tls13}});
}

void read_cipher_suites(Section &section, WebTls &tls) {
    const Value *const entry = section.find("cipher_suites");
    const auto items = entry == nullptr ? std::nullopt
                                        : entry->list("a list of cipher suites", "suites", 1,
                                                      known_cipher_suites.size());
    if (!items) {
        return;
    }
    std::vector<std::string> names;
    for (const CipherSuite &suite : known_cipher_suites) {
        names.emplace_back(suite.name);
    }
    for (const Value &item : *items) {
        if (const auto index = item.choice(names)) {
            const CipherSuite &suite = known_cipher_suites.at(*index);
            (suite.is_tls13 ? tls.tls13_cipher_suites : tls.cipher_suites)
                .emplace_back(suite.openssl);
        }
    }
}

void read_curves(Section &section, WebTls &tls) {
    constexpr std::array<std::string_view, 4> openssl_names = {"P-256", "P-384", "P-521", "X25519"};
    const Value *const entry = section.find("curve_preferences");
    const auto items = entry == nullptr
                           ? std::nullopt
                           : entry->list("a list of curves", "curves", 1, openssl_names.size());
    if (!items) {
        return;
    }
    for (const Value &item : *items) {
        if (const auto index = item.choice({"CurveP256", "CurveP384", "CurveP521", "X25519"})) {
            tls.curves.emplace_back(openssl_names.at(*index));
        }
    }
}

// Whether the settings for clients' certificates and for their authorities agree.
void check_client_auth(Section &section, const WebTls &tls) {
    const bool verifies = tls.client_auth == ClientAuth::verify_if_given ||
                          tls.client_auth == ClientAuth::require_and_verify;
    if (verifies && tls.client_ca_file.empty()) {
        section.reject("client_auth_type", "needs client_ca_file, to verify certificates with");
    }
    if (!verifies && !tls.client_ca_file.empty()) {
        section.reject("client_ca_file",
                       "does nothing without a client_auth_type that verifies: "
                       "VerifyClientCertIfGiven or RequireAndVerifyClientCert");
    }
}

std::optional<WebTls> read_tls(Section section, const std::filesystem::path &directory) {
    WebTls tls;
    const bool has_cert = section.find("cert_file") != nullptr;
    const bool has_key = section.find("key_file") != nullptr;
    if (section.entries().empty()) {
        return std::nullopt;  // no TLS, as in the toolkit
    }
    if (!has_cert || !has_key) {
        section.reject(std::string("has no ") + (has_cert ? "key_file" : "cert_file") +
                       ": TLS needs a certificate and its key");
    }
    if (has_cert) {
        read_path(section, "cert_file", tls.cert_file, directory);
    }
    if (has_key) {
        read_path(section, "key_file", tls.key_file, directory);
    }
    if (section.find("client_ca_file") != nullptr) {
        read_path(section, "client_ca_file", tls.client_ca_file, directory);
    }
    section.choice<ClientAuth>("client_auth_type", tls.client_auth,
                               {{"NoClientCert", ClientAuth::none},
                                {"RequestClientCert", ClientAuth::request},
                                {"RequireAnyClientCert", ClientAuth::require_any},
                                {"RequireClientCert", ClientAuth::require_any},
                                {"VerifyClientCertIfGiven", ClientAuth::verify_if_given},
                                {"RequireAndVerifyClientCert", ClientAuth::require_and_verify}});
    check_client_auth(section, tls);
    read_version(section, "min_version", tls.min_version);
    read_version(section, "max_version", tls.max_version);
    if (tls.min_version > tls.max_version) {
        section.reject("max_version", "is below min_version, so that no version is left");
    }
    read_cipher_suites(section, tls);
    read_curves(section, tls);
    section.boolean("prefer_server_cipher_suites", tls.prefer_server_cipher_suites);
    for (const std::string key : {"cert", "key", "client_ca"}) {
        section.reject(key,
                       "is not supported: put it into a file, and name that as " + key + "_file");
    }
    section.reject("client_allowed_sans",
                   "is not supported: let client_ca_file be of an authority that certifies none "
                   "but the clients that may come");
    section.finish();
    return tls;
}

bool is_bcrypt(std::string_view hash) {
    constexpr std::string_view alphabet =
        "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    const auto is_digit = [&](std::size_t at) { return hash[at] >= '0' && hash[at] <= '9'; };
    return hash.size() == 60 && hash.starts_with("$2") &&
           std::string_view("aby").find(hash[2]) != std::string_view::npos && hash[3] == '$' &&
           is_digit(4) && is_digit(5) && hash[6] == '$' &&
           hash.substr(7).find_first_not_of(alphabet) == std::string_view::npos;
}

std::map<std::string, std::string> read_users(const Value &value) {
    std::map<std::string, std::string> users;
    if (value.node().IsScalar() || value.node().IsSequence()) {
        // The message omits the value, which may be a hash.
        value.reject("expected a mapping of names to bcrypt hashes");
        return users;
    }
    const Section section(value);
    if (section.entries().size() > max_users) {
        value.reject("has more than " + std::to_string(max_users) + " users");
        return users;
    }
    for (const Section::Entry &user : section.entries()) {
        if (user.key.empty() || user.key.size() > max_name ||
            user.key.find(':') != std::string::npos) {
            value.problems().add(user.key_at, value.path(),
                                 "a user's name is 1 to " + std::to_string(max_name) +
                                     " bytes long and has no colon, which ends it in a login");
            continue;
        }
        // The value stays secret, even if it is wrong.
        const YAML::Node &node = user.value.node();
        if (!node.IsScalar() || !is_bcrypt(node.Scalar())) {
            user.value.reject(
                "must be a bcrypt hash, as `htpasswd -nBC 10 USER` makes it: $2y$10$ and 53 more "
                "characters");
            continue;
        }
        const int cost = (node.Scalar()[4] - '0') * 10 + (node.Scalar()[5] - '0');
        if (cost < 4 || cost > max_cost) {
            user.value.reject("the hash's cost must be between 4 and " + std::to_string(max_cost) +
                              ", is " + std::to_string(cost) +
                              ": each step doubles the time of a login");
            continue;
        }
        users[user.key] = node.Scalar();
    }
    return users;
}

void read_headers(Section section, std::map<std::string, std::string> &headers) {
    for (const std::string name :
         {"Content-Security-Policy", "Strict-Transport-Security", "X-Content-Type-Options",
          "X-Frame-Options", "X-XSS-Protection"}) {
        const Value *const entry = section.find(name);
        const auto value = entry == nullptr ? std::nullopt : entry->text("a text");
        if (!value) {
            continue;
        }
        const bool is_plain =
            std::ranges::all_of(*value, [](char c) { return c >= ' ' && c <= '~'; });
        if (!is_plain || value->size() > max_header) {
            entry->reject("must be printable ASCII on one line, and at most " +
                          std::to_string(max_header) + " bytes long");
        } else if (!value->empty()) {
            headers[name] = *value;
        }
    }
    const Value *const options = section.find("X-Content-Type-Options");
    if (options != nullptr && options->text("a text").value_or("nosniff") != "nosniff") {
        options->reject("must be nosniff");
    }
    section.finish();
}

void read_http_server(Section section, WebConfig &config) {
    // Has no effect: the exporter has no HTTP/2. Clients that could use it use HTTP/1.1.
    bool http2 = false;
    section.boolean("http2", http2);
    read_headers(section.section("headers"), config.headers);
    section.finish();
}

}  // namespace

Result<WebConfig> parse_web_config(std::string_view text, const std::string &name) {
    WebConfig config;
    const auto directory = std::filesystem::path(name).parent_path();
    const auto read = read_document(text, name, [&](const YAML::Node &root, Problems &problems) {
        Section file(Value(root, "", position_of(root), problems));
        config.tls = read_tls(file.section("tls_server_config"), directory);
        read_http_server(file.section("http_server_config"), config);
        if (const Value *users = file.find("basic_auth_users")) {
            config.users = read_users(*users);
        }
        file.reject("rate_limit",
                    "is not supported: the number of clients at one time is limited already");
        file.finish();
    });
    if (!read) {
        return tl::unexpected<Error>(read.error());
    }
    return config;
}

Result<WebConfig> load_web_config(const std::string &path, ReadingDeadline until) {
    const Result<std::string> text = read_config_file(path, until);
    if (!text) {
        return tl::unexpected<Error>(text.error());
    }
    return parse_web_config(*text, path);
}

}  // namespace gpusnoop::config
