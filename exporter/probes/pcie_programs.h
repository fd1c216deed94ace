// The probe `pcie`'s BPF side: loading it, attaching it, and telling it which devices are wanted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bpf/pcie.h"
#include "exporter/base/result.h"
#include "exporter/config/config.h"
#include "exporter/kernel/object.h"

namespace gpusnoop::probes {

class PciePrograms {
public:
    // Gets a record per access; `undecodable` is of what was none.
    using OnRecord = std::function<void(const pcie_record &)>;

    // Loads, tells the devices, and attaches. Fails if it can be attached to no function.
    static Result<std::unique_ptr<PciePrograms>> load(const config::Config::Pcie &config,
                                                      OnRecord on_record);
    ~PciePrograms();
    PciePrograms(const PciePrograms &) = delete;
    PciePrograms &operator=(const PciePrograms &) = delete;

    // Hands over the records that are there.
    void drain();

    // Looks which devices of the configured classes there are now.
    void find_devices();

    [[nodiscard]] std::size_t functions() const;
    // Functions that could not be attached to.
    [[nodiscard]] std::size_t failures() const { return failures_; }
    [[nodiscard]] const std::set<std::uint64_t> &devices() const { return devices_; }
    [[nodiscard]] std::uint64_t undecodable() const;
    [[nodiscard]] int account_map() const;
    [[nodiscard]] kernel::Runs runs() const;

private:
    struct Loaded;

    explicit PciePrograms(config::Config::Pcie config);
    Result<> attach();
    void set_device(std::uint64_t device, bool wanted);

    config::Config::Pcie config_;
    std::unique_ptr<Loaded> loaded_;
    std::size_t failures_ = 0;
    std::set<std::uint64_t> devices_;
};

}  // namespace gpusnoop::probes
