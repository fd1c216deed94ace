// The way in, as operators set it up: TLS, logins, addresses and formats, with real clients.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <sstream>
#include <thread>

#include "exporter/base/fd.h"
#include "tests/e2e/certificates.h"
#include "tests/harness/counting.h"
#include "tests/harness/exporter.h"

using namespace harness;

namespace {

// What curl says: the status, or "000" and why there is none.
struct Answer {
    std::string status;
    std::string text;
};

Answer curl(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"curl", "--silent", "--show-error", "--max-time", "20",
                                         "--write-out", "\n%{http_code}"});
    const Finished finished = run(std::move(arguments));
    const std::size_t at = finished.output.rfind('\n');
    // Messages of curl's may come last.
    Answer answer{finished.output.substr(at + 1, 3), finished.output};
    if (finished.code != 0) {
        answer.status = "000";
    }
    return answer;
}

const std::string quiet = "functions: {enabled: false}\ncuda: {enabled: false}\n";

}  // namespace

TEST_CASE("what programs do is for clients on the node, and nobody reloads by POST, unless told",
          "[e2e]") {
    require_bpf();
    const std::string forwarded = "X-Forwarded-For: 192.0.2.1\r\n";
    const auto start = [](std::vector<std::string> more) {
        more.insert(more.begin(), {exporter_binary(), "--web.listen-address=127.0.0.1:0"});
        auto process = std::make_unique<Process>(std::move(more));
        process->wait_for_output("msg=\"listening\"");
        return process;
    };
    const auto port_of = [](const Process &process) {
        const std::string text = process.output();
        return static_cast<std::uint16_t>(std::stoi(text.substr(text.rfind(" port=") + 6)));
    };
    const auto process = start({});
    const std::uint16_t port = port_of(*process);
    CHECK(http(port, "/api/v1/exits").status == 200);
    CHECK(http(port, "/api/v1/exits", "GET", forwarded).status == 403);
    CHECK(http(port, "/metrics", "GET", forwarded).status == 200);
    CHECK(http(port, "/", "GET").body.find("Top allocations") != std::string::npos);
    const HttpAnswer page = http(port, "/", "GET", forwarded);
    CHECK(page.status == 200);
    CHECK(page.body.find("Top allocations") == std::string::npos);
    CHECK(page.body.find("--web.enable-api") != std::string::npos);
    const HttpAnswer refused = http(port, "/-/reload", "POST", "Content-Length: 0\r\n");
    CHECK(refused.status == 403);
    CHECK(refused.body.find("--web.enable-lifecycle") != std::string::npos);

    const auto open = start({"--web.enable-api", "--web.enable-lifecycle"});
    const std::uint16_t other = port_of(*open);
    CHECK(http(other, "/api/v1/exits", "GET", forwarded).status == 200);
    CHECK(http(other, "/", "GET", forwarded).body.find("Top allocations") != std::string::npos);
    CHECK(http(other, "/-/reload", "POST", "Content-Length: 0\r\n").status == 200);
}

