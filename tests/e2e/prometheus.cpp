#include "tests/e2e/prometheus.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cctype>
#include <cstdio>
#include <cstdlib>

#include "tests/harness/exporter.h"

namespace e2e {

using harness::eventually;
using harness::Labels;
using harness::Sample;

namespace {

std::string url_encoded(const std::string &text) {
    std::string encoded;
    for (const char letter : text) {
        if (std::isalnum(static_cast<unsigned char>(letter)) != 0) {
            encoded += letter;
        } else {
            std::array<char, 4> hex;
            std::snprintf(hex.data(), hex.size(), "%%%02X", static_cast<unsigned char>(letter));
            encoded += hex.data();
        }
    }
    return encoded;
}

std::string without_chunks(const std::string &body) {
    std::string whole;
    for (std::size_t at = 0; at < body.size();) {
        const std::size_t size = std::strtoul(body.c_str() + at, nullptr, 16);
        const std::size_t data = body.find("\r\n", at) + 2;
        whole += body.substr(data, size);
        at = data + size + 2;
        if (size == 0) {
            break;
        }
    }
    return whole;
}

}  // namespace

std::string tool(const std::string &name) {
    return std::string(GPUSNOOP_SOURCE_DIR) + "/.deps/tools/usr/bin/" + name;
}

std::uint16_t free_port() {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    REQUIRE(::bind(socket, reinterpret_cast<sockaddr *>(&address), size) == 0);
    REQUIRE(::getsockname(socket, reinterpret_cast<sockaddr *>(&address), &size) == 0);
    ::close(socket);
    return ntohs(address.sin_port);
}

void require_prometheus() {
    for (const auto *name : {"prometheus", "promtool", "prometheus-alertmanager"}) {
        if (::access(tool(name).c_str(), X_OK) != 0) {
            harness::missing("Prometheus and Alertmanager (scripts/setup.sh --tests)");
        }
    }
}

harness::Finished promtool(const std::string &page) {
    const harness::TemporaryDirectory directory;
    harness::write_file(directory / "page", page);
    return harness::run({"sh", "-c", "exec \"$0\" check metrics < \"$1\"", tool("promtool"),
                         (directory / "page").string()});
}

std::string get(std::uint16_t port, const std::string &path) {
    const harness::HttpAnswer answer = harness::http(port, path);
    INFO(path << ": " << answer.body);
    REQUIRE(answer.status == 200);
    const bool chunked = answer.headers.find("Transfer-Encoding: chunked") != std::string::npos;
    return chunked ? without_chunks(answer.body) : answer.body;
}

Prometheus::Prometheus(std::uint16_t exporter_port, const PrometheusOptions &options)
    : port_(free_port()) {
    const auto config = directory_ / "prometheus.yml";
    std::string text = "global:\n  scrape_interval: " + options.interval +
                       "\n  scrape_timeout: " + options.interval +
                       "\n  evaluation_interval: " + options.interval + "\n";
    if (!options.rules.empty()) {
        text += "rule_files: ['" + options.rules + "']\n";
    }
    if (options.alertmanager_port != 0) {
        text +=
            "alerting:\n  alertmanagers:\n    - static_configs:\n      - targets: ['127.0.0.1:" +
            std::to_string(options.alertmanager_port) + "']\n";
    }
    harness::write_file(config, text +
                                    "scrape_configs:\n  - job_name: gpusnoop\n"
                                    "    static_configs:\n      - targets: ['127.0.0.1:" +
                                    std::to_string(exporter_port) + "']\n" + options.more_jobs);
    std::vector<std::string> command = {tool("prometheus"), "--config.file=" + config.string(),
                                        "--storage.tsdb.path=" + (directory_ / "data").string(),
                                        "--web.listen-address=127.0.0.1:" + std::to_string(port_)};
    command.insert(command.end(), options.flags.begin(), options.flags.end());
    process_ = std::make_unique<harness::Process>(std::move(command));
    eventually("Prometheus to be ready: " + log(),
               [&] { return harness::http(port_, "/-/ready").status == 200; });
}

std::vector<Sample> Prometheus::query(const std::string &expression) const {
    // JSON is YAML.
    const YAML::Node answer =
        YAML::Load(get(port_, "/api/v1/query?query=" + url_encoded(expression)));
    REQUIRE(answer["status"].as<std::string>() == "success");
    std::vector<Sample> samples;
    for (const YAML::Node &element : answer["data"]["result"]) {
        Sample sample;
        for (const auto &label : element["metric"]) {
            sample.labels[label.first.as<std::string>()] = label.second.as<std::string>();
        }
        sample.value = std::strtod(element["value"][1].as<std::string>().c_str(), nullptr);
        samples.push_back(sample);
    }
    return samples;
}

double Prometheus::value(const std::string &expression) const {
    return value(expression, {});
}

double Prometheus::value(const std::string &expression, const Labels &labels) const {
    std::vector<Sample> found = query(expression);
    std::erase_if(found, [&](const Sample &sample) {
        return !std::ranges::all_of(labels, [&](const auto &label) {
            const auto own = sample.labels.find(label.first);
            return own != sample.labels.end() && own->second == label.second;
        });
    });
    INFO(expression);
    REQUIRE(found.size() == 1);
    return found.front().value;
}

void Prometheus::wait_for_scrapes(int count) const {
    const auto scrapes = [&] {
        const auto times = query("count_over_time(up{job=\"gpusnoop\"}[1h])");
        return times.empty() ? 0 : times.front().value;
    };
    // Of those that are finished from now on, the first may have begun before.
    const double wanted = scrapes() + count + 1;
    eventually("Prometheus to scrape: " + log(), [&] { return scrapes() >= wanted; });
}

}  // namespace e2e
