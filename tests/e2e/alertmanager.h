// The rules, faster than they are, and Debian's Alertmanager with the configuration of
// docker/alertmanager.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "tests/e2e/prometheus.h"
#include "tests/harness/exporter.h"
#include "tests/harness/machine/directory.h"
#include "tests/harness/process.h"

namespace e2e {

// 30 minutes are 10 seconds, 5 minutes hardly two.
inline constexpr const char *faster = "180";
// Slow calls are an alert where they are new to a program, and go on.
inline constexpr const char *without_history = "slow_history=1s";
inline constexpr const char *at_once = "slow_for=1s";

inline void render_rules(const std::filesystem::path &directory) {
    const harness::Finished rendered = harness::run(
        {"python3", std::string(GPUSNOOP_SOURCE_DIR) + "/dashboards/rules/render.py", "--faster",
         faster, "--set", without_history, "--set", at_once, "--output-dir", directory.string()});
    INFO(rendered.output);
    REQUIRE(rendered.code == 0);
}

// The example, with its receivers here and hardly any waiting.
inline std::string alertmanager_config(std::uint16_t webhook_port) {
    const std::string example = harness::read_file(std::string(GPUSNOOP_SOURCE_DIR) +
                                                   "/docker/alertmanager/alertmanager.yml");
    std::string config = std::regex_replace(example, std::regex("(group_wait): \\w+"), "$1: 100ms");
    config = std::regex_replace(config, std::regex("(group_interval): \\w+"), "$1: 500ms");
    config = std::regex_replace(config, std::regex("127\\.0\\.0\\.1:5001"),
                                "127.0.0.1:" + std::to_string(webhook_port));
    REQUIRE(config.find(std::to_string(webhook_port)) != std::string::npos);
    return config;
}

class Alertmanager {
public:
    explicit Alertmanager(std::uint16_t webhook_port) : port_(free_port()) {
        harness::write_file(directory_ / "alertmanager.yml", alertmanager_config(webhook_port));
        // Debian's reads its templates from /usr/share, which is that of the unpacked package for
        // it.
        const std::string share = tool("../share");
        process_ = std::make_unique<harness::Process>(std::vector<std::string>{
            "unshare", "--mount", "sh", "-c",
            R"(mount --bind "$1" /usr/share && shift && exec "$@")", "sh", share,
            tool("prometheus-alertmanager"),
            "--config.file=" + (directory_ / "alertmanager.yml").string(),
            "--storage.path=" + (directory_ / "data").string(), "--cluster.listen-address=",
            "--web.listen-address=127.0.0.1:" + std::to_string(port_)});
        harness::eventually("Alertmanager to be ready: " + process_->output(),
                            [&] { return harness::http(port_, "/-/ready").status == 200; });
    }

    [[nodiscard]] std::uint16_t port() const { return port_; }

private:
    harness::TemporaryDirectory directory_;
    std::uint16_t port_;
    std::unique_ptr<harness::Process> process_;
};

}  // namespace e2e
