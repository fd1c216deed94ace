#include "exporter/http/tls/certificate_files.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <cstddef>
#include <cstring>
#include <memory>

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

}  // namespace gpusnoop::http
