#include "exporter/ebpf/kernel_types.h"

#include <bpf/btf.h>

#include <mutex>

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
