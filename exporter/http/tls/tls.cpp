#include "exporter/http/tls/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "exporter/http/tls/certificate_files.h"

namespace gpusnoop::http {

namespace {

using config::ClientAuth;
using config::TlsVersion;

// The context id of the sessions; no session is kept.
constexpr std::array<unsigned char, 8> sessions = {'g', 'p', 'u', 's', 'n', 'o', 'o', 'p'};

int version_of(TlsVersion version) {
    return version == TlsVersion::tls12 ? TLS1_2_VERSION : TLS1_3_VERSION;
}

int verify_mode(ClientAuth auth) {
    switch (auth) {
        case ClientAuth::none:
            return SSL_VERIFY_NONE;
        case ClientAuth::request:
        case ClientAuth::verify_if_given:
            return SSL_VERIFY_PEER;
        case ClientAuth::require_any:
        case ClientAuth::require_and_verify:
            return SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    }
    return SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
}

int accept_any(int, X509_STORE_CTX *) {
    return 1;
}

SSL_verify_cb verify_callback(ClientAuth auth) {
    const bool looks =
        auth == ClientAuth::verify_if_given || auth == ClientAuth::require_and_verify;
    return looks ? nullptr : accept_any;
}

std::string joined(const std::vector<std::string> &names) {
    std::string all;
    for (const std::string &name : names) {
        all += (all.empty() ? "" : ":") + name;
    }
    return all;
}

// For TLS 1.2, if the configuration names no suites: a key that is stolen later cannot decrypt
// recorded traffic. All suites of TLS 1.3 have this property.
constexpr const char *forward_secret_suites = "ECDHE+AESGCM:ECDHE+CHACHA20:ECDHE+AES";

std::shared_ptr<SSL_CTX> new_context() {
    std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
    if (context != nullptr) {
        SSL_CTX_set_options(context.get(),
                            SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
        SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
        SSL_CTX_set_num_tickets(context.get(), 0);
        SSL_CTX_set_session_id_context(context.get(), sessions.data(), sessions.size());
    }
    return context;
}

Result<> choose(SSL_CTX *context, const config::WebTls &config) {
    const std::string suites =
        config.cipher_suites.empty() ? forward_secret_suites : joined(config.cipher_suites);
    const std::string tls13_suites = joined(config.tls13_cipher_suites);
    const std::string curves = joined(config.curves);
    if (SSL_CTX_set_cipher_list(context, suites.c_str()) != 1 ||
        (!tls13_suites.empty() && SSL_CTX_set_ciphersuites(context, tls13_suites.c_str()) != 1)) {
        return fail("cannot use the cipher suites: " + openssl_reason());
    }
    if (!curves.empty() && SSL_CTX_set1_groups_list(context, curves.c_str()) != 1) {
        return fail("cannot use the curves: " + openssl_reason());
    }
    return {};
}

// OpenSSL is C: no exception may pass through it.
int on_hello(SSL *connection, int *alert, void *argument) noexcept {
    const auto settings = (*static_cast<const CurrentTls *>(argument))();
    *alert = SSL_AD_INTERNAL_ERROR;
    if (settings == nullptr) {
        return SSL_CLIENT_HELLO_ERROR;
    }
    const config::WebTls &config = settings->config();
    // The context provides certificates, authorities and cipher suites; the other settings are the
    // connection's own.
    if (SSL_set_SSL_CTX(connection, settings->context()) == nullptr ||
        SSL_set_min_proto_version(connection, version_of(config.min_version)) != 1 ||
        SSL_set_max_proto_version(connection, version_of(config.max_version)) != 1) {
        return SSL_CLIENT_HELLO_ERROR;
    }
    if (!config.curves.empty()) {
        std::string curves;
        for (const std::string &name : config.curves) {
            curves += (curves.empty() ? "" : ":") + name;
        }
        if (SSL_set1_groups_list(connection, curves.c_str()) != 1) {
            return SSL_CLIENT_HELLO_ERROR;
        }
    }
    SSL_set_verify(connection, verify_mode(config.client_auth),
                   verify_callback(config.client_auth));
    if (config.prefer_server_cipher_suites) {
        SSL_set_options(connection, SSL_OP_CIPHER_SERVER_PREFERENCE);
    }
    return SSL_CLIENT_HELLO_SUCCESS;
}

}  // namespace

Result<std::shared_ptr<const TlsSettings>> TlsSettings::load(const config::WebTls &config,
                                                             ReadingDeadline until) {
    ERR_clear_error();
    const auto context = new_context();
    if (context == nullptr) {
        return fail("cannot use TLS: " + openssl_reason());
    }
    if (const auto loaded = use_certificates(context.get(), config, until); !loaded) {
        return tl::unexpected<Error>(loaded.error());
    }
    if (const auto chosen = choose(context.get(), config); !chosen) {
        return tl::unexpected<Error>(chosen.error());
    }
    return std::shared_ptr<const TlsSettings>(new TlsSettings(config, context));
}

Result<std::shared_ptr<ssl_ctx_st>> make_rotating_context(const CurrentTls &current) {
    auto context = new_context();
    if (context == nullptr) {
        return fail("cannot use TLS: " + openssl_reason());
    }
    SSL_CTX_set_client_hello_cb(context.get(), on_hello, const_cast<CurrentTls *>(&current));
    return context;
}

}  // namespace gpusnoop::http
