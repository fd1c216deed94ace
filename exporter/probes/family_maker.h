// Makes the families of one probe, each with the process's labels first: comm, container, and pid
// where it is asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/config/config.h"
#include "exporter/series/family.h"

namespace gpusnoop::probes {

// The budget of a family, by its full name.
using Budget = std::function<std::uint32_t(std::string_view)>;

Budget budget_of(const config::Config::Series &series);

class FamilyMaker {
public:
    // `budget` must outlive it.
    FamilyMaker(const Budget &budget, bool pid_label) : budget_(budget), pid_label_(pid_label) {}

    // Names without the prefix gpusnoop_; what is counted is shown divided by `divisor`.
    [[nodiscard]] series::Family counter(std::string name, std::string help,
                                         std::vector<series::Label> own, double divisor = 1) const;
    [[nodiscard]] series::Family gauge(std::string name, std::string help,
                                       std::vector<series::Label> own, double divisor = 1) const;
    [[nodiscard]] series::Family histogram(std::string name, std::string help,
                                           std::vector<series::Label> own,
                                           std::vector<std::uint64_t> bounds,
                                           double divisor = 1) const;

private:
    [[nodiscard]] series::Family make(std::string name, std::string help, series::Type type,
                                      std::vector<series::Label> own, double divisor,
                                      std::vector<std::uint64_t> bounds) const;

    const Budget &budget_;
    bool pid_label_;
};

}  // namespace gpusnoop::probes
