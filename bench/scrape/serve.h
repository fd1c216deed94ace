// The shared part of the benchmark's two servers: they print their address, and answer words on
// standard input until it ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace gpusnoop::bench {

// The number of series on the command line; ends the program if there is none.
std::size_t series_of(int argc, char **argv);

// `answer` gets a line and returns a line.
void serve(std::uint16_t port, const std::function<std::string(const std::string &)> &answer);

}  // namespace gpusnoop::bench