TEST_CASE("TLS, client certificates and logins, and certificates that change", "[e2e]") {
    require_bpf();
    const Certificates files;
    files.make_authority("ca");
    files.make_authority("other-ca");
    files.make("first", "ca");
    files.make("second", "other-ca");
    files.make("client", "ca");
    files.put("first.pem", "server.pem");
    files.put("first.key", "server.key");
    files.put("ca.pem", "clients.pem");
    write_file(files.path("web.yaml"),
               "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n"
               "  client_ca_file: clients.pem\n  client_auth_type: RequireAndVerifyClientCert\n"
               "http_server_config:\n  headers: {X-Frame-Options: deny}\n"
               "basic_auth_users:\n  alice: " +
                   hash + "\n");
    const Finished checked =
        run({exporter_binary(), "check-config", "--web.config.file=" + files.path("web.yaml")});
    CHECK(checked.code == 0);
    CHECK(checked.output == "defaults: ok\n" + files.path("web.yaml") + ": ok\n");

    const Exporter exporter(quiet, {"env", "GPUSNOOP_WEB_CONFIG_FILE=" + files.path("web.yaml")});
    const std::string at = "https://127.0.0.1:" + std::to_string(exporter.port());
    const auto ask = [&](const std::string &path, std::vector<std::string> more,
                         const std::string &authority = "ca") {
        more.insert(more.end(), {"--cacert", files.path(authority + ".pem"), at + path});
        return curl(std::move(more));
    };
    const std::vector<std::string> certified = {"--cert", files.path("client.pem"), "--key",
                                                files.path("client.key")};
    const auto with = [&](std::vector<std::string> more) {
        more.insert(more.end(), certified.begin(), certified.end());
        return more;
    };
    CHECK(ask("/metrics", {"--user", user_and_password}).status == "000");  // no certificate
    CHECK(ask("/metrics", certified).status == "401");
    CHECK(ask("/metrics", with({"--user", "alice:wrong"})).status == "401");
    CHECK(ask("/metrics", with({"--user", "bob:wrong"})).status == "401");
    CHECK(ask("/-/reload", with({"--request", "POST"})).status == "401");
    CHECK(ask("/-/reload", with({"--request", "POST", "--user", user_and_password})).status ==
          "200");
    CHECK(ask("/-/healthy", certified).status == "200");
    CHECK(ask("/-/ready", certified).status == "200");
    const Answer page =
        ask("/metrics", with({"--user", user_and_password, "--include", "--compressed"}));
    CHECK(page.status == "200");
    CHECK(page.text.find("X-Frame-Options: deny") != std::string::npos);
    CHECK(page.text.find("\ngpusnoop_build_info{") != std::string::npos);
    CHECK(ask("/metrics", with({"--user", user_and_password, "--tls-max", "1.2"})).status == "200");
    CHECK(ask("/metrics", with({"--user", user_and_password, "--tlsv1.0", "--tls-max", "1.1",
                                "--ciphers", "DEFAULT@SECLEVEL=0"}))
              .status == "000");
    CHECK(ask("/metrics", with({"--user", user_and_password}), "other-ca").status == "000");
    CHECK(http(exporter.port(), "/metrics").status == 0);  // not in the clear

    // The certificate first, then its key: in between, the old ones stay.
    files.put("second.pem", "server.pem");
    eventually("the certificate without its key to be noticed", [&] {
        (void)ask("/-/healthy", certified);
        return exporter.log().find("the previous one stays in use") != std::string::npos;
    });
    CHECK(ask("/-/healthy", certified).status == "200");
    files.put("second.key", "server.key");
    eventually("the new certificate to be used",
               [&] { return ask("/-/healthy", certified, "other-ca").status == "200"; });
    CHECK(ask("/-/healthy", certified).status == "000");
    CHECK(count(exporter.log(), "the previous one stays in use") == 1);
    // Other clients may come then.
    files.put("other-ca.pem", "clients.pem");
    eventually("the new authority to be used",
               [&] { return ask("/-/healthy", certified, "other-ca").status == "000"; });
    CHECK(ask("/-/healthy", {"--cert", files.path("second.pem"), "--key", files.path("second.key")},
              "other-ca")
              .status == "200");
    CHECK(exporter.log().find("correct horse") == std::string::npos);
    CHECK(exporter.log().find(hash) == std::string::npos);
}

TEST_CASE("TLS 1.2 is spoken with forward secrecy only", "[e2e]") {
    require_bpf();
    const TemporaryDirectory directory;
    const std::string key = directory / "key.pem";
    const std::string certificate = directory / "certificate.pem";
    openssl({"req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=node",
             "-keyout", key, "-out", certificate});
    write_file(directory / "web.yaml",
               "tls_server_config: {cert_file: certificate.pem, key_file: key.pem}\n");
    const Exporter exporter(
        quiet, {"env", "GPUSNOOP_WEB_CONFIG_FILE=" + (directory / "web.yaml").string()});
    const auto shakes_hands = [&](const std::string &suite) {
        return run({"sh", "-c",
                    "openssl s_client -connect \"$1\" -tls1_2 -cipher \"$2\" </dev/null", "sh",
                    "127.0.0.1:" + std::to_string(exporter.port()), suite})
                   .code == 0;
    };
    for (const std::string suite : {"ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-CHACHA20-POLY1305",
                                    "ECDHE-RSA-AES256-GCM-SHA384"}) {
        INFO(suite);
        CHECK(shakes_hands(suite));
    }
    for (const std::string suite :
         {"AES128-GCM-SHA256", "AES256-GCM-SHA384", "AES256-SHA256", "AES128-SHA"}) {
        INFO(suite);
        CHECK_FALSE(shakes_hands(suite));
    }
}

