// What both servers of the benchmark have in common: they say where they listen, and answer words
// on standard input until it ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace gpusnoop::bench {

// The series that the command line asks for; ends the program where it does not.
std::size_t series_of(int argc, char **argv);

// `answer` is called with a line, and gives a line.
void serve(std::uint16_t port, const std::function<std::string(const std::string &)> &answer);

}  // namespace gpusnoop::bench
