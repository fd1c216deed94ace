#include "exporter/probes/cuda/launches/cuda_kernel_name.h"

#include <array>

#include "exporter/base/text/text.h"
#include "exporter/symbols/demangle/function_name.h"
#include "exporter/symbols/demangle/mangled_name.h"

namespace gpusnoop::symbols {
namespace {

// nvcc puts kernel _Z3addPf behind a host stub __device_stub__Z3addPf (this, then the mangled
// name); clang calls the stub of kernel `add` __device_stub__add; templates have a wrapper in
// between.
constexpr std::string_view nvcc_stub = "__device_stub_";
constexpr std::array<std::string_view, 2> stub_prefixes{"__wrapper__device_stub_",
                                                        "__device_stub__"};

// The longest name that is not cut: it leaves room for long names, but bounds hostile ones.
constexpr std::size_t max_uncut_bytes = 4096;

// Removes a decimal length, and that many bytes, from the front of `text`; empty if they are not
// there.
std::string_view take_source_name(std::string_view &text) {
    std::size_t length = 0;
    std::size_t digits = 0;
    while (digits < text.size() && digits < 6 && text[digits] >= '0' && text[digits] <= '9') {
        length = length * 10 + static_cast<std::size_t>(text[digits] - '0');
        ++digits;
    }
    if (digits == 0 || length > text.size() - digits) {
        return {};
    }
    const std::string_view name = text.substr(digits, length);
    text.remove_prefix(digits + length);
    return name;
}

// "_Z3addPf" in "__device_stub__Z3addPf"; empty in anything else.
std::string_view kernel_of_stub(std::string_view name) {
    if (!name.starts_with(nvcc_stub)) {
        return {};
    }
    name.remove_prefix(nvcc_stub.size());
    return name.starts_with("_Z") ? name : std::string_view();
}

// The mangled name of the kernel for the mangled or plain name of nvcc's stub, else `symbol`.
std::string_view without_nvcc_stub(std::string_view symbol) {
    std::string_view name = symbol;
    if (name.starts_with("_Z")) {
        name.remove_prefix(name.starts_with("_ZL") ? 3 : 2);
        name = take_source_name(name);
    }
    const std::string_view kernel = kernel_of_stub(name);
    return kernel.empty() ? symbol : kernel;
}

// Where the last part of a qualified name starts; its template arguments may hold "::", too.
std::size_t last_part(std::string_view name) {
    const std::size_t scope = name.substr(0, name.find('<')).rfind("::");
    return scope == std::string_view::npos ? 0 : scope + 2;
}

void remove_stub_prefix(std::string &name) {
    const std::size_t at = last_part(name);
    for (const std::string_view prefix : stub_prefixes) {
        if (std::string_view(name).substr(at).starts_with(prefix) &&
            name.size() > at + prefix.size()) {
            name.erase(at, prefix.size());
            return;
        }
    }
}

}  // namespace

std::string kernel_name(std::string_view symbol) {
    const std::string_view mangled = without_nvcc_stub(symbol);
    auto name = read_mangled_name(mangled, max_template_argument_bytes)
                    .value_or(std::string(mangled.substr(0, max_uncut_bytes)));
    remove_stub_prefix(name);
    return shortened_name(to_valid_utf8(name, max_uncut_bytes), max_kernel_name_bytes);
}

std::optional<std::size_t> kernel_parameters(std::string_view symbol) {
    return count_mangled_parameters(without_nvcc_stub(symbol));
}

std::optional<std::string_view> kernel_of_launch_handle(std::string_view symbol) {
    if (!symbol.starts_with("_ZZ") || !symbol.ends_with(launch_handle_ending)) {
        return std::nullopt;
    }
    symbol.remove_prefix(3);
    symbol.remove_suffix(launch_handle_ending.size());
    if (symbol.starts_with('L')) {  // internal linkage: static kernels and all templates
        symbol.remove_prefix(1);
    }
    const std::string_view kernel = kernel_of_stub(take_source_name(symbol));
    return kernel.empty() ? std::nullopt : std::optional(kernel);
}

}  // namespace gpusnoop::symbols