TEST_CASE("check-config reads the web configuration and what it names", "[e2e]") {
    const TemporaryDirectory directory;
    const std::string web = directory / "web.yaml";
    const auto check = [&] {
        return run({exporter_binary(), "check-config", "--web.config.file=" + web});
    };
    write_file(web, "tls_server_config:\n  cert_file: a.pem\n  key_fil: b.pem\n");
    const Finished unknown = check();
    CHECK(unknown.code == 1);
    CHECK(unknown.output ==
          web + ":2:3: tls_server_config: has no key_file: TLS needs a certificate and its key\n" +
              web + ":3:3: tls_server_config.key_fil: unknown key, did you mean \"key_file\"?\n");
    write_file(web, "tls_server_config:\n  cert_file: a.pem\n  key_file: b.pem\n");
    const Finished missing = check();
    CHECK(missing.code == 1);
    CHECK(missing.output == web + ": cannot use the certificate " + (directory / "a.pem").string() +
                                ": No such file or directory\n");
}

TEST_CASE("several addresses, a Unix socket, and flags by environment variables", "[e2e]") {
    require_bpf();
    const TemporaryDirectory directory;
    const std::string path = directory / "http.sock";
    write_file(directory / "config.yaml", quiet);
    const Process::Environment environment = {
        {"GPUSNOOP_CONFIG_FILE", directory / "config.yaml"},
        {"GPUSNOOP_WEB_LISTEN_ADDRESS", "127.0.0.1:0,[::1]:0,unix:" + path},
        {"GPUSNOOP_WEB_TELEMETRY_PATH", "/gpu"},
        {"GPUSNOOP_LOG_LEVEL", "info"},
        {"GPUSNOOP_LOG_FORMAT", "json"}};
    const auto over_socket = [&](const std::string &page) {
        return curl({"--unix-socket", path, "http://localhost" + page}).status;
    };
    {
        Process exporter({exporter_binary()}, environment);
        exporter.wait_for_output("\"address\":\"unix:");
        std::vector<std::string> addresses;
        std::istringstream lines(exporter.output());
        for (std::string line; std::getline(lines, line);) {
            const YAML::Node record = YAML::Load(line);  // JSON is YAML
            if (record["msg"].as<std::string>() == "listening") {
                addresses.push_back(record["address"].as<std::string>());
            }
        }
        REQUIRE(addresses.size() == 3);
        CHECK(addresses[0].starts_with("127.0.0.1:"));
        CHECK(addresses[1].starts_with("[::1]:"));
        CHECK(addresses[2] == "unix:" + path);
        CHECK(curl({"http://" + addresses[0] + "/gpu"}).status == "200");
        CHECK(curl({"http://" + addresses[0] + "/metrics"}).status == "404");
        CHECK(curl({"--globoff", "http://" + addresses[1] + "/gpu"}).status == "200");
        CHECK(over_socket("/gpu") == "200");
        CHECK(run({"stat", "--format=%a", path}).output == "660\n");
        // The command line goes first, and a socket in use is not taken away.
        const Finished second = run({exporter_binary(), "--web.listen-address=unix:" + path,
                                     "--log.level=error", "--log.format=logfmt"},
                                    environment);
        CHECK(second.code == 1);
        CHECK(second.output.find("cannot listen on unix:" + path + ": address already in use") !=
              std::string::npos);
        CHECK(over_socket("/gpu") == "200");
        exporter.signal(SIGKILL);
        exporter.wait();
    }
    CHECK(std::filesystem::exists(path));
    Process exporter({exporter_binary()}, environment);
    exporter.wait_for_output("\"address\":\"unix:");
    CHECK(over_socket("/gpu") == "200");
    exporter.signal(SIGTERM);
    CHECK(exporter.wait() == 0);
    CHECK_FALSE(std::filesystem::exists(path));

    const std::string help = run({exporter_binary(), "--help"}).output;
    for (const std::string variable :
         {"GPUSNOOP_CONFIG_FILE", "GPUSNOOP_WEB_LISTEN_ADDRESS", "GPUSNOOP_WEB_SYSTEMD_SOCKET",
          "GPUSNOOP_WEB_CONFIG_FILE", "GPUSNOOP_WEB_TELEMETRY_PATH", "GPUSNOOP_LOG_LEVEL",
          "GPUSNOOP_LOG_FORMAT"}) {
        INFO(help);
        CHECK(help.find(variable) != std::string::npos);
    }
    const Finished wrong = run({exporter_binary()}, {{"GPUSNOOP_LOG_LEVEL", "loud"}});
    CHECK(wrong.code == 2);
    CHECK(wrong.output.find("loud") != std::string::npos);
}

