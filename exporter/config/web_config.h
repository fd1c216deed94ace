// The file of --web.config.file: TLS, logins and headers, in the form of Prometheus'
// exporter-toolkit.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/read_file.h"
#include "exporter/base/result.h"

namespace gpusnoop::config {

// Which certificates the server demands from clients.
enum class ClientAuth : std::uint8_t {
    none,
    request,             // requested, not verified
    require_any,         // required, not verified
    verify_if_given,     // optional, verified if given
    require_and_verify,  // required and verified
};

enum class TlsVersion : std::uint8_t { tls12, tls13 };

struct WebTls {
    std::string cert_file;  // PEM, with the chain to the root
    std::string key_file;
    std::string client_ca_file;  // empty: none
    ClientAuth client_auth = ClientAuth::none;
    TlsVersion min_version = TlsVersion::tls12;
    TlsVersion max_version = TlsVersion::tls13;
    // By OpenSSL's names; empty: the exporter's choice for TLS 1.2, OpenSSL's for the others.
    std::vector<std::string> cipher_suites;        // of TLS 1.2
    std::vector<std::string> tls13_cipher_suites;  // of TLS 1.3
    std::vector<std::string> curves;
    bool prefer_server_cipher_suites = true;
    bool operator==(const WebTls &) const = default;
};

struct WebConfig {
    std::optional<WebTls> tls;
    std::map<std::string, std::string> users;    // bcrypt hashes by name; empty: no login
    std::map<std::string, std::string> headers;  // added to every response
    bool operator==(const WebConfig &) const = default;
};

// Reads `text`, or the file at `path`. Relative paths in it become relative to the directory of
// `name`, which is the file's path in messages; see read_document() for these. They contain no
// hash. Does not open the files named in it.
[[nodiscard]] Result<WebConfig> parse_web_config(std::string_view text, const std::string &name);
[[nodiscard]] Result<WebConfig> load_web_config(const std::string &path,
                                                ReadingDeadline until = reading_deadline());

}  // namespace gpusnoop::config
