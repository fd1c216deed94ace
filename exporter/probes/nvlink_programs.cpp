#include "exporter/probes/nvlink_programs.h"

#include <bpf/libbpf.h>

#include <array>
#include <atomic>

#include "exporter/kernel/kprobe.h"
#include "exporter/kernel/record.h"
#include "exporter/kernel/ring.h"
#include "exporter/kernel/skeleton.h"
#include "exporter/kernel/symbols.h"
#include "nvlink.skel.h"

namespace gpusnoop::probes {

struct NvlinkPrograms::Loaded {
    kernel::Skeleton<nvlink_bpf> skeleton;
    std::unique_ptr<kernel::Ring> ring;
    kernel::KprobeSet probes;  // detached before the others go
    std::atomic<std::uint64_t> undecodable = 0;
};

namespace {

// By enum nvlink_op.
constexpr std::array<std::string_view, NVLINK_OP_COUNT> helpers = {"nvlink_strcpy", "nvlink_memcpy",
                                                                   "nvlink_memset"};

}  // namespace

std::string_view nvlink_function(std::uint32_t op) {
    return helpers.at(op);
}

NvlinkPrograms::NvlinkPrograms() : loaded_(std::make_unique<Loaded>()) {}
NvlinkPrograms::~NvlinkPrograms() = default;

Result<std::unique_ptr<NvlinkPrograms>> NvlinkPrograms::load(const config::Config::Nvlink &config,
                                                             OnRecord on_record) {
    if (const auto usable = kernel::check_kprobes(); !usable) {
        return tl::unexpected(usable.error());
    }
    std::unique_ptr<NvlinkPrograms> programs(new NvlinkPrograms());
    Loaded &loaded = *programs->loaded_;
    loaded.skeleton.reset(nvlink_bpf::open());
    if (!loaded.skeleton) {
        return fail_errno("open the BPF programs");
    }
    bpf_map__set_max_entries(loaded.skeleton->maps.calls, config.ring_bytes);
    loaded.skeleton->rodata->kernel_stack_bytes = kernel::kernel_stack_bytes();
    if (const int error = nvlink_bpf::load(loaded.skeleton.get()); error != 0) {
        return fail_errno("load the BPF programs", -error);
    }
    auto ring = kernel::Ring::open(
        bpf_map__fd(loaded.skeleton->maps.calls),
        [&loaded, on_record = std::move(on_record)](std::span<const std::byte> bytes) {
            const auto record = kernel::decode<nvlink_record>(bytes);
            if (record && record->op < NVLINK_OP_COUNT) {
                on_record(*record);
            } else {
                loaded.undecodable++;
            }
        });
    if (!ring) {
        return tl::unexpected(ring.error());
    }
    loaded.ring = std::move(*ring);
    return programs;
}

Result<std::size_t> NvlinkPrograms::look() {
    const auto modules = kernel::loaded_modules();
    if (!modules) {
        return tl::unexpected(modules.error());
    }
    if (*modules == modules_) {
        return loaded_->probes.functions();
    }
    auto found = kernel::find_kernel_symbols(helpers);
    if (!found) {
        return tl::unexpected(found.error());
    }
    modules_ = *modules;
    if (*found == helpers_) {
        return loaded_->probes.functions();
    }
    helpers_ = *std::move(found);
    loaded_->probes = {};
    const auto &programs = loaded_->skeleton->progs;
    Result<> last;
    for (std::size_t op = 0; op < helpers.size(); op++) {
        const std::string name(helpers.at(op));
        if (!helpers_.contains(name)) {
            continue;
        }
        if (const auto attached =
                loaded_->probes.attach(programs.helper_begins, programs.helper_ends, {name, op});
            !attached) {
            last = attached;
        }
    }
    if (!last) {
        modules_ = "to look again";
        helpers_.clear();
        return tl::unexpected(last.error());
    }
    return loaded_->probes.functions();
}

void NvlinkPrograms::drain() {
    loaded_->ring->drain_to(loaded_->ring->produced());
}
std::uint64_t NvlinkPrograms::undecodable() const {
    return loaded_->undecodable;
}
int NvlinkPrograms::account_map() const {
    return bpf_map__fd(loaded_->skeleton->maps.account);
}
kernel::Runs NvlinkPrograms::runs() const {
    return kernel::runs_of(loaded_->skeleton->obj);
}

}  // namespace gpusnoop::probes
