#include "tests/harness/page.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ranges>
#include <sstream>
#include <stdexcept>

namespace harness {

namespace {

std::string receive_all(int socket) {
    std::string all;
    std::array<char, 65536> part;
    ssize_t got = 0;
    while ((got = ::recv(socket, part.data(), part.size(), 0)) > 0) {
        all.append(part.data(), static_cast<std::size_t>(got));
    }
    return all;
}

// name{label="value",...} value
Sample parse(const std::string &line) {
    const auto bad = [&] { return std::runtime_error("not a sample: " + line); };
    Sample sample;
    std::size_t at = line.find_first_of("{ ");
    if (at == std::string::npos) {
        throw bad();
    }
    sample.name = line.substr(0, at);
    if (line[at] == '{') {
        at++;
        while (at < line.size() && line[at] != '}') {
            const std::size_t equals = line.find("=\"", at);
            if (equals == std::string::npos) {
                throw bad();
            }
            std::string value;
            std::size_t i = equals + 2;
            for (; i < line.size() && line[i] != '"'; i++) {
                if (line[i] == '\\' && i + 1 < line.size()) {
                    i++;
                    value += line[i] == 'n' ? '\n' : line[i];
                } else {
                    value += line[i];
                }
            }
            sample.labels[line.substr(at, equals - at)] = value;
            at = i + 1;
            if (at < line.size() && line[at] == ',') {
                at++;
            }
        }
        at++;
    }
    char *end = nullptr;
    const char *number = line.c_str() + at;
    sample.value = std::strtod(number, &end);
    if (end == number) {
        throw bad();
    }
    return sample;
}

bool has_labels(const Sample &sample, const Labels &labels) {
    return std::ranges::all_of(labels, [&](const auto &label) {
        const auto own = sample.labels.find(label.first);
        // An empty label is no label.
        return own == sample.labels.end() ? label.second.empty() : own->second == label.second;
    });
}

// Those of this name that have these labels, of samples that are sorted by name.
auto matching(const std::vector<Sample> &samples, const std::string &name, const Labels &labels) {
    return std::ranges::equal_range(samples, name, {}, &Sample::name) |
           std::views::filter(
               [&labels](const Sample &sample) { return has_labels(sample, labels); });
}

}  // namespace

HttpAnswer http(std::uint16_t port, const std::string &path, const std::string &method,
                const std::string &headers) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    HttpAnswer answer;
    if (::connect(socket, reinterpret_cast<sockaddr *>(&address), sizeof(address)) == 0) {
        const std::string request = method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" +
                                    headers + "Connection: close\r\n\r\n";
        ::send(socket, request.data(), request.size(), MSG_NOSIGNAL);
        const std::string all = receive_all(socket);
        const std::size_t end = all.find("\r\n\r\n");
        if (end != std::string::npos && all.size() > 12) {
            answer = {std::atoi(all.c_str() + 9), all.substr(0, end), all.substr(end + 4)};
        }
    }
    ::close(socket);
    return answer;
}

Page::Page(const std::string &text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (!line.empty() && line[0] != '#') {
            samples_.push_back(parse(line));
        }
    }
    std::ranges::stable_sort(samples_, {}, &Sample::name);
}

std::vector<Sample> Page::samples(const std::string &name, const Labels &labels) const {
    auto found = matching(samples_, name, labels);
    return {found.begin(), found.end()};
}

double Page::sum(const std::string &name, const Labels &labels) const {
    double sum = 0;
    for (const Sample &sample : matching(samples_, name, labels)) {
        sum += sample.value;
    }
    return sum;
}

bool Page::has(const std::string &name, const Labels &labels) const {
    return !matching(samples_, name, labels).empty();
}

}  // namespace harness
