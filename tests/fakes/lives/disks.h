// What `lives` does to block devices.
#pragma once

#include <string>

namespace disks {

// How many of the words behind it the step took; -1: it is none of these.
int run(const std::string &step, char **words, int count);

}  // namespace disks
