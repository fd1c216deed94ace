#include "exporter/ebpf/libbpf.h"

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <string>

#include "exporter/ebpf/link.h"

namespace gpusnoop::ebpf {

namespace {

int on_message(libbpf_print_level level, const char *format, va_list arguments) {
    if (level == LIBBPF_DEBUG || !spdlog::should_log(spdlog::level::debug)) {
        return 0;
    }
    // The verifier's log is long, and its last lines give the reason.
    std::string text(std::size_t{1} << 20, '\0');
    const int length = std::vsnprintf(text.data(), text.size(), format, arguments);
    text.resize(std::min(text.size() - 1, static_cast<std::size_t>(std::max(length, 0))));
    while (text.ends_with('\n')) {
        text.pop_back();
    }
    if (constexpr std::size_t most = 2'000; text.size() > most) {
        text = "... " + text.substr(text.size() - most);
    }
    spdlog::debug("{}", text);
    return length;
}

}  // namespace

void route_libbpf_messages() {
    libbpf_set_print(on_message);
}

std::string libbpf_version() {
    std::string version = libbpf_version_string();
    return version.starts_with("v") ? version.substr(1) : version;
}

bool has_type(const std::string &name) {
    btf *kernel = btf__load_vmlinux_btf();
    if (kernel == nullptr) {
        return false;
    }
    const bool has = btf__find_by_name_kind(kernel, name.c_str(), BTF_KIND_STRUCT) > 0;
    btf__free(kernel);
    return has;
}

void LinkDeleter::operator()(bpf_link *link) const {
    bpf_link__destroy(link);
}

}  // namespace gpusnoop::ebpf
