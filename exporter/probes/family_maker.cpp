#include "exporter/probes/family_maker.h"

#include <utility>

namespace gpusnoop::probes {

namespace {

using series::Label;
using series::Type;

std::vector<Label> labels_of(bool pid_label, std::vector<Label> own) {
    std::vector<Label> labels = {{"comm"}, {"container"}};
    if (pid_label) {
        labels.push_back({"pid"});
    }
    labels.insert(labels.end(), own.begin(), own.end());
    return labels;
}

}  // namespace

Budget budget_of(const config::Config::Series &series) {
    return [series](std::string_view family) {
        const auto own = series.budgets.find(std::string(family));
        return own == series.budgets.end() ? series.budget : own->second;
    };
}

series::Family FamilyMaker::counter(std::string name, std::string help, std::vector<Label> own,
                                    double divisor) const {
    return make(std::move(name), std::move(help), Type::counter, std::move(own), divisor, {});
}

series::Family FamilyMaker::gauge(std::string name, std::string help, std::vector<Label> own,
                                  double divisor) const {
    return make(std::move(name), std::move(help), Type::gauge, std::move(own), divisor, {});
}

series::Family FamilyMaker::histogram(std::string name, std::string help, std::vector<Label> own,
                                      std::vector<std::uint64_t> bounds, double divisor) const {
    return make(std::move(name), std::move(help), Type::histogram, std::move(own), divisor,
                std::move(bounds));
}

series::Family FamilyMaker::make(std::string name, std::string help, Type type,
                                 std::vector<Label> own, double divisor,
                                 std::vector<std::uint64_t> bounds) const {
    name.insert(0, "gpusnoop_");
    const std::uint32_t budget = budget_(name);
    return series::Family({.name = std::move(name),
                           .help = std::move(help),
                           .type = type,
                           .labels = labels_of(pid_label_, std::move(own)),
                           .divisor = divisor,
                           .bounds = std::move(bounds)},
                          budget);
}

}  // namespace gpusnoop::probes
