// The probe `nvlink`'s BPF side: loading it, and attaching it while the driver is there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "bpf/nvlink.h"
#include "exporter/base/result.h"
#include "exporter/config/config.h"
#include "exporter/kernel/object.h"

namespace gpusnoop::probes {

// The function that an enum nvlink_op is about.
[[nodiscard]] std::string_view nvlink_function(std::uint32_t op);

class NvlinkPrograms {
public:
    using OnRecord = std::function<void(const nvlink_record &)>;

    // Loads, and attaches to nothing yet.
    static Result<std::unique_ptr<NvlinkPrograms>> load(const config::Config::Nvlink &config,
                                                        OnRecord on_record);
    ~NvlinkPrograms();
    NvlinkPrograms(const NvlinkPrograms &) = delete;
    NvlinkPrograms &operator=(const NvlinkPrograms &) = delete;

    // Of the thread that aggregates: hands over the records that are there.
    void drain();

    // Of one other thread: attaches to the helpers that there are, if these changed since it last
    // looked; a module that was loaded anew has them at other places. Gives how many it is attached
    // to, and fails where it could not be attached to one.
    Result<std::size_t> look();

    [[nodiscard]] std::uint64_t undecodable() const;
    [[nodiscard]] int account_map() const;
    [[nodiscard]] kernel::Runs runs() const;

private:
    struct Loaded;

    NvlinkPrograms();

    std::unique_ptr<Loaded> loaded_;
    std::string modules_ = "not looked yet";
    std::map<std::string, std::uint64_t> helpers_;
};

}  // namespace gpusnoop::probes
