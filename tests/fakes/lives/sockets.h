// The sockets of `lives`.
#pragma once

#include <string>

namespace sockets {

// How many of the words behind it the step took; -1: it is none of these.
int run(const std::string &step, char **words, int count);

}  // namespace sockets
