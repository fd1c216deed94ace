#include "exporter/http/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "exporter/base/text/text.h"

namespace gpusnoop::http {

namespace {

// A complete set of an operating system's authorities has a quarter of a MiB.
constexpr std::size_t max_bytes = 4U << 20U;

struct Free {
    void operator()(BIO *bio) const { BIO_free(bio); }
    void operator()(X509 *certificate) const { X509_free(certificate); }
    void operator()(EVP_PKEY *key) const { EVP_PKEY_free(key); }
    void operator()(STACK_OF(X509_NAME) * names) const {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
    }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

tl::unexpected<Error> wrong(const std::string &what, const std::string &path) {
    return fail(what + " " + printable(path) + ": " + openssl_reason());
}

// Without this callback, OpenSSL asks for a password on the terminal.
int no_password(char *, int, int, void *) {
    return -1;
}

Owned<BIO> as_file(const std::string &text) {
    return Owned<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

Owned<X509> next_certificate(BIO *file) {
    return Owned<X509>(PEM_read_bio_X509(file, nullptr, no_password, nullptr));
}

// Whether the last certificate has been read. Other PEM blocks may follow, but nothing broken.
bool is_at_end() {
    const unsigned long code = ERR_peek_last_error();
    if (ERR_GET_LIB(code) != ERR_LIB_PEM || ERR_GET_REASON(code) != PEM_R_NO_START_LINE) {
        return false;
    }
    ERR_clear_error();
    return true;
}

bool use_chain(SSL_CTX *context, BIO *file) {
    const Owned<X509> first(PEM_read_bio_X509_AUX(file, nullptr, no_password, nullptr));
    if (first == nullptr || SSL_CTX_use_certificate(context, first.get()) != 1 ||
        SSL_CTX_clear_chain_certs(context) != 1) {
        return false;
    }
    while (auto next = next_certificate(file)) {
        if (SSL_CTX_add0_chain_cert(context, next.get()) != 1) {
            return false;
        }
        (void)next.release();  // owned by the context now
    }
    return is_at_end();
}

bool use_key(SSL_CTX *context, BIO *file) {
    const Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(file, nullptr, no_password, nullptr));
    return key != nullptr && SSL_CTX_use_PrivateKey(context, key.get()) == 1 &&
           SSL_CTX_check_private_key(context) == 1;
}

bool has_name(const STACK_OF(X509_NAME) * names, const X509_NAME *name) {
    for (int i = 0; i < sk_X509_NAME_num(names); i++) {
        if (X509_NAME_cmp(sk_X509_NAME_value(names, i), name) == 0) {
            return true;
        }
    }
    return false;
}

// Adds the authorities' names, each once, to the list that clients receive.
bool use_authorities(SSL_CTX *context, BIO *file) {
    Owned<STACK_OF(X509_NAME)> names(sk_X509_NAME_new_null());
    X509_STORE *store = SSL_CTX_get_cert_store(context);
    while (const auto authority = next_certificate(file)) {
        const X509_NAME *subject = X509_get_subject_name(authority.get());
        if (X509_STORE_add_cert(store, authority.get()) != 1) {
            return false;
        }
        if (has_name(names.get(), subject)) {
            continue;
        }
        X509_NAME *copy = X509_NAME_dup(subject);
        if (copy == nullptr || sk_X509_NAME_push(names.get(), copy) == 0) {
            X509_NAME_free(copy);
            return false;
        }
    }
    if (sk_X509_NAME_num(names.get()) <= 0 || !is_at_end()) {
        return false;
    }
    SSL_CTX_set_client_CA_list(context, names.release());
    return true;
}

Result<> use_file(SSL_CTX *context, const std::string &path, const std::string &what,
                  bool (*use)(SSL_CTX *, BIO *), ReadingDeadline until) {
    const Result<std::string> text = read_text(path, max_bytes, until);
    if (!text) {
        return fail(what + " " + printable(path) + ": " + text.error().message, text.error().code);
    }
    const auto file = as_file(*text);
    if (file == nullptr || !use(context, file.get())) {
        return wrong(what, path);
    }
    return {};
}

}  // namespace

std::string openssl_reason() {
    const unsigned long code = ERR_peek_error();
    const char *text = ERR_SYSTEM_ERROR(code) ? std::strerror(ERR_GET_REASON(code))
                                              : ERR_reason_error_string(code);
    std::string said = text == nullptr ? "OpenSSL does not say why" : text;
    ERR_clear_error();
    return said;
}

Result<> use_certificates(ssl_ctx_st *context, const config::WebTls &config,
                          ReadingDeadline until) {
    ERR_clear_error();
    auto used = use_file(context, config.cert_file, "cannot use the certificate", use_chain, until);
    if (used) {
        used = use_file(context, config.key_file, "cannot use the key", use_key, until);
    }
    if (used && !config.client_ca_file.empty()) {
        used = use_file(context, config.client_ca_file, "cannot use the client authorities",
                        use_authorities, until);
    }
    return used;
}

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
