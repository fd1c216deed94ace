// TLS and logins: the current web configuration, read again when its files change.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "exporter/base/result.h"
#include "exporter/config/web_config.h"
#include "exporter/http/basic_auth.h"
#include "exporter/http/tls.h"

namespace gpusnoop::http {

// Whether the socket's other end is on this machine: a Unix socket, or the loopback.
[[nodiscard]] bool is_local_peer(int socket);

// Whether every client has shown who it is, by a login or a verified certificate, before its
// request is answered (but for routes that are open).
[[nodiscard]] bool demands_identity(const config::WebConfig &config);

// The result of one reading of the files. Only its remembered logins change.
struct AccessRules {
    config::WebConfig config;
    std::shared_ptr<const TlsSettings> tls;  // null: no TLS
    std::shared_ptr<BasicAuth> auth;
};

// Reads the web configuration and all files that it names.
[[nodiscard]] Result<AccessRules> load_access_rules(const std::string &path);

// The current rules, for any thread. Changed files are read again at a request, at most once in
// `every`, by one thread; other threads get the old rules until it is done. If the changed files
// are wrong, the old rules stay, and the log says so once. Whether TLS is used does not change
// after the start.
class Access {
public:
    using Clock = std::chrono::steady_clock;

    // Without a path, every client is admitted, by HTTP.
    [[nodiscard]] static Result<std::unique_ptr<Access>> open(
        const std::string &path, Clock::duration every = std::chrono::seconds(1));

    // Does not throw: if memory runs out, the old rules stay.
    [[nodiscard]] std::shared_ptr<const AccessRules> rules() noexcept;

    [[nodiscard]] bool has_tls() const { return has_tls_; }

private:
    // Attributes of a file that change with its content; zeros if it does not exist.
    struct Stamp {
        std::uint64_t device = 0;
        std::uint64_t inode = 0;
        std::int64_t size = 0;
        std::int64_t modified_ns = 0;
        std::int64_t changed_ns = 0;
        bool operator==(const Stamp &) const = default;
    };
    using Stamps = std::map<std::string, Stamp>;

    Access(std::string path, Clock::duration every) : path_(std::move(path)), every_(every) {}
    [[nodiscard]] static Stamp stamp_of(const std::string &path);
    [[nodiscard]] Result<AccessRules> read();
    [[nodiscard]] bool is_unchanged() const;
    [[nodiscard]] std::shared_ptr<const AccessRules> current() const noexcept;
    void look();
    void read_again();

    const std::string path_;  // empty: none
    const Clock::duration every_;
    bool has_tls_ = false;

    std::mutex looking_;  // guards the next two members
    Stamps stamps_;       // of the files at the last reading
    Clock::time_point looked_{};

    mutable std::mutex mutex_;
    std::shared_ptr<const AccessRules> rules_;
};

}  // namespace gpusnoop::http