TEST_CASE("sockets that systemd passes are served", "[e2e]") {
    require_bpf();
    if (run({"systemd-socket-activate", "--version"}).code != 0) {
        missing("systemd-socket-activate");
    }
    const TemporaryDirectory directory;
    write_file(directory / "config.yaml", quiet);
    const std::string path = directory / "s";
    // It starts the exporter when the first client comes, who then waits for it.
    // It starts it in an empty environment, without the options of scripts/sanitized.sh.
    Process exporter({"systemd-socket-activate", "--setenv=ASAN_OPTIONS", "--setenv=TSAN_OPTIONS",
                      "--listen=" + path, exporter_binary(), "--web.systemd-socket",
                      "--config.file=" + (directory / "config.yaml").string()});
    eventually("systemd to listen", [&] { return std::filesystem::exists(path); });
    CHECK(curl({"--unix-socket", path, "http://localhost/-/healthy"}).status == "200");
    eventually("the exporter to be ready", [&] {
        return curl({"--unix-socket", path, "http://localhost/-/ready"}).status == "200";
    });
    CHECK(exporter.output().find("address=unix:" + path) != std::string::npos);
    CHECK(curl({"--unix-socket", path, "http://localhost/metrics"}).status == "200");
    exporter.signal(SIGTERM);
    CHECK(exporter.wait() == 0);
    CHECK(std::filesystem::exists(path));  // it is systemd's

    const Finished none = run({exporter_binary(), "--web.systemd-socket",
                               "--config.file=" + (directory / "config.yaml").string()});
    CHECK(none.code == 1);
    CHECK(none.output.find("systemd passed no sockets") != std::string::npos);
}

TEST_CASE("100 scrapes are served while 2000 clients say nothing, by 32 threads in all", "[e2e]") {
    require_bpf();
    const rlimit files{8'192, 8'192};
    if (::setrlimit(RLIMIT_NOFILE, &files) != 0) {
        missing("permission to open 8192 files");
    }
    // With every probe, on stand-ins.
    Exporter exporter(
        "functions: {enabled: true}\npcie: {enabled: true}\nnvlink: {enabled: true}\n");
    const Process workload({standin("workload"), "--seconds", "1000", "--name", "scraped"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    std::vector<gpusnoop::Fd> silent;
    for (int i = 0; i < 2'000; i++) {
        silent.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(exporter.port());
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        REQUIRE(::connect(silent.back().get(), reinterpret_cast<const sockaddr *>(&address),
                          sizeof address) == 0);
    }
    std::atomic<int> whole = 0;
    {
        std::vector<std::jthread> clients;
        for (int i = 0; i < 100; i++) {
            clients.emplace_back([&] {
                const HttpAnswer answer = http(exporter.port(), "/metrics");
                whole += answer.status == 200 && answer.body.ends_with('\n') ? 1 : 0;
            });
        }
        const std::string tasks = "/proc/" + std::to_string(exporter.process().pid()) + "/task";
        const auto threads = std::distance(std::filesystem::directory_iterator(tasks),
                                           std::filesystem::directory_iterator());
        CHECK(threads <= 32);
    }
    CHECK(whole == 100);
    CHECK(http(exporter.port(), "/metrics", "HEAD").body.empty());
}
