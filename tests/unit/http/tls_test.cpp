// TLS against clients that are slow in it.
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "exporter/http/server.h"
#include "tests/harness/machine/directory.h"
#include "tests/unit/http/http_client.h"

using gpusnoop::Fd;
using namespace gpusnoop::http;
using namespace gpusnoop::http::test;

namespace {

template <typename T>
using Owned = std::unique_ptr<T, void (*)(T *)>;

// A server with a certificate of its own making.
class TlsServer {
public:
    explicit TlsServer(const std::vector<Route> &routes) {
        make_certificate();
        std::ofstream(directory_ / "web.yaml")
            << "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n";
        auto access = Access::open(directory_ / "web.yaml");
        REQUIRE(access);
        std::vector<Listener> listeners;
        listeners.push_back(*Listener::open("127.0.0.1:0"));
        auto server = Server::start(std::move(listeners), *std::move(access), routes);
        REQUIRE(server);
        server_ = *std::move(server);
    }

    [[nodiscard]] std::uint16_t port() const { return server_->port(); }

private:
    void make_certificate() const {
        const Owned<EVP_PKEY> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
        const Owned<X509> certificate(X509_new(), X509_free);
        REQUIRE((key && certificate));
        X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -60);
        X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
        X509_set_pubkey(certificate.get(), key.get());
        REQUIRE(X509_sign(certificate.get(), key.get(), EVP_sha256()) > 0);
        const auto open = [&](const char *file) {
            return std::unique_ptr<std::FILE, int (*)(std::FILE *)>(
                std::fopen((directory_ / file).c_str(), "w"), std::fclose);
        };
        REQUIRE(PEM_write_X509(open("cert.pem").get(), certificate.get()) == 1);
        REQUIRE(PEM_write_PrivateKey(open("key.pem").get(), key.get(), nullptr, nullptr, 0, nullptr,
                                     nullptr) == 1);
    }

    harness::TemporaryDirectory directory_;
    std::unique_ptr<Server> server_;
};

class TlsClient {
public:
    TlsClient()
        : context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free),
          ssl_(SSL_new(context_.get()), SSL_free) {}

    // What a client says first.
    [[nodiscard]] std::string hello() const {
        SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
        CHECK(SSL_connect(ssl_.get()) < 0);
        std::string hello(BIO_pending(SSL_get_wbio(ssl_.get())), '\0');
        BIO_read(SSL_get_wbio(ssl_.get()), hello.data(), static_cast<int>(hello.size()));
        return hello;
    }

    [[nodiscard]] bool connect(std::uint16_t port) {
        fd_ = connect_to(port);
        return SSL_set_fd(ssl_.get(), fd_.get()) == 1 && SSL_connect(ssl_.get()) == 1;
    }
    // False: the server has closed the connection.
    [[nodiscard]] bool update_key() const {
        return SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1 &&
               SSL_do_handshake(ssl_.get()) == 1;
    }
    void send(const std::string &bytes) const {
        CHECK(SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())) > 0);
    }
    [[nodiscard]] std::string receive_all() const {
        std::string all;
        std::array<char, 16384> piece{};
        int n = 0;
        while ((n = SSL_read(ssl_.get(), piece.data(), piece.size())) > 0) {
            all.append(piece.data(), static_cast<std::size_t>(n));
        }
        CHECK(SSL_get_error(ssl_.get(), n) == SSL_ERROR_ZERO_RETURN);
        return all;
    }

private:
    Fd fd_;
    Owned<SSL_CTX> context_;
    Owned<SSL> ssl_;
};

std::string tls_get(std::uint16_t port, const std::string &target) {
    TlsClient client;
    REQUIRE(client.connect(port));
    client.send("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n");
    return client.receive_all();
}

}  // namespace

TEST_CASE("a page of many records is served by TLS, also to one who sends byte by byte") {
    const std::string text = large_text();
    const TlsServer server({{.paths = {"/large"}, .handler = answers(text)}});
    CHECK(body_of(tls_get(server.port(), "/large")) == text);
    TlsClient client;
    REQUIRE(client.connect(server.port()));
    for (const char byte : std::string("GET /large HTTP/1.1\r\nHost: x\r\n\r\n")) {
        client.send(std::string(1, byte));
    }
    CHECK(body_of(client.receive_all()) == text);
}

TEST_CASE("clients that stop in their handshake delay no scrape, and are cut off") {
    const TlsServer server({{.paths = {"/metrics"}, .handler = answers("up 1\n")}});
    const std::string hello = TlsClient().hello();
    REQUIRE(hello.size() > 100);
    std::vector<Fd> stalled;
    for (std::size_t i = 0; i < Connections::max_begun + 20; i++) {
        stalled.push_back(connect_to(server.port()));
        send_bytes(stalled.back(), i % 2 == 0 ? hello : hello.substr(0, 50));
    }
    for (int i = 0; i < 10; i++) {
        CHECK(body_of(tls_get(server.port(), "/metrics")) == "up 1\n");
    }
    for (const Fd &fd : stalled) {
        CHECK(receive_all(fd).find("up 1") == std::string::npos);
    }
}

TEST_CASE("clients that send key updates without end keep no worker, and are cut off") {
    const TlsServer server({{.paths = {"/metrics"}, .handler = answers("up 1\n")}});
    std::atomic<int> connected = 0;
    std::vector<std::thread> clients;
    for (int i = 0; i < Server::workers + 2; i++) {
        clients.emplace_back([&] {
            sigset_t signals;
            ::sigemptyset(&signals);
            ::sigaddset(&signals, SIGPIPE);
            ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
            TlsClient client;
            connected += client.connect(server.port()) ? 1 : 0;
            while (client.update_key()) {
            }
        });
    }
    while (connected < Server::workers + 2) {
        std::this_thread::yield();
    }
    CHECK(body_of(tls_get(server.port(), "/metrics")) == "up 1\n");
    for (std::thread &client : clients) {
        client.join();
    }
}

TEST_CASE("a client that shook hands and says nothing is cut off, as is one without TLS") {
    const TlsServer server({{.paths = {"/"}, .handler = answers("here")}});
    TlsClient client;
    REQUIRE(client.connect(server.port()));
    CHECK(get(server.port(), "/").find("here") == std::string::npos);
    CHECK(body_of(tls_get(server.port(), "/")) == "here");
    const Fd silent = connect_to(server.port());
    CHECK(receive_all(silent).empty());
}
