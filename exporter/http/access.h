// TLS and logins: the web configuration in use, read again when its files change.
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

// What one reading of the files made. Does not change, but for the logins that it remembers.
struct AccessRules {
    config::WebConfig config;
    std::shared_ptr<const TlsSettings> tls;  // null: no TLS
    std::shared_ptr<BasicAuth> auth;
};

// Reads the web configuration and all the files that it names.
[[nodiscard]] Result<AccessRules> load_access_rules(const std::string &path);

// The rules of now, for any thread. Files that changed are read again, once they are asked for, and
// no more than once in `every`, by one thread; others have the old rules until it is done. If they
// are wrong then, the old rules stay, and the log says so, once. Whether there is TLS at all stays
// as it was at the start.
class Access {
public:
    using Clock = std::chrono::steady_clock;

    // Without a path, everybody may come in, by HTTP.
    [[nodiscard]] static Result<std::unique_ptr<Access>> open(
        const std::string &path, Clock::duration every = std::chrono::seconds(1));

    // Does not throw: without memory the old rules stay.
    [[nodiscard]] std::shared_ptr<const AccessRules> rules() noexcept;

    [[nodiscard]] bool has_tls() const { return has_tls_; }

private:
    // Of a file, whatever changes with its content; zeros where there is none.
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

    std::mutex looking_;  // of the two after it
    Stamps stamps_;       // of the files as they were when they were last read
    Clock::time_point looked_{};

    mutable std::mutex mutex_;
    std::shared_ptr<const AccessRules> rules_;
};

}  // namespace gpusnoop::http
