#include "bench/scrape/serve.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>

namespace gpusnoop::bench {

std::size_t series_of(int argc, char **argv) {
    std::size_t series = 0;
    const char *const text = argc == 2 ? argv[1] : "";
    const char *const end = text + std::strlen(text);
    if (const auto read = std::from_chars(text, end, series);
        read.ec != std::errc() || read.ptr != end || series == 0) {
        std::fprintf(stderr, "usage: %s SERIES\nIs started by the benchmark `scrape`.\n", argv[0]);
        std::exit(2);
    }
    return series;
}

void serve(std::uint16_t port, const std::function<std::string(const std::string &)> &answer) {
    std::cout << port << std::endl;
    for (std::string line; std::getline(std::cin, line);) {
        std::cout << answer(line) << std::endl;
    }
}

}  // namespace gpusnoop::bench
