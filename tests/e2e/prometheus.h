// Debian's own Prometheus, as scripts/setup.sh --tests unpacks it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/harness/page.h"
#include "tests/harness/process.h"

namespace e2e {

// Skips the test where Prometheus was not unpacked.
void require_prometheus();

// `promtool check metrics` on a page: silent, with code 0, when there is nothing to complain about.
harness::Finished promtool(const std::string &page);

// A GET on 127.0.0.1 whose answer may come in chunks.
std::string get(std::uint16_t port, const std::string &path);

// A Prometheus that scrapes one exporter every second.
class Prometheus {
public:
    // `more_jobs` are further items of scrape_configs, indented by two.
    explicit Prometheus(std::uint16_t exporter_port, const std::string &more_jobs = "");

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
