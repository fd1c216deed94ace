#include "exporter/kernel/libbpf.h"

#include <bpf/libbpf.h>
#include <spdlog/spdlog.h>

#include <array>
#include <cstdarg>
#include <cstdio>

#include "exporter/kernel/link.h"

namespace gpusnoop::kernel {

namespace {

int on_message(libbpf_print_level level, const char *format, va_list arguments) {
    if (level == LIBBPF_DEBUG || !spdlog::should_log(spdlog::level::debug)) {
        return 0;
    }
    std::array<char, 1024> line{};
    const int length = std::vsnprintf(line.data(), line.size(), format, arguments);
    if (length > 0) {
        std::string text(line.data());
        while (!text.empty() && text.back() == '\n') {
            text.pop_back();
        }
        spdlog::debug("{}", text);
    }
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

void LinkDeleter::operator()(bpf_link *link) const {
    bpf_link__destroy(link);
}

}  // namespace gpusnoop::kernel
