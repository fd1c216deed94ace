// libbpf's process-wide settings.
#pragma once

#include <string>

namespace gpusnoop::ebpf {

// Sends libbpf's messages to our log: warnings as debug lines, because every failure that matters
// is also returned to us and reported once, in our own words.
void route_libbpf_messages();

// "1.4.6"-like: the version of the library that is linked.
std::string libbpf_version();

// Does this kernel have a type of that name?
bool has_type(const std::string &name);

}  // namespace gpusnoop::ebpf
