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

namespace {

// Calls use(types, id) for the kernel's type of that kind and name, if it has one.
bool with_type(const std::string &name, std::uint32_t kind, auto use) {
    btf *kernel = btf__load_vmlinux_btf();
    if (kernel == nullptr) {
        return false;
    }
    const int id = btf__find_by_name_kind(kernel, name.c_str(), kind);
    const bool used = id > 0 && use(*kernel, static_cast<std::uint32_t>(id));
    btf__free(kernel);
    return used;
}

}  // namespace

bool has_type(const std::string &name) {
    return with_type(name, BTF_KIND_STRUCT,
                     [](const btf & /*types*/, std::uint32_t /*id*/) { return true; });
}

bool has_tracepoint(const std::string &name) {
    return with_type("btf_trace_" + name, BTF_KIND_TYPEDEF,
                     [](const btf & /*types*/, std::uint32_t /*id*/) { return true; });
}

bool has_member(const std::string &type, const std::string &member) {
    return with_type(type, BTF_KIND_STRUCT, [&](const btf &types, std::uint32_t id) {
        const btf_type *const found = btf__type_by_id(&types, id);
        const btf_member *const members = btf_members(found);
        for (std::uint16_t i = 0; i < btf_vlen(found); i++) {
            if (member == btf__name_by_offset(&types, members[i].name_off)) {
                return true;
            }
        }
        return false;
    });
}

void LinkDeleter::operator()(bpf_link *link) const {
    bpf_link__destroy(link);
}

}  // namespace gpusnoop::ebpf
