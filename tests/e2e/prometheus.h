// Debian's own Prometheus, as scripts/setup.sh --tests unpacks it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/harness/page.h"
#include "tests/harness/process.h"

namespace e2e {

// A program that scripts/setup.sh --tests unpacks.
std::string tool(const std::string &name);
// Skips the test where Prometheus and Alertmanager were not unpacked.
void require_prometheus();

// One that is free now; the kernel does not give it out again at once.
std::uint16_t free_port();

// `promtool check metrics` on a page: silent, with code 0, when there is nothing to complain about.
harness::Finished promtool(const std::string &page);

// A GET on 127.0.0.1 whose answer may come in chunks.
std::string get(std::uint16_t port, const std::string &path);

// What a Prometheus does besides scraping.
struct PrometheusOptions {
    std::string interval = "1s";          // of scrapes and of rules
    std::string rules = {};               // a glob of files of rules
    std::uint16_t alertmanager_port = 0;  // where alerts are sent, unless it is 0
    std::string more_jobs = {};           // further items of scrape_configs, indented by two
    std::vector<std::string> flags = {};  // further arguments
};

// A Prometheus that scrapes one exporter.
class Prometheus {
public:
    explicit Prometheus(std::uint16_t exporter_port, const PrometheusOptions &options = {});

    // An instant query: one sample for each element of the resulting vector, without a name.
    [[nodiscard]] std::vector<harness::Sample> query(const std::string &expression) const;
    // The value of a query that has one element; fails the test when there are more or none.
    [[nodiscard]] double value(const std::string &expression) const;
    // The value of the one element that has these labels.
    [[nodiscard]] double value(const std::string &expression, const harness::Labels &labels) const;

    // Returns once `count` scrapes have begun and ended after this call.
    void wait_for_scrapes(int count = 1) const;

    [[nodiscard]] std::uint16_t port() const { return port_; }
    [[nodiscard]] std::string log() const { return process_->output(); }

private:
    harness::TemporaryDirectory directory_;
    std::uint16_t port_ = 0;
    std::unique_ptr<harness::Process> process_;
};

}  // namespace e2e
