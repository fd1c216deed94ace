// libbpf's process-wide settings.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "exporter/base/result.h"

struct bpf_link;

namespace gpusnoop::ebpf {

struct LinkDeleter {
    void operator()(bpf_link *link) const;
};

using Link = std::unique_ptr<bpf_link, LinkDeleter>;

// Sends libbpf's messages to the exporter's log: warnings as debug lines, because every failure
// that matters is also returned and reported once, in the exporter's own words.
void route_libbpf_messages();

// "1.4.6"-like: the version of the library that is linked.
std::string libbpf_version();

// Whether this kernel has a type with that name.
bool has_type(const std::string &name);
// Whether programs can be attached to this tracepoint by its BTF type. "kvm:kvm_exit" can be of the
// module kvm, too, while it is loaded.
bool has_tracepoint(const std::string &name);
// Whether that type has this member.
bool has_member(const std::string &type, const std::string &member);

// Of this machine, also those that are offline. libbpf reads it from a file once: without a free
// descriptor the first call fails, and after a call that succeeded none does.
Result<std::size_t> possible_cpus();

}  // namespace gpusnoop::ebpf
