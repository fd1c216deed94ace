// TLS by OpenSSL, from the settings of the web configuration.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "exporter/base/read_file.h"
#include "exporter/base/result.h"
#include "exporter/config/web_config.h"

struct ssl_ctx_st;

namespace gpusnoop::http {

// Why OpenSSL's last call failed; clears OpenSSL's errors. The first error is in front.
[[nodiscard]] std::string openssl_reason();

// Reads the files of the settings into the context. Errors name the file.
[[nodiscard]] Result<> use_certificates(ssl_ctx_st *context, const config::WebTls &config,
                                        ReadingDeadline until);

// The settings of a connection: certificate, key, authorities, versions. Does not change.
class TlsSettings {
public:
    // Reads the files, which must end before `until`. Errors name the wrong file.
    [[nodiscard]] static Result<std::shared_ptr<const TlsSettings>> load(
        const config::WebTls &config, ReadingDeadline until = reading_deadline());

    [[nodiscard]] ssl_ctx_st *context() const { return context_.get(); }
    [[nodiscard]] const config::WebTls &config() const { return config_; }

private:
    TlsSettings(config::WebTls config, std::shared_ptr<ssl_ctx_st> context)
        : config_(std::move(config)), context_(std::move(context)) {}

    config::WebTls config_;
    std::shared_ptr<ssl_ctx_st> context_;
};

using CurrentTls = std::function<std::shared_ptr<const TlsSettings>()>;

// A context whose connections each use the current settings at the client's hello: a change applies
// from the next connection on. No session is resumed, so that no client gets in with a certificate
// that is no longer valid. `current` is called by several threads at the same time, must not throw,
// and must outlive the context.
[[nodiscard]] Result<std::shared_ptr<ssl_ctx_st>> make_rotating_context(const CurrentTls &current);

}  // namespace gpusnoop::http
