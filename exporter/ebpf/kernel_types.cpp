#include "exporter/ebpf/kernel_types.h"

#include <bpf/btf.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <mutex>
#include <sstream>
#include <vector>

#include "exporter/base/read_file.h"

// libbpf has no way to be given these types, so the linker puts the functions here in the place of
// its own: the option --wrap in exporter/CMakeLists.txt. It also chooses their names. Where libbpf
// is a shared library, only our own calls come here.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
btf *__real_btf__load_vmlinux_btf();
void __real_btf__free(btf *types);
btf *__wrap_btf__load_vmlinux_btf();
void __wrap_btf__free(btf *types);
}

namespace gpusnoop::ebpf {

namespace {

class SharedTypes {
public:
    void hold() {
        const std::lock_guard lock(mutex_);
        holders_++;
    }
    void release() {
        const std::lock_guard lock(mutex_);
        holders_--;
        free_unused();
    }
    btf *load() {
        const std::lock_guard lock(mutex_);
        if (holders_ == 0) {
            return __real_btf__load_vmlinux_btf();
        }
        if (types_ == nullptr) {
            types_ = __real_btf__load_vmlinux_btf();
        }
        users_ += types_ != nullptr ? 1 : 0;
        return types_;
    }
    // False: these are others.
    bool give_back(const btf *types) {
        const std::lock_guard lock(mutex_);
        if (types == nullptr || types != types_) {
            return false;
        }
        users_--;
        free_unused();
        return true;
    }

private:
    void free_unused() {
        if (holders_ == 0 && users_ == 0 && types_ != nullptr) {
            __real_btf__free(types_);
            types_ = nullptr;
        }
    }

    std::mutex mutex_;
    unsigned holders_ = 0;
    unsigned users_ = 0;  // objects that have them
    btf *types_ = nullptr;
};

SharedTypes &shared_types() {
    static SharedTypes types;
    return types;
}

}  // namespace

SharedKernelTypes::SharedKernelTypes() {
    shared_types().hold();
}

SharedKernelTypes::~SharedKernelTypes() {
    shared_types().release();
}

}  // namespace gpusnoop::ebpf

btf *__wrap_btf__load_vmlinux_btf() {
    return gpusnoop::ebpf::shared_types().load();
}

void __wrap_btf__free(btf *types) {
    if (!gpusnoop::ebpf::shared_types().give_back(types)) {
        __real_btf__free(types);
    }
}
// NOLINTEND(bugprone-reserved-identifier)

namespace gpusnoop::ebpf {

namespace {

struct Close {
    void operator()(std::FILE *file) const { std::fclose(file); }
};

struct Symbol {
    std::uint64_t address = 0;
    std::string_view name;
};

// "ffffffffc0a51010 t a_function\t[a_module]", the module's name only where there is one.
Symbol parse(std::string_view line) {
    Symbol symbol;
    std::from_chars(line.data(), line.data() + line.size(), symbol.address, 16);
    const std::size_t type = line.find(' ');
    if (type == std::string_view::npos || type + 3 > line.size()) {
        return {};
    }
    symbol.name = line.substr(type + 3);
    symbol.name = symbol.name.substr(0, symbol.name.find_first_of("\t\n"));
    return symbol;
}

}  // namespace

Result<std::map<std::string, std::uint64_t>> find_kernel_symbols(
    std::span<const std::string_view> names, const std::string &path) {
    const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "re"));
    if (!file) {
        return fail_errno(path);
    }
    std::map<std::string, std::uint64_t> found;
    // The kernel's longest name has 512 bytes.
    for (char line[1024]; std::fgets(line, sizeof(line), file.get()) != nullptr;) {
        const Symbol symbol = parse(line);
        if (std::ranges::find(names, symbol.name) != names.end()) {
            found.emplace(symbol.name, symbol.address);
        }
    }
    return found;
}

Result<std::string> loaded_modules(const std::string &path) {
    constexpr std::size_t most = 1U << 20U;
    const auto text = read_start(path, most);
    if (!text) {
        // A kernel without modules has no such file.
        return text.error().code == ENOENT ? Result<std::string>("") : tl::unexpected(text.error());
    }
    // Only name and address: the use counts between them change all the time.
    std::string modules;
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string name;
        std::string unused;
        std::string address;
        words >> name >> unused >> unused >> unused >> unused >> address;
        modules += name + " " + address + "\n";
    }
    return modules;
}

}  // namespace gpusnoop::ebpf
