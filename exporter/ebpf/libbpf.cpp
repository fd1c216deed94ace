#include "exporter/ebpf/libbpf.h"

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>

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

struct BtfDeleter {
    void operator()(btf *types) const { btf__free(types); }
};
using Types = std::unique_ptr<btf, BtfDeleter>;

// Calls use(types, id) for the type of that kind and name, if they have one.
bool with_type(const Types &types, const std::string &name, std::uint32_t kind, auto use) {
    const int id = types ? btf__find_by_name_kind(types.get(), name.c_str(), kind) : -1;
    return id > 0 && use(*types, static_cast<std::uint32_t>(id));
}

Types kernel_types() {
    return Types(btf__load_vmlinux_btf());
}

bool exists(const btf & /*types*/, std::uint32_t /*id*/) {
    return true;
}

}  // namespace

bool has_type(const std::string &name) {
    return with_type(kernel_types(), name, BTF_KIND_STRUCT, exists);
}

bool has_tracepoint(const std::string &name) {
    const std::size_t colon = name.find(':');
    const std::string type = "btf_trace_" + name.substr(colon == std::string::npos ? 0 : colon + 1);
    const Types kernel = kernel_types();
    if (!kernel || with_type(kernel, type, BTF_KIND_TYPEDEF, exists)) {
        return kernel != nullptr;
    }
    return colon != std::string::npos &&
           with_type(Types(btf__load_module_btf(name.substr(0, colon).c_str(), kernel.get())), type,
                     BTF_KIND_TYPEDEF, exists);
}

bool has_member(const std::string &type, const std::string &member) {
    return with_type(kernel_types(), type, BTF_KIND_STRUCT,
                     [&](const btf &types, std::uint32_t id) {
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

Result<std::size_t> possible_cpus() {
    const int cpus = libbpf_num_possible_cpus();
    if (cpus < 0) {
        return fail_errno("count the CPUs", -cpus);
    }
    return static_cast<std::size_t>(cpus);
}

}  // namespace gpusnoop::ebpf
