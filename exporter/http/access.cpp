#include "exporter/http/access.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <sstream>
#include <vector>

#include "exporter/base/log.h"
#include "exporter/base/text/text.h"

namespace gpusnoop::http {

namespace {

// Not all of 127.0.0.0/8: service meshes hand over what comes from elsewhere from 127.0.0.6.
bool is_loopback(const sockaddr_in &address) {
    return address.sin_addr.s_addr == htonl(INADDR_LOOPBACK);
}

bool is_loopback(const sockaddr_in6 &address) {
    const in6_addr &ip = address.sin6_addr;
    sockaddr_in mapped{};
    std::memcpy(&mapped.sin_addr, &ip.s6_addr[12], sizeof(mapped.sin_addr));
    return IN6_IS_ADDR_LOOPBACK(&ip) || (IN6_IS_ADDR_V4MAPPED(&ip) && is_loopback(mapped));
}

}  // namespace

bool is_local_peer(int socket) {
    sockaddr_storage storage{};
    socklen_t size = sizeof(storage);
    if (::getpeername(socket, reinterpret_cast<sockaddr *>(&storage), &size) != 0) {
        return false;
    }
    if (storage.ss_family == AF_INET) {
        sockaddr_in address{};
        std::memcpy(&address, &storage, sizeof(address));
        return is_loopback(address);
    }
    if (storage.ss_family == AF_INET6) {
        sockaddr_in6 address{};
        std::memcpy(&address, &storage, sizeof(address));
        return is_loopback(address);
    }
    return storage.ss_family == AF_UNIX;
}

bool demands_identity(const config::WebConfig &config) {
    return !config.users.empty() ||
           (config.tls && config.tls->client_auth == config::ClientAuth::require_and_verify);
}

namespace {

constexpr std::int64_t nanoseconds_per_second = 1'000'000'000;

std::int64_t nanoseconds(const timespec &time) {
    return time.tv_sec * nanoseconds_per_second + time.tv_nsec;
}

Result<AccessRules> make_rules(const std::string &path, config::WebConfig config,
                               ReadingDeadline until = reading_deadline()) {
    AccessRules rules;
    if (config.tls) {
        auto tls = TlsSettings::load(*config.tls, until);
        if (!tls) {
            return fail_in(printable(path), tls.error());
        }
        rules.tls = *std::move(tls);
    }
    rules.auth = std::make_shared<BasicAuth>(config.users);
    rules.config = std::move(config);
    return rules;
}

std::vector<std::string> files_of(const config::WebConfig &config) {
    std::vector<std::string> files;
    if (config.tls) {
        for (const std::string &file :
             {config.tls->cert_file, config.tls->key_file, config.tls->client_ca_file}) {
            if (!file.empty()) {
                files.push_back(file);
            }
        }
    }
    return files;
}

}  // namespace

Result<AccessRules> load_access_rules(const std::string &path) {
    const ReadingDeadline until = reading_deadline();
    auto config = config::load_web_config(path, until);
    if (!config) {
        return tl::unexpected<Error>(config.error());
    }
    return make_rules(path, *std::move(config), until);
}

Result<std::unique_ptr<Access>> Access::open(const std::string &path, Clock::duration every) {
    std::unique_ptr<Access> access(new Access(path, every));
    if (path.empty()) {
        auto everybody = make_rules(path, {});
        access->rules_ = std::make_shared<const AccessRules>(*std::move(everybody));
        return access;
    }
    auto rules = access->read();
    if (!rules) {
        return tl::unexpected<Error>(rules.error());
    }
    access->has_tls_ = rules->tls != nullptr;
    access->rules_ = std::make_shared<const AccessRules>(*std::move(rules));
    access->looked_ = Clock::now();
    return access;
}

Access::Stamp Access::stamp_of(const std::string &path) {
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0) {
        return {};
    }
    if (!S_ISREG(status.st_mode)) {
        // A pipe's content changes while it is written and read, and can be read only once.
        return {.device = status.st_dev, .inode = status.st_ino};
    }
    return {.device = status.st_dev,
            .inode = status.st_ino,
            .size = status.st_size,
            .modified_ns = nanoseconds(status.st_mtim),
            .changed_ns = nanoseconds(status.st_ctim)};
}

// Takes each file's stamp before reading it: a change in between causes another reading.
Result<AccessRules> Access::read() {
    for (auto &[file, stamp] : stamps_) {
        stamp = stamp_of(file);
    }
    stamps_[path_] = stamp_of(path_);
    const ReadingDeadline until = reading_deadline();
    auto config = config::load_web_config(path_, until);
    if (!config) {
        return tl::unexpected<Error>(config.error());
    }
    Stamps stamps = {{path_, stamps_[path_]}};
    for (const std::string &file : files_of(*config)) {
        stamps[file] = stamp_of(file);
    }
    stamps_ = std::move(stamps);
    return make_rules(path_, *std::move(config), until);
}

bool Access::is_unchanged() const {
    return std::ranges::all_of(
        stamps_, [](const auto &entry) { return stamp_of(entry.first) == entry.second; });
}

std::shared_ptr<const AccessRules> Access::rules() noexcept {
    try {
        // Reading files may take time. Requests that come meanwhile get the old rules.
        if (const std::unique_lock looking(looking_, std::try_to_lock); looking) {
            look();
        }
    } catch (const std::exception &) {  // out of memory
    }
    return current();
}

std::shared_ptr<const AccessRules> Access::current() const noexcept {
    const std::lock_guard lock(mutex_);
    return rules_;
}

void Access::look() {
    const auto now = Clock::now();
    if (path_.empty() || now - looked_ < every_) {
        return;
    }
    looked_ = now;
    if (!is_unchanged()) {
        read_again();
    }
}

void Access::read_again() {
    auto read = this->read();
    if (read && (read->tls != nullptr) != has_tls_) {
        read = fail(printable(path_) +
                    ": whether there is TLS or not cannot change without a restart");
    }
    if (!read) {
        std::istringstream lines(read.error().message);
        for (std::string line; std::getline(lines, line);) {
            log::error("cannot reload the web configuration: the previous one stays in use",
                       {{"reason", line}});
        }
        return;
    }
    if (const auto before = current(); read->config.users == before->config.users) {
        read->auth = before->auth;  // with its remembered logins
    }
    auto rules = std::make_shared<const AccessRules>(*std::move(read));
    {
        const std::lock_guard lock(mutex_);
        rules_ = std::move(rules);
    }
    log::info("web configuration reloaded", {{"file", path_}});
}

}  // namespace gpusnoop::http
