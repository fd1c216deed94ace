// A scraped metrics page, as numbers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace harness {

using Labels = std::map<std::string, std::string>;

struct Sample {
    std::string name;
    Labels labels;
    double value = 0;
};

struct HttpAnswer {
    int status = 0;
    std::string headers;
    std::string body;
};

// GET (or another method) on 127.0.0.1; status 0 if no server answers.
HttpAnswer http(std::uint16_t port, const std::string &path, const std::string &method = "GET",
                const std::string &headers = "");

class Page {
public:
    // Parses the text format; throws std::runtime_error for an invalid line.
    explicit Page(const std::string &text);

    // The sum of the samples of this name that have all these labels. `found` distinguishes 0 from
    // no sample.
    [[nodiscard]] double sum(const std::string &name, const Labels &labels = {}) const;
    [[nodiscard]] bool has(const std::string &name, const Labels &labels = {}) const;
    [[nodiscard]] std::vector<Sample> samples(const std::string &name,
                                              const Labels &labels = {}) const;

private:
    std::vector<Sample> samples_;
};

}  // namespace harness
